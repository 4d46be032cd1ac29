"""The family certificate of a node, as a file that its operator puts into the node's directory (SPEC 7.1)."""

from pathlib import Path
from typing import Final

from restante.model.errors import Malformed
from restante.model.node_descriptor import FamilyCertificate
from restante.runtime.private_file import write_private

KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64


def load_certificate(path: Path) -> FamilyCertificate | None:
    """Return the certificate; None if the node has none and is its own family."""
    if not path.exists():
        return None
    try:
        raw = bytes.fromhex(path.read_text("ascii"))
    except ValueError:
        raw = b""
    if len(raw) != KEY_BYTES + SIGNATURE_BYTES:
        raise Malformed(f"{path} is no family certificate: 'restante node family' makes one")
    return FamilyCertificate(raw[:KEY_BYTES], raw[KEY_BYTES:])


def save_certificate(path: Path, certificate: FamilyCertificate) -> None:
    text = (certificate.operator_key + certificate.signature).hex() + "\n"
    path.unlink(missing_ok=True)  # a newer certificate replaces the one before
    write_private(path, [text.encode()])

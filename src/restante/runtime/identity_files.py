"""Identities and contact cards as files. A seed file is readable by its owner only, or it is not used (SPEC 8.6).

A seed is kept as it is, 32 bytes, or under a passphrase, and then the file alone is worth nothing.
"""

import json
from pathlib import Path
from typing import Final

from restante.crypto.identity import SEED_BYTES, Identity, checked_card
from restante.crypto.passphrase import (
    PASSPHRASE_ENTROPY_BYTES,
    ScryptCost,
    close_with_passphrase,
    is_under_passphrase,
    open_with_passphrase,
)
from restante.model.contact_card import ContactCard
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError, StoreUnusable
from restante.ports.entropy import Entropy
from restante.runtime.private_file import create_private, read_private
from restante.wire.address import parse_address, show_address

MAX_CARD_BYTES: Final = 16_384
MAX_IDENTITY_BYTES: Final = 256  # a seed has 32 bytes, one under a passphrase 85
_CARD_FIELDS: Final = ("address", "sealing_key", "agreement_key", "signature")


def create_identity(
    path: Path, entropy: Entropy, *, passphrase: str | None = None, cost: ScryptCost | None = None
) -> Identity:
    """A new identity, its seed kept at `path`, which must not exist yet."""
    seed = kept = entropy.draw(SEED_BYTES)
    if passphrase is not None:
        kept = close_with_passphrase(seed, passphrase, entropy=entropy.draw(PASSPHRASE_ENTROPY_BYTES), cost=cost)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnusable(f"the identity file cannot be written: {error}") from error
    if not create_private(path, kept):
        raise StoreUnusable(f"the identity file cannot be written: {path.name} exists already")
    return Identity(seed)


def load_identity(path: Path, *, passphrase: str | None = None) -> Identity:
    """The identity whose seed is at `path`; refused when others on this machine could read it."""
    kept = read_private(path, what="the identity file", limit_bytes=MAX_IDENTITY_BYTES)
    if not is_under_passphrase(kept):
        return Identity(kept)
    if passphrase is None:
        raise RestanteError(f"{path.name} is closed with a passphrase; give it", code=Code.AUTHENTICATION_FAILED)
    return Identity(open_with_passphrase(kept, passphrase))


def needs_passphrase(path: Path) -> bool:
    """Whether somebody has to be asked before `load_identity`."""
    return is_under_passphrase(read_private(path, what="the identity file", limit_bytes=MAX_IDENTITY_BYTES))


def write_card(card: ContactCard, path: Path) -> None:
    """A card is public: it holds no secret."""
    texts = (show_address(card.address), card.sealing_key.hex(), card.agreement_key.hex(), card.signature.hex())
    text = json.dumps(dict(zip(_CARD_FIELDS, texts, strict=True)))
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise StoreUnusable(f"the contact card cannot be written: {error}") from error


def read_card(path: Path) -> ContactCard:
    """A card somebody gave us, believed only when its signature holds."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_CARD_BYTES + 1)
    except OSError as error:
        raise RestanteError(f"the contact card cannot be read: {error}", code=Code.NOT_FOUND) from error
    if len(raw) > MAX_CARD_BYTES:
        raise Malformed(f"{path.name} is no contact card: it has more than {MAX_CARD_BYTES} bytes")
    return checked_card(_parse_card(raw, path.name))


def _parse_card(raw: bytes, name: str) -> ContactCard:
    try:
        fields = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # the latter for a file of nothing but brackets
        raise Malformed(f"{name} is no contact card: it is not JSON") from error
    found = [fields.get(key) for key in _CARD_FIELDS] if isinstance(fields, dict) else []
    texts = [text for text in found if isinstance(text, str)]
    if len(texts) != len(_CARD_FIELDS):
        raise Malformed(f"{name} is no contact card: it must have the texts {', '.join(_CARD_FIELDS)}")
    address, sealing_key, agreement_key, signature = texts
    try:
        return ContactCard(
            address=parse_address(address),
            sealing_key=bytes.fromhex(sealing_key),
            agreement_key=bytes.fromhex(agreement_key),
            signature=bytes.fromhex(signature),
        )
    except ValueError as error:
        raise Malformed(f"{name} is no contact card: {error}") from error

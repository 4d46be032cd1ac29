"""Read and write identity files. A seed file that other users could read is refused (SPEC 8.6).

The seed is stored as 32 bytes or encrypted with a passphrase.
"""

from pathlib import Path
from typing import Final

from restante.crypto.identity import SEED_BYTES, Identity
from restante.crypto.passphrase import (
    PASSPHRASE_ENTROPY_BYTES,
    ScryptCost,
    decrypt_with_passphrase,
    encrypt_with_passphrase,
    is_under_passphrase,
)
from restante.model.error_codes import Code
from restante.model.errors import RestanteError, StoreUnusable
from restante.ports.entropy import Entropy
from restante.runtime.private_file import create_private, read_private

MAX_IDENTITY_BYTES: Final = 256  # a seed has 32 bytes, an encrypted one 85


def create_identity(
    path: Path, entropy: Entropy, *, passphrase: str | None = None, cost: ScryptCost | None = None
) -> Identity:
    """Create an identity and write its seed to `path`, which must not exist."""
    seed = stored = entropy.draw(SEED_BYTES)
    if passphrase is not None:
        stored = encrypt_with_passphrase(seed, passphrase, entropy=entropy.draw(PASSPHRASE_ENTROPY_BYTES), cost=cost)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnusable(f"the identity file cannot be written: {error}") from error
    if not create_private(path, stored):
        raise StoreUnusable(f"the identity file cannot be written: {path.name} exists already")
    return Identity(seed)


def load_identity(path: Path, *, passphrase: str | None = None) -> Identity:
    """Load the identity whose seed is at `path`. Raise if other users of this machine could read the file."""
    stored = read_private(path, what="the identity file", limit_bytes=MAX_IDENTITY_BYTES)
    if not is_under_passphrase(stored):
        return Identity(stored)
    if passphrase is None:
        raise RestanteError(
            f"{path.name} is encrypted with a passphrase, and none was given", code=Code.AUTHENTICATION_FAILED
        )
    return Identity(decrypt_with_passphrase(stored, passphrase))


def needs_passphrase(path: Path) -> bool:
    """Return whether `load_identity` needs a passphrase for this file."""
    return is_under_passphrase(read_private(path, what="the identity file", limit_bytes=MAX_IDENTITY_BYTES))

"""The key that signs the manifests of a journal's segments (SPEC 13.1).

It is an Ed25519 key of its own, derived from nothing: an address must never appear in a journal.
"""

from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from restante.model.ids import exactly

JOURNAL_SEED_BYTES: Final = 32


class JournalKey:
    """The secret key. `public` is what an operator enrols."""

    __slots__ = ("_key", "public")

    def __init__(self, seed: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(exactly(seed, JOURNAL_SEED_BYTES, "journal key"))
        self.public = self._key.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return f"JournalKey({self.public.hex()})"

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)

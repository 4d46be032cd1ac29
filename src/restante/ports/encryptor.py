"""Encrypts outbox entries when they are leased: first, or again for another session (SPEC 3.1, 3.4, 8.7)."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from restante.model.ids import PayloadHash, SessionTag
from restante.model.outbox_entry import OutboxEntry
from restante.policy.failures import Failure


class Encrypted(NamedTuple):
    """The sealed bytes of an entry, and the session and number under which it was encrypted.

    `is_again`: it was encrypted before, in another session.
    """

    payload: bytes
    payload_hash: PayloadHash
    session_tag: SessionTag
    sequence: int
    is_again: bool = False


class EncryptFailed(NamedTuple):
    """The entry could not be encrypted: no key of the recipient (E005), or our own failure (E008)."""

    failure: Failure


class Encryptor(Protocol):
    """Called inside the transaction that leases the entries; what it changes (ratchet, numbers) commits with them."""

    def encrypt(self, entries: Sequence[OutboxEntry], *, now_ms: int) -> list[Encrypted | EncryptFailed]:
        """Return one result for each entry, in their order. `sealed_plaintext` of each entry is loaded."""
        ...

"""Derive the keys under which nodes store mail and prekey records, from blinded keys (SPEC 7.2, 7.6)."""

import hashlib
from functools import lru_cache
from typing import Final

from restante.model.ids import BlindedKey, InboxKey, NodeKey, blinded_key, node_key
from restante.wire.field_checks import check_number

RECORD_KEY_BYTES: Final = 32
MAX_BUCKET: Final = 0xFFFF_FFFF_FFFF_FFFF
_INBOX: Final = b"inbox:"
_KEYS: Final = b"keys:"


@lru_cache(maxsize=4_096)  # puts, proofs and blocks of an hour name few keys
def mesh_inbox_key(blinded: BlindedKey, bucket: int) -> InboxKey:
    """Return the key of an inbox in the mesh for one time bucket. A node checks a put with it (SPEC 7.10)."""
    check_number(bucket, "time bucket", high=MAX_BUCKET)
    return InboxKey(hashlib.sha256(_INBOX + blinded_key(blinded) + bucket.to_bytes(8, "big")).digest())


def blinded_relay_inbox_key(blinded: BlindedKey, relay: NodeKey) -> InboxKey:
    """Return the key of an inbox at a named relay: the relay's node key replaces the time bucket."""
    return InboxKey(hashlib.sha256(_INBOX + blinded_key(blinded) + node_key(relay)).digest())


def record_key_of(blinded: BlindedKey) -> bytes:
    """Return the key of the prekey record that this blinded key of the period signs (SPEC 7.6)."""
    return hashlib.sha256(_KEYS + blinded_key(blinded)).digest()

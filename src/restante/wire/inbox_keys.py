"""Derive the keys under which nodes store mail and prekeys of an address (SPEC 7.2, 7.6).

A key reveals nothing about the address until its owner reads there.
"""

import hashlib
from functools import lru_cache
from typing import Final

from restante.model.errors import OutOfRange
from restante.model.ids import Address, InboxKey, NodeId, NodeKey, address, node_key

BUCKET_MS: Final = 3_600_000
MAX_BUCKET: Final = 0xFFFF_FFFF_FFFF_FFFF
_INBOX: Final = b"inbox:"
_KEYS: Final = b"keys:"


def bucket_of(store_time_ms: int) -> int:
    """Return the time bucket (hours since 1970) in which a blob is stored."""
    if store_time_ms < 0:
        raise OutOfRange("store_time", store_time_ms, low=0, high=MAX_BUCKET, unit="ms")
    return store_time_ms // BUCKET_MS


def mesh_inbox_key(owner: Address, bucket: int) -> InboxKey:
    """Return the inbox key of `owner` in the mesh for that time bucket."""
    if not 0 <= bucket <= MAX_BUCKET:
        raise OutOfRange("bucket", bucket, low=0, high=MAX_BUCKET)
    return InboxKey(hashlib.sha256(_INBOX + address(owner) + bucket.to_bytes(8, "big")).digest())


def relay_inbox_key(owner: Address) -> InboxKey:
    """Return the inbox key of `owner` at a named relay, which has no time buckets."""
    return _relay_inbox_key(owner)


@lru_cache(maxsize=1_024)  # a recipient uses its own for every arrival
def _relay_inbox_key(owner: Address) -> InboxKey:
    return InboxKey(hashlib.sha256(_INBOX + address(owner)).digest())


def prekey_bundle_key(owner: Address) -> bytes:
    """Return the DHT key of the owner's prekey bundle."""
    return hashlib.sha256(_KEYS + address(owner)).digest()


def node_id_of(key: NodeKey) -> NodeId:
    """Return the node id: the position in the mesh and the name in journals (SPEC 7.1)."""
    return NodeId(hashlib.sha256(node_key(key)).digest())

"""Under which key mail and prekeys of an address are kept (SPEC 7.2, 7.6).

A key tells a node nothing about the address until its owner comes to read. Which buckets to read, and when, is
decided elsewhere.
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
    """The hour a blob is stored in, counted from 1970."""
    if store_time_ms < 0:
        raise OutOfRange("store_time", store_time_ms, low=0, high=MAX_BUCKET, unit="ms")
    return store_time_ms // BUCKET_MS


def mesh_inbox_key(owner: Address, bucket: int) -> InboxKey:
    """Where the mesh keeps what is stored for `owner` in that hour."""
    if not 0 <= bucket <= MAX_BUCKET:
        raise OutOfRange("bucket", bucket, low=0, high=MAX_BUCKET)
    return InboxKey(hashlib.sha256(_INBOX + address(owner) + bucket.to_bytes(8, "big")).digest())


def relay_inbox_key(owner: Address) -> InboxKey:
    """Where a named relay, which has no buckets, keeps what is stored for `owner`."""
    return _relay_inbox_key(owner)


@lru_cache(maxsize=1_024)  # a reader asks for its own with every letter
def _relay_inbox_key(owner: Address) -> InboxKey:
    return InboxKey(hashlib.sha256(_INBOX + address(owner)).digest())


def prekey_bundle_key(owner: Address) -> bytes:
    """Where the DHT keeps the signed prekeys of `owner`."""
    return hashlib.sha256(_KEYS + address(owner)).digest()


def node_id_of(key: NodeKey) -> NodeId:
    """Where a node stands in the mesh, and what journals call it (SPEC 7.1)."""
    return NodeId(hashlib.sha256(node_key(key)).digest())

"""Derive the key under which a relay stores the mail of an address, and the id of a node."""

import hashlib
from functools import lru_cache
from typing import Final

from restante.model.ids import Address, InboxKey, NodeId, NodeKey, address, node_key

_INBOX: Final = b"inbox:"


def relay_inbox_key(owner: Address) -> InboxKey:
    """Return the inbox key of `owner` at a named relay, which has no time buckets."""
    return _relay_inbox_key(owner)


@lru_cache(maxsize=1_024)  # a recipient uses its own for every arrival
def _relay_inbox_key(owner: Address) -> InboxKey:
    return InboxKey(hashlib.sha256(_INBOX + address(owner)).digest())


def node_id_of(key: NodeKey) -> NodeId:
    """Return the node id: the position in the mesh and the name in journals (SPEC 7.1)."""
    return NodeId(hashlib.sha256(node_key(key)).digest())

"""Derive the id of a node from its key."""

import hashlib

from restante.model.ids import NodeId, NodeKey, node_key


def node_id_of(key: NodeKey) -> NodeId:
    """Return the node id: the position in the mesh and the name in journals (SPEC 7.1)."""
    return NodeId(hashlib.sha256(node_key(key)).digest())

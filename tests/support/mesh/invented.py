"""Signed descriptors of nodes that do not exist."""

from ipaddress import ip_address

from restante.core.directory.descriptor_set import VALID_MS
from restante.core.mesh_proofs.descriptors import sign_descriptor
from restante.crypto.identity import Identity
from restante.model.node_descriptor import Endpoint, NodeDescriptor, Role


def invented_node(number: int, *, now_ms: int, host: str | None = None, port: int = 9) -> NodeDescriptor:
    """Return the descriptor of an invented node, which claims a network of its own. Nothing listens there."""
    identity = Identity(b"invented" + number.to_bytes(24, "big"))
    claimed = host or f"127.{100 + number // 250}.{1 + number % 250}.1"
    unsigned = NodeDescriptor(
        node_key=identity.node_key,
        onion_key=bytes(32),
        endpoints=(Endpoint(ip_address(claimed).packed, port),),
        roles=Role.STORAGE,
        issued_at_ms=now_ms,
        expires_at_ms=now_ms + VALID_MS,
    )
    return sign_descriptor(unsigned, identity)

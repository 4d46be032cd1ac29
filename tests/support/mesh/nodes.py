"""Descriptors without signatures, numbered, each its own family and network unless told otherwise."""

from restante.model.ids import NodeKey
from restante.model.node_descriptor import Endpoint, FamilyCertificate, NodeDescriptor, Role

NOW_MS = 1_800_000_000_000
HOURS_2_MS = 7_200_000


def node(
    number: int,
    *,
    family: int | None = None,
    network: int | None = None,
    roles: Role = Role.STORAGE,
    issued_at_ms: int = NOW_MS,
    ttl_ms: int = HOURS_2_MS,
    host: int = 1,
) -> NodeDescriptor:
    where = number if network is None else network
    certificate = None if family is None else FamilyCertificate(b"f" * 28 + family.to_bytes(4, "big"), bytes(64))
    return NodeDescriptor(
        node_key=NodeKey(b"n" * 28 + number.to_bytes(4, "big")),
        onion_key=bytes(32),
        endpoints=(Endpoint(bytes([10, where >> 8 & 255, where & 255, host]), 7700),),
        roles=roles,
        issued_at_ms=issued_at_ms,
        expires_at_ms=issued_at_ms + ttl_ms,
        certificate=certificate,
    )

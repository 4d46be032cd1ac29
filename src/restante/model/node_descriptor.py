"""What a node publishes about itself, and what follows from it: its id, its family and its networks (SPEC 7.1)."""

import hashlib
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Final

from restante.model.ids import NodeId, NodeKey

IPV4_BYTES: Final = 4
IPV6_BYTES: Final = 16
_IPV4_NETWORK_BYTES: Final = 3  # /24
_IPV6_NETWORK_BYTES: Final = 6  # /48
_MAPPED_PREFIX: Final = bytes(10) + b"\xff\xff"


class Role(IntFlag):
    """What a node does beside keeping the directory."""

    MAILBOX = 0x1
    """A relay that contacts name."""
    STORAGE = 0x2
    """Stores mail of the mesh."""
    HOP = 0x4
    """Forwards circuits."""

    @property
    def names(self) -> list[str]:
        """Return the names of the roles that are set, as the settings have them."""
        return [str(role.name).lower() for role in self]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a node is dialled: 4 or 16 bytes of an IP address, and a port."""

    ip: bytes
    port: int

    @property
    def network(self) -> bytes:
        """Return the /24 of an IPv4 address or the /48 of an IPv6 address. The sizes differ, so they never collide."""
        return self.ip[: _IPV4_NETWORK_BYTES if len(self.ip) == IPV4_BYTES else _IPV6_NETWORK_BYTES]

    @property
    def is_mapped(self) -> bool:
        """Return whether this is an IPv4 address written as IPv6 (::ffff:a.b.c.d): all of them would be one /48."""
        return len(self.ip) == IPV6_BYTES and self.ip.startswith(_MAPPED_PREFIX)

    def unmapped(self) -> "Endpoint":
        """Return the same endpoint; a mapped IPv4 address is written as IPv4."""
        return Endpoint(self.ip[-IPV4_BYTES:], self.port) if self.is_mapped else self


@dataclass(frozen=True, slots=True)
class FamilyCertificate:
    """An operator's signature over a node key. The node names it in its descriptor, so neither side can claim the
    other alone."""

    operator_key: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDescriptor:
    """A node's own description. `node_id`, `position`, `family` and `networks` are derived and never encoded."""

    node_key: NodeKey
    onion_key: bytes
    endpoints: tuple[Endpoint, ...]
    roles: Role
    issued_at_ms: int
    expires_at_ms: int
    certificate: FamilyCertificate | None = None
    signature: bytes = b""
    node_id: NodeId = field(init=False, compare=False)
    position: int = field(init=False, compare=False, repr=False)
    """The node id as a number; distances are XORs of positions."""
    family: bytes = field(init=False, compare=False, repr=False)
    networks: frozenset[bytes] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        node_id = hashlib.sha256(self.node_key).digest()
        object.__setattr__(self, "node_id", NodeId(node_id))
        object.__setattr__(self, "position", int.from_bytes(node_id, "big"))
        # Without a certificate the node is its own family.
        object.__setattr__(self, "family", self.certificate.operator_key if self.certificate else bytes(self.node_key))
        object.__setattr__(self, "networks", frozenset(each.network for each in self.endpoints))

"""How far an IP address reaches. A stranger's descriptor makes no node dial into its own machine or network."""

from collections.abc import Iterable
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address, ip_address

from restante.model.node_descriptor import Endpoint


class Scope(IntEnum):
    """From the narrowest to the widest."""

    LOOPBACK = 0
    LINK = 1
    PRIVATE = 2
    PUBLIC = 3


def scope_of(ip: bytes) -> Scope | None:
    """Return the scope of an address; None if no node can listen there."""
    address: IPv4Address | IPv6Address = ip_address(ip)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_unspecified or address.is_multicast:
        return None
    if address.is_loopback:
        return Scope.LOOPBACK
    if address.is_link_local:
        return Scope.LINK
    return Scope.PUBLIC if address.is_global else Scope.PRIVATE


def narrowest(endpoints: Iterable[Endpoint]) -> Scope:
    """Return the narrowest scope of a node's own endpoints. One that knows none of them counts as public."""
    return min((scope for each in endpoints if (scope := scope_of(each.ip)) is not None), default=Scope.PUBLIC)


def may_dial(endpoints: Iterable[Endpoint], *, own: Scope) -> bool:
    """Return whether all endpoints reach at least as far as the node's own scope."""
    return all((scope := scope_of(each.ip)) is not None and scope >= own for each in endpoints)

"""Sources: the network a client comes from, the unit in which a node shares its capacity (SPEC 6.6, 6.8)."""

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NewType

Source = NewType("Source", bytes)
"""The first 3 bytes of an IPv4 address (/24) or the first 6 of an IPv6 address (/48). Never logged, never stored."""

UNKNOWN_SOURCE: Final = Source(b"")
"""The source of what was stored before the node started, and of connections without an IP address."""

IPV4_PREFIX_BYTES: Final = 3
IPV6_PREFIX_BYTES: Final = 6


def source_of(host: str) -> Source:
    """Return the source of a peer's IP address; a mapped IPv4 address counts as IPv4."""
    try:
        found: IPv4Address | IPv6Address = ip_address(host.partition("%")[0])
    except ValueError:
        return UNKNOWN_SOURCE
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is None:
            return Source(found.packed[:IPV6_PREFIX_BYTES])
        found = found.ipv4_mapped
    return Source(found.packed[:IPV4_PREFIX_BYTES])

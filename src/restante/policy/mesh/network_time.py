"""The time that nodes and clients agree on: the own clock and the median offset of peers (SPEC 7.11)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

MOST_PEERS: Final = 15
FEWEST_FAMILIES: Final = 3
TOLERATED_OFFSET_MS: Final = 600_000
LATEST_MS: Final = 253_370_764_800_000
"""The beginning of the year 9999. Formats end with that year: peers cannot agree on a time that none can express."""


class PeerOffset(NamedTuple):
    """How far a peer's clock is ahead of ours, half of the round trip included."""

    family: bytes
    offset_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkTime:
    """The offset to add to the own clock. `is_agreed` is false if fewer than 3 families were heard; status says so."""

    offset_ms: int = 0
    is_agreed: bool = False

    @property
    def is_own_clock_wrong(self) -> bool:
        """Health warns; nothing blocks."""
        return abs(self.offset_ms) > TOLERATED_OFFSET_MS

    def at(self, own_clock_ms: int) -> int:
        return min(max(0, own_clock_ms + self.offset_ms), LATEST_MS)


def measure_offset(*, sent_at_ms: int, peer_time_ms: int, received_at_ms: int) -> int:
    """Return the peer's offset, assuming that request and answer took equally long."""
    return peer_time_ms - (sent_at_ms + received_at_ms) // 2


def agree(peers: Iterable[PeerOffset], *, needs_families: int = FEWEST_FAMILIES) -> NetworkTime:
    """Return network time from the first peer of each of up to 15 families.

    One vote a family: an operator with many nodes can't move the median. A private network sets `needs_families` to 1.
    """
    by_family: dict[bytes, int] = {}
    for peer in peers:
        if len(by_family) == MOST_PEERS:
            break
        by_family.setdefault(peer.family, peer.offset_ms)
    if len(by_family) < needs_families:
        return NetworkTime()
    offsets = sorted(by_family.values())
    middle = len(offsets) // 2
    median = offsets[middle] if len(offsets) % 2 else (offsets[middle - 1] + offsets[middle]) // 2
    return NetworkTime(offset_ms=median, is_agreed=True)

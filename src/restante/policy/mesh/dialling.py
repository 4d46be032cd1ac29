"""How often a node dials endpoints that others named (SPEC 7.1, 7.12). The time is an argument, in seconds.

Signed descriptors cost nothing to make: without these bounds a stranger could let all nodes of a mesh dial a victim, or
keep a node busy with dials that lead nowhere.
"""

from collections.abc import Collection
from typing import Final

from restante.model.sources import Source
from restante.policy.circuits.token_bucket import TokenBucket

DIALS_PER_S: Final = 32
DIAL_BURST: Final = 128
"""Of all dials. One costs about 4 ms of processor time if a node answers."""
SOURCE_DIALS_PER_S: Final = 16
SOURCE_DIAL_BURST: Final = 64
"""Of what one source brought: enough for a mesh of 64 nodes at once."""
NETWORK_DIALS_PER_S: Final = 1
NETWORK_DIAL_BURST: Final = 4
"""Into one /24 (/48), of which a directory holds at most 16 nodes."""
FIRST_BACK_OFF_MS: Final = 1_000
LONGEST_BACK_OFF_MS: Final = 3_600_000
_MOST_DOUBLINGS: Final = 12


def back_off_ms(failures: int) -> int:
    """Return how long a node waits after so many failed dials in a row: 1, 2, 4 … s, at most an hour."""
    return min(FIRST_BACK_OFF_MS << min(failures - 1, _MOST_DOUBLINGS), LONGEST_BACK_OFF_MS)


class DialPace:
    """Three token buckets: of all dials, of a source, of a network. A private network lifts the last one."""

    __slots__ = ("_all", "_is_private", "_networks", "_sources")

    def __init__(self, *, now_s: float, is_private: bool = False) -> None:
        self._all = TokenBucket(per_s=DIALS_PER_S, burst=DIAL_BURST, now_s=now_s)
        self._sources: dict[Source, TokenBucket] = {}
        self._networks: dict[bytes, TokenBucket] = {}
        self._is_private = is_private

    def allows_source(self, source: Source, now_s: float, dials: int = 1) -> bool:
        """Return whether so many endpoints that this source named may be dialled now, wherever they are."""
        of_source = self._sources.get(source)
        return self._all.has(dials, now_s) and (of_source is None or of_source.has(dials, now_s))

    def allows(self, source: Source, networks: Collection[bytes], now_s: float) -> bool:
        """Return whether what this source named may be dialled now: an endpoint in each network, which may repeat."""
        buckets = () if self._is_private else filter(None, map(self._networks.get, networks))
        return all(each.has(1, now_s) for each in buckets) and self.allows_source(source, now_s, len(networks))

    def spend(self, source: Source, networks: Collection[bytes], now_s: float) -> None:
        """Count a dial into each of the networks. Buckets that are full again are forgotten."""
        self._sources = {key: each for key, each in self._sources.items() if not each.has(each.burst, now_s)}
        self._networks = {key: each for key, each in self._networks.items() if not each.has(each.burst, now_s)}
        self._all.spend(len(networks), now_s)
        if source not in self._sources:
            bucket = TokenBucket(per_s=SOURCE_DIALS_PER_S, burst=SOURCE_DIAL_BURST, now_s=now_s)
            self._sources[source] = bucket
        self._sources[source].spend(len(networks), now_s)
        for network in networks:
            if network not in self._networks:
                bucket = TokenBucket(per_s=NETWORK_DIALS_PER_S, burst=NETWORK_DIAL_BURST, now_s=now_s)
                self._networks[network] = bucket
            self._networks[network].spend(1, now_s)

"""Hops that failed and are left out of new circuits for a while.

A guard names the hop that failed behind it. It could name all but its operator's until only those are left, so at most
a quarter of the hops are passed over, those that failed last.
"""

from typing import Final

from restante.model.ids import NodeId

PASSED_OVER_MS: Final = 600_000
PASSED_OVER_SHARE: Final = 4


class PassedOver:
    __slots__ = ("_until_ms",)

    def __init__(self) -> None:
        self._until_ms: dict[NodeId, int] = {}

    def add(self, node: NodeId, *, now_ms: int) -> None:
        self._until_ms.pop(node, None)  # the one that failed last comes last
        self._until_ms[node] = now_ms + PASSED_OVER_MS

    def clear(self) -> None:
        self._until_ms.clear()

    def of(self, hops: int, *, now_ms: int) -> frozenset[NodeId]:
        """Return those that are passed over in a mesh of so many hops."""
        failed = [(node, until_ms) for node, until_ms in self._until_ms.items() if until_ms > now_ms]
        self._until_ms = dict(failed[max(0, len(failed) - hops // PASSED_OVER_SHARE) :])
        return frozenset(self._until_ms)

"""Read up to 720 buckets after a long absence: few requests, and bodies oldest bucket first (SPEC 7.5).

Bodies of a bucket go to receiving only when all older buckets of the sync are read. So fewer messages wait in the
reorder buffer (9.4). What waits in memory for an older bucket is bounded.
"""

from collections.abc import Iterable
from typing import Final

from restante.model.ids import PayloadHash

MOST_ENTRIES: Final = 64
"""Keys in one FETCH (SPEC 7.12)."""
MOST_HELD_BYTES: Final = 64 * 1_024 * 1_024
"""Bodies that wait for an older bucket. Beyond that only bodies of the oldest bucket are fetched, which wait for none:
a node keeps at most 100 MB under a key (SPEC 6.6)."""
MOST_UNDER_WAY: Final = 1_024
"""Bodies that nodes are asked for at the same time: 5 MB of ordinary mail, 256 MB of the largest."""


class OldestFirst:
    """Releases the blobs of finished buckets in the order of the buckets."""

    __slots__ = ("_finished", "_left")

    def __init__(self, buckets: Iterable[int]) -> None:
        self._left = sorted(set(buckets), reverse=True)
        self._finished: dict[int, tuple[PayloadHash, ...]] = {}

    def finish(self, bucket: int, hashes: tuple[PayloadHash, ...]) -> list[tuple[int, tuple[PayloadHash, ...]]]:
        """Return the buckets that are released now, each with its blobs in order. A bucket counts once."""
        if bucket in self._left:
            self._finished.setdefault(bucket, hashes)
        released: list[tuple[int, tuple[PayloadHash, ...]]] = []
        while self._left and self._left[-1] in self._finished:
            oldest = self._left.pop()
            released.append((oldest, self._finished.pop(oldest)))
        return released

    @property
    def oldest(self) -> int | None:
        """The bucket whose blobs may go to receiving before it is finished; None if all are finished."""
        return self._left[-1] if self._left else None

    @property
    def is_over(self) -> bool:
        return not self._left


class BodyBudget:
    """How many bodies may be asked for: a list names hashes, so their sizes are known only when they come."""

    __slots__ = ("held_bytes", "under_way")

    def __init__(self) -> None:
        self.held_bytes = 0
        self.under_way = 0

    def may_ask(self, bodies: int, *, is_oldest: bool) -> bool:
        has_room = is_oldest or self.held_bytes < MOST_HELD_BYTES
        return has_room and self.under_way + bodies <= MOST_UNDER_WAY

    def asked(self, bodies: int) -> None:
        self.under_way += bodies

    def came(self, bodies: int, size_bytes: int) -> None:
        """A request for so many bodies was answered with bodies of this size."""
        self.under_way -= bodies
        self.held_bytes += size_bytes

    def released(self, size_bytes: int) -> None:
        self.held_bytes -= size_bytes

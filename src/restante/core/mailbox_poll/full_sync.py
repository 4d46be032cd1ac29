"""Read up to 720 buckets after a long absence: few requests, and bodies oldest bucket first (SPEC 7.5).

Bodies of a bucket go to receiving only when all older buckets of the sync are read. So fewer messages wait in the
reorder buffer (9.4).
"""

from collections.abc import Iterable
from typing import Final

from restante.model.ids import PayloadHash

MOST_ENTRIES: Final = 64
"""Keys in one FETCH (SPEC 7.12)."""


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

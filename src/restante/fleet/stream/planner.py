"""Which segments the next batch of the stream takes, and the commit of that plan before Spark hears of the batch.

Plans go to the table `segments`; stream/source numbers batches by them and tells Spark.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from restante.fleet.lake.delta import ConcurrentWriter
from restante.fleet.lake.enrolment_file import enrolment_stamp
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.new_files import list_files
from restante.fleet.lake.segments import DRAFT_PREFIXES
from restante.fleet.stream.batches import PLAN_APP, PLANNED, RETAIN, SEGMENTS, last_catalog, open_batches, open_segments
from restante.wire.segment_manifest import SEGMENT_SUFFIX


class Planner:
    """Chooses the segments of the next batch and commits the plan."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._segments = open_segments(lake)
        self._batches = open_batches(lake)
        self._taken = set(self._segments.read(["name"])["name"].to_pylist())

    def planned(self) -> int:
        self._segments.refresh()
        return self._segments.last(PLAN_APP)

    def plan_next(self, only: frozenset[str] | None, *, files: int, size_bytes: int) -> int:
        """Commit the next plan, if there is anything to take; return the last n."""
        n = self._segments.last(PLAN_APP)
        self._batches.refresh()
        if n > self._batches.last():
            return n  # the batch before is not done: what it rejects is not known yet
        chosen: list[dict[str, Any]] = []
        total = 0
        for name, status in sorted(self._new(only).items()):
            if len(chosen) >= files or (chosen and total + status[0] > size_bytes):
                break
            chosen.append(
                {"n": n + 1, "name": name, "status": PLANNED, "size_bytes": status[0], "changed_ns": status[1]}
            )
            total += status[0]
        if not chosen:
            return n
        rows = pa.Table.from_pylist(chosen, schema=SEGMENTS)
        file = self._segments.write(rows)
        try:
            self._segments.commit(n + 1, [file], app_id=PLAN_APP)
        except ConcurrentWriter:
            if self._has_retention(n + 1):
                return n + 1  # its plan came first; these segments follow in the next one
            if self._segments.last(PLAN_APP) > n:
                raise
            self._segments.commit(n + 1, [file], app_id=PLAN_APP)  # the end of a batch came between, no plan
        self._taken.update(row["name"] for row in chosen)
        return n + 1

    def _has_retention(self, n: int) -> bool:
        self._segments.refresh()
        return bool(len(self._segments.read(["n"], (pc.field("n") == n) & (pc.field("status") == RETAIN))))

    def _new(self, only: frozenset[str] | None) -> dict[str, tuple[int, int]]:
        """Segments not planned yet, and rejected ones that have changed since, or whose key may be enrolled now."""
        catalog = last_catalog(self._batches)
        rejected = {one.name: one for one in (catalog.rejected if catalog else ())}
        stamp = enrolment_stamp(self._lake.root) if any(one.enrolment for one in rejected.values()) else None

        def is_tried_again(name: str, status: tuple[int, int]) -> bool:
            one = rejected.get(name)
            if one is None:
                return False
            return (one.size_bytes, one.changed_ns) != status or (bool(one.enrolment) and one.enrolment != stamp)

        return {
            name: status
            for name, status in list_files(self._lake.segments).items()
            if name.endswith(SEGMENT_SUFFIX)
            and not name.startswith(DRAFT_PREFIXES)
            and (only is None or name in only)
            and (name not in self._taken or is_tried_again(name, status))
        }

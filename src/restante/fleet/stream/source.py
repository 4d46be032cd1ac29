"""The source of the stream's Structured Streaming query: which segments the next batch takes.

Its offset is {"n": 17}, the number of the last batch. `latestOffset` lists the segments, and commits the plan of batch
n + 1 to the table `segments` before it returns n + 1: the same n always means the same files. n counts for the life of
the lake and is never Spark's batch id. The rows of a batch are the numbers of the batches in it; the batch function
reads the plans (jobs/micro_batch).

Spark runs this in a process of its own beside the driver, which knows no SparkSession.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from restante.fleet.lake.delta import ConcurrentWriter
from restante.fleet.lake.enrolment_file import enrolment_stamp
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.new_files import list_files
from restante.fleet.lake.segments import DRAFT_PREFIXES
from restante.fleet.stream.batches import PLAN_APP, PLANNED, RETAIN, SEGMENTS, last_catalog, open_batches, open_segments
from restante.wire.segment_manifest import SEGMENT_SUFFIX

FORMAT: Final = "restante_segments"
FILES_PER_BATCH: Final = 10_000
BYTES_PER_BATCH: Final = 256 * 2**20
"""About four million rows: more cost memory, fewer make the state be written more often."""


class SegmentSource(DataSource):
    """Options: `lake`, the root; `filesPerBatch` and `bytesPerBatch`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return "n bigint"

    def streamReader(self, schema: StructType) -> "SegmentReader":  # noqa: ARG002 - there is only one
        return SegmentReader(
            self.options["lake"],
            files=int(self.options.get("filesPerBatch", FILES_PER_BATCH)),
            size_bytes=int(self.options.get("bytesPerBatch", BYTES_PER_BATCH)),
        )


class SegmentReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, root: str, *, files: int, size_bytes: int) -> None:
        self._lake = Lake(root)
        self._files = files
        self._size_bytes = size_bytes
        self._state: Planner | None = None
        self._only: frozenset[str] | None = None

    def initialOffset(self) -> dict[str, int]:
        """Without a checkpoint the stream goes on after its last committed batch."""
        return {"n": open_batches(self._lake).last()}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(self._files)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002 - the plan's own
        planner = self._planner()
        planned = planner.planned()
        if start["n"] < planned:
            return {"n": start["n"] + 1}  # planned before; done already where the checkpoint is an old one
        return {"n": planner.plan_next(self._only, files=self._files, size_bytes=self._size_bytes)}

    def prepareForTriggerAvailableNow(self) -> None:
        """Take only what is there now."""
        self._only = frozenset(list_files(self._lake.segments))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((start["n"], end["n"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        first, last = partition.value
        return iter([(n,) for n in range(first + 1, last + 1)])

    def commit(self, end: dict[str, int]) -> None:
        """Nothing to do: plans stay in the table."""

    def _planner(self) -> "Planner":
        if self._state is None:
            self._state = Planner(self._lake)
        return self._state

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_state": None}


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

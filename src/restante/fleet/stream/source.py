"""The source of the stream's Structured Streaming query: which segments the next batch takes.

Its offset is {"n": 17}, the number of the last batch. `latestOffset` lists the segments, and commits the plan of batch
n + 1 to the table `segments` before it returns n + 1: the same n always means the same files. n counts for the life of
the lake and is never Spark's batch id. The rows of a batch are the numbers of the batches in it; the batch function
reads the plans (jobs/micro_batch).

Spark runs this in processes of their own beside the driver, which know no SparkSession. One of them plans; the others,
new for each query and batch, only make these classes and count, so what plans (stream/planner) is imported where it is
used.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from restante.fleet.lake.layout import Lake

if TYPE_CHECKING:
    from restante.fleet.stream.planner import Planner

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
        from restante.fleet.stream.batches import open_batches  # noqa: PLC0415 - see above

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
        from restante.fleet.lake.new_files import list_files  # noqa: PLC0415 - see above

        self._only = frozenset(list_files(self._lake.segments))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((start["n"], end["n"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        first, last = partition.value
        return iter([(n,) for n in range(first + 1, last + 1)])

    def commit(self, end: dict[str, int]) -> None:
        """Nothing to do: plans stay in the table."""

    def _planner(self) -> "Planner":
        from restante.fleet.stream.planner import Planner  # noqa: PLC0415 - see above

        if self._state is None:
            self._state = Planner(self._lake)
        return self._state

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_state": None}

"""Scan all rows of the segments once: count verdicts and find event numbers that occur more than once.

One pass without a shuffle. If every event came once and well formed, every row is an event and no rows need comparing
(decision 0023). Otherwise transforms/validate compares the rows in question.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from restante.fleet.kernels.arrivals_schema import Words, binaries, halves
from restante.fleet.kernels.number_ranges import Runs, joined, repeated, runs_in
from restante.fleet.kernels.row_rules import row_faults
from restante.fleet.lake.delta import DataFile
from restante.fleet.spark.map_in_arrow import BatchFunction
from restante.fleet.stream.event_files import EventFiles
from restante.fleet.stream.rows import is_unusable
from restante.fleet.tables.journal_schema import JOURNAL_COLUMNS, SOURCE_FILE
from restante.fleet.transforms.validate import RowVerdict, validate_rows, with_faults

MOST_RUNS: Final = 20_000
"""Runs that a task reports, and repeated runs that are compared row by row; beyond that all rows are compared."""
_PREFIX_BYTES: Final = 8

FOUND: Final = (
    "source_file string, reason string, is_unusable boolean, rows bigint, first_id binary, last_id binary, file string"
)
_GROUP: Final = ("source_file", "reason", "is_unusable")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCount:
    """How many rows of a file got this verdict."""

    source_file: str
    verdict: RowVerdict
    reason: str | None
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prescan:
    """What is known before rows are validated."""

    well_formed: tuple[tuple[str, int], ...]
    """Rows without a fault, by file."""
    faulty: tuple[RowCount, ...]
    unusable: int
    """Well-formed arrivals that do not say what arrived where."""
    repeated: tuple[tuple[bytes, bytes], ...] | None
    """First and last event id of events that came more than once; None when it took too long to tell."""
    files: tuple[DataFile, ...] = ()
    """Files of the well-formed rows, where the survey was to write them."""

    @property
    def events_at_most(self) -> int:
        return sum(rows for _, rows in self.well_formed)

    def rows_by_file(self) -> dict[str, int]:
        """How many rows of each file were looked at."""
        read = Counter(dict(self.well_formed))
        for count in self.faulty:
            read[count.source_file] += count.rows
        return dict(read)

    @property
    def is_clean(self) -> bool:
        """Every row is an event."""
        return not self.faulty and self.repeated == ()


def survey(rows: DataFrame, write_to: str | None = None) -> Prescan:
    """Look at every row once.

    With `write_to`, the root of a lake, well-formed rows are written to files of its table `events` at the same time.
    They are the events if none came more than once; the caller commits or deletes them.
    """
    looked_at = rows.select(*JOURNAL_COLUMNS, SOURCE_FILE)
    return prescan_of(looked_at.mapInArrow(look_and_write(write_to), FOUND))


def prescan_of(found: DataFrame) -> Prescan:
    """Return what the rows that `look_and_write` gave say together."""
    counts: Counter[tuple[str, str | None, bool]] = Counter()
    ids: list[tuple[bytes, bytes]] = []
    files: list[DataFile] = []
    is_told = True
    for row in found.collect():
        if row["file"] is not None:
            files.append(DataFile(**json.loads(row["file"])))
        elif row["first_id"] is not None:
            ids.append((bytes(row["first_id"]), bytes(row["last_id"])))
        elif row["rows"]:
            counts[row["source_file"], row["reason"], row["is_unusable"]] += row["rows"]
        else:
            is_told = False
    well_formed = Counter({file: 0 for file, _, _ in counts})
    for (file, reason, _), number in counts.items():
        well_formed[file] += number if reason is None else 0
    faulty: Counter[tuple[str, str]] = Counter()
    for (file, reason, _), number in counts.items():
        if reason is not None:
            faulty[file, reason] += number
    return Prescan(
        well_formed=tuple(sorted(well_formed.items())),
        faulty=tuple(
            RowCount(source_file=file, verdict=RowVerdict.QUARANTINED, reason=reason, rows=number)
            for (file, reason), number in sorted(faulty.items())
        ),
        unusable=sum(number for (_, reason, unusable), number in counts.items() if unusable and reason is None),
        repeated=_repeated(ids) if is_told else None,
        files=tuple(files),
    )


def validate_prescanned(rows: DataFrame, known: Prescan, signed: frozenset[str] = frozenset()) -> DataFrame:
    """Do as `transforms.validate.validate_rows`, with as little work as the prescan allows."""
    if known.repeated is None:
        return validate_rows(rows, signed)
    if known.is_clean:
        return _validated(rows.withColumn("reason", sf.lit(None).cast("string")))
    checked = with_faults(rows)
    if not known.repeated:
        return _validated(checked)
    ids = [(first[:_PREFIX_BYTES], first, last) for first, last in known.repeated]
    came_again = rows.sparkSession.createDataFrame(ids, "prefix binary, first_id binary, last_id binary")
    is_among = (sf.substring("event_id", 1, _PREFIX_BYTES) == sf.col("prefix")) & sf.col("event_id").between(
        sf.col("first_id"), sf.col("last_id")
    )
    once = _validated(checked.join(sf.broadcast(came_again), is_among, "left_anti"))
    return once.unionByName(validate_rows(rows.join(sf.broadcast(came_again), is_among, "left_semi"), signed))


def tallies(validated: DataFrame, known: Prescan) -> tuple[RowCount, ...]:
    """How many rows of each file got which verdict: read from the survey where it says that already."""
    if known.repeated == ():
        good = (
            RowCount(source_file=file, verdict=RowVerdict.EVENT, reason=None, rows=number)
            for file, number in known.well_formed
        )
        return (*(count for count in good if count.rows), *known.faulty)
    return tallies_of(validated)


def tallies_of(validated: DataFrame) -> tuple[RowCount, ...]:
    """The same from the rows alone."""
    return tuple(
        RowCount(
            source_file=row[SOURCE_FILE], verdict=RowVerdict(row["verdict"]), reason=row["reason"], rows=row["count"]
        )
        for row in validated.groupBy(SOURCE_FILE, "verdict", "reason").count().collect()
    )


def count_of(found: Sequence[RowCount], verdict: RowVerdict | None = None) -> int:
    return sum(count.rows for count in found if verdict is None or count.verdict == verdict)


def rows_by_file(found: Sequence[RowCount]) -> dict[str, int]:
    read: Counter[str] = Counter()
    for count in found:
        read[count.source_file] += count.rows
    return dict(read)


def _validated(rows: DataFrame) -> DataFrame:
    """Rows with a `reason`, none of which came twice."""
    verdict = sf.when(sf.col("reason").isNotNull(), RowVerdict.QUARANTINED).otherwise(RowVerdict.EVENT)
    return rows.select(*JOURNAL_COLUMNS, SOURCE_FILE, verdict.alias("verdict"), "reason")


def look_and_write(root: str | None) -> BatchFunction:
    """Return what looks at the rows of one task; with the root of a lake it also writes their events."""

    def look(batches: Iterator[Any]) -> Iterator[Any]:
        if root is None:
            yield _look(batches, None)
            return
        with EventFiles(root) as files:
            yield _look(batches, files)

    return look


def _look(batches: Iterator[Any], files: EventFiles | None) -> Any:
    counts: Counter[tuple[str, str | None, bool]] = Counter()
    runs: list[Runs] = []
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        reasons = row_faults(rows)
        columns = [rows[SOURCE_FILE], reasons, pc.fill_null(is_unusable(rows), False)]
        groups = pa.table(columns, names=list(_GROUP)).group_by(list(_GROUP)).aggregate([([], "count_all")])
        for group in groups.to_pylist():
            counts[tuple(group[name] for name in _GROUP)] += group["count_all"]
        well_formed = rows.filter(pc.is_null(reasons)) if reasons.null_count < len(rows) else rows
        runs.append(runs_in(well_formed["event_id"].combine_chunks()))
        if files is not None:
            files.write(well_formed)
        if sum(map(len, runs)) > 2 * MOST_RUNS:
            runs = [joined(runs)]
    numbers = joined(runs)
    if len(numbers) > MOST_RUNS:
        counts["", None, False] = 0  # a count of nothing says that the runs are too many to tell
        numbers = joined([])
    return _told(counts, numbers, [] if files is None else files.close())


def _told(counts: Counter[tuple[str, str | None, bool]], numbers: Runs, files: Sequence[DataFile]) -> Any:
    """The counts, then the runs, then the files, as rows of one batch."""
    after = [None] * (len(numbers) + len(files))
    columns = [[*(key[place] for key in counts), *after] for place in range(len(_GROUP))]
    first, last = (_ids(numbers.writer, end) for end in (numbers.first, numbers.last))
    before, behind = (pa.nulls(count, pa.binary()) for count in (len(counts), len(files)))
    written = [json.dumps(asdict(file)) for file in files]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(columns[0], pa.string()),
            pa.array(columns[1], pa.string()),
            pa.array(columns[2], pa.bool_()),
            pa.array([*counts.values(), *after], pa.int64()),
            pa.concat_arrays([before, first, behind]),
            pa.concat_arrays([before, last, behind]),
            pa.array([*[None] * (len(counts) + len(numbers)), *written], pa.string()),
        ],
        [*_GROUP, "rows", "first_id", "last_id", "file"],
    )


def _ids(writer: Words, number: Words) -> Any:
    return binaries(np.column_stack([writer, number]).byteswap())


def _repeated(ids: Sequence[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes], ...] | None:
    first, last = (
        halves(pa.array(column, pa.binary())).byteswap()
        for column in ([one[0] for one in ids], [one[1] for one in ids])
    )
    found = repeated(Runs(first[:, 0], first[:, 1], last[:, 1]))
    if len(found) > MOST_RUNS:
        return None
    return tuple(
        zip(_ids(found.writer, found.first).to_pylist(), _ids(found.writer, found.last).to_pylist(), strict=True)
    )

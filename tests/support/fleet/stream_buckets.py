"""A bucket of a stream fed by hand, without Spark: rows as they come out of segments, and what its tables hold."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from restante.fleet.kernels.arrivals import classify_arrivals
from restante.fleet.kernels.arrivals_schema import EMPTY_STATE
from restante.fleet.stream.annotate import annotate_rows, with_annotations
from restante.fleet.stream.bucket_files import Bucket, BucketWriter, FileRef
from restante.fleet.stream.bucket_step import Counts, Step, advance
from restante.fleet.stream.duplicates import BatchFiles
from restante.fleet.stream.retention import without_days
from restante.fleet.stream.rows import COLUMNS, EVENTS, kernel_events
from support.fleet.arrival_traces import DEDUP, LIMITS, Told, told_by, told_by_table

Record = dict[str, Any]


def rows_read(rows: Iterable[Mapping[str, object]]) -> Any:
    """Rows as a task gets them from Spark; each file's name is the place of its one row."""
    named = [{**row, "source_file": str(place)} for place, row in enumerate(rows)]
    return pa.Table.from_pylist(named, schema=EVENTS)


class FedBucket:
    """What was fed so far is in `bucket`; every step is a commit of its own. `signed` names files."""

    def __init__(self, root: Path, signed: frozenset[str] = frozenset()) -> None:
        self.root = root
        self.signed = signed
        self.retained_from: str | None = None
        self.bucket = Bucket()
        self.counts = Counts()
        self.steps = 0
        self.claims: list[tuple[bytes, str]] = []

    def feed(self, records: Iterable[Record], reread: frozenset[str] = frozenset()) -> Step:
        rows = list(records)
        table = annotate_rows(pa.Table.from_pylist(rows, schema=EVENTS))
        step = advance(
            BucketWriter(str(self.root), 0, self.root / "cache"),
            self.bucket,
            table,
            files=BatchFiles(
                reread=reread,
                signed=self.signed & {row["source_file"] for row in rows},
                find_signed=self.signed.intersection,
                find_claimed=self._claimed,
            ),
            order=LIMITS,
            dedup=DEDUP,
            retained_from=self.retained_from,
            n=self.steps,
        )
        self.bucket, self.counts, self.steps = step.bucket, self.counts + step.counts, self.steps + 1
        self.claims += [(row["event_id"], row["source_file"]) for row in rows if row["source_file"] in self.signed]
        return step

    def _claimed(self, ids: Iterable[bytes], without: frozenset[str]) -> frozenset[bytes]:
        return frozenset(ids) & {event for event, file in self.claims if file not in without}

    def retain(self, first_day: str) -> None:
        """Delete earlier days."""
        writer = BucketWriter(str(self.root), 0, self.root / "cache")
        self.bucket = without_days(writer, self.bucket, first_day, order=LIMITS, dedup=DEDUP)
        self.retained_from = first_day

    def table(self, what: str) -> list[Record]:
        return self.rows(getattr(self.bucket, what))

    def rows(self, files: Iterable[FileRef]) -> list[Record]:
        writer = BucketWriter(str(self.root), 0, self.root / "cache")
        return [row for ref in files for row in writer.read_table(ref).to_pylist()]

    def events(self) -> Counter[tuple[Any, ...]]:
        return Counter(tuple(row[name] for name in COLUMNS) for row in self.table("events"))

    def signed_events(self) -> set[bytes]:
        return {row["event_id"] for row in self.table("events") if row["source_file"] in self.signed}

    def quarantine(self) -> Counter[tuple[Any, ...]]:
        return Counter(tuple(row.values()) for row in self.table("quarantine"))

    def told(self) -> dict[bytes, Told]:
        writer = BucketWriter(str(self.root), 0, self.root / "cache")
        found: dict[bytes, Told] = {}
        for ref in self.bucket.arrivals:
            for event, told in told_by_table(writer.read_table(ref)).items():
                assert event not in found
                found[event] = told
        return found


def told_at_once(rows: Sequence[Mapping[str, Any]]) -> dict[bytes, Told]:
    """What the kernel says of all these events together."""
    events = pa.Table.from_pylist([dict(row) for row in rows], schema=EVENTS)
    return told_by(
        classify_arrivals(kernel_events(with_annotations(events)), EMPTY_STATE, order=LIMITS, dedup=DEDUP).classified
    )

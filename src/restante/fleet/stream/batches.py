"""Committed batches of the stream, and how one becomes visible in all tables (SPEC 13.9).

The order of a commit: the plan of batch n in `segments` (stream/source), then row n of `batches`, which has all added
and removed files of all tables: the commit point. Then each table takes its files. Before row n nothing is visible;
after it, any process that opens the tables applies the row and never computes anything again. A second driver makes
the commit of the row fail.
"""

import json
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from restante.fleet.lake.delta import STREAM_RETENTION_H, ConcurrentWriter, DataFile, DeltaFiles, exists
from restante.fleet.lake.layout import Lake
from restante.fleet.stream.bucket_files import Bucket, FileRef
from restante.fleet.stream.bucket_step import Counts
from restante.fleet.stream.state_tables import KINDS, StateTable
from restante.model.errors import ConfigurationInvalid, StoreUnusable
from restante.model.provenance import SegmentClaim

FORMAT: Final = 4
MERGE_INTERVAL: Final = 64
"""Batches after which the files of `segments` and `batches` become one again; redo data of older batches is dropped."""
CHANGES_KEPT: Final = 512
"""Batches of which it is known which events came and went."""
PLAN_APP: Final = "restante-plan"
PLANNED, READ, REJECTED, RETAIN = "planned", "read", "rejected", "retain"

SEGMENTS: Final = pa.schema(
    [
        ("n", pa.int64()),
        ("name", pa.string()),
        ("status", pa.string()),
        ("size_bytes", pa.int64()),
        ("changed_ns", pa.int64()),
        ("rows", pa.int64()),
        ("reason", pa.string()),
        ("claim", pa.string()),
    ]
)
"""Every segment that was planned for batch n, and what became of it: `read`, or `rejected` with a reason. `claim` is
what its manifest says as JSON, if an enrolled key signed it. A batch that deletes old days has one row, `retain`, whose
name is the first day that stays."""
BATCHES: Final = pa.schema(
    [
        ("n", pa.int64()),
        ("at_ms", pa.int64()),
        ("segments", pa.int64()),
        ("rows", pa.int64()),
        *((name, pa.int64()) for name in ("events", "duplicates", "quarantined", "late", "reprocessed", "retracted")),
        ("redo", pa.binary()),
        ("changes", pa.binary()),
    ]
)
"""One row a batch: what it read, what came of it, its redo data, and its `EventChanges`, both as compressed JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventChanges:
    """Files of the lake: `came` have the new events of some batches and nothing else. Among the rows of `went` are all
    events that were contradicted, with the reason CONFLICT."""

    came: tuple[str, ...] = ()
    went: tuple[str, ...] = ()

    def __add__(self, other: "EventChanges") -> "EventChanges":
        return EventChanges(came=self.came + other.came, went=self.went + other.went)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedFile:
    """A file that could not be read, or not to its end. It is tried again when its size or its time changes.

    One that an unknown key signed is also tried again when other keys are enrolled: `enrolment` is the stamp of those
    that were.
    """

    name: str
    reason: str
    size_bytes: int
    changed_ns: int
    rows_taken: int = 0
    enrolment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """All live files of the stream after a batch, the files it rejected, and its counts since the first batch."""

    number: int = 0
    buckets: tuple[Bucket, ...]
    rejected: tuple[RejectedFile, ...] = ()
    rejected_rows: FileRef | None = None
    """The file of the quarantine that names the rejected files."""
    counts: Counts = field(default_factory=Counts)
    retained_from: str | None = None
    """The first day that retention left; None if it deleted none."""
    enrolment_serials: Mapping[str, int] = field(default_factory=dict)
    """Of each operator's public key the number of the newest list of enrolled keys that a batch checked signatures by.
    A key that is no longer configured keeps its number: it may come back, and so may an older list of it."""

    def refs(self, kind: str) -> dict[str, FileRef]:
        found = {ref.name: ref for bucket in self.buckets for ref in bucket.refs(kind)}
        if kind == "quarantine" and self.rejected_rows is not None:
            found[self.rejected_rows.name] = self.rejected_rows
        return found

    def as_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "Catalog":
        if raw["format"] != FORMAT:
            raise StoreUnusable(f"the stream's state has format {raw['format']}; this version reads format {FORMAT}")
        return cls(
            number=raw["number"],
            buckets=tuple(map(Bucket.from_json, raw["buckets"])),
            rejected=tuple(RejectedFile(**one) for one in raw["rejected"]),
            rejected_rows=None if raw["rejected_rows"] is None else FileRef(**raw["rejected_rows"]),
            counts=Counts(**raw["counts"]),
            retained_from=raw["retained_from"],
            enrolment_serials=raw["enrolment_serials"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRow:
    """One row of the table `segments`."""

    n: int
    name: str
    status: str
    size_bytes: int
    changed_ns: int
    rows: int = 0
    reason: str | None = None
    claim: str | None = None


def claim_of(row: Mapping[str, Any]) -> SegmentClaim | None:
    """What a row of `segments` says of a signed manifest."""
    return None if row["claim"] is None else SegmentClaim(**json.loads(row["claim"]))


class Batches:
    """The tables of one stream. Opening it finishes a batch whose redo row is committed."""

    def __init__(self, lake: Lake, *, buckets: int) -> None:
        self.lake = lake
        self.segments = open_segments(lake)
        self.batches = open_batches(lake)
        self.tables = {kind: _open(lake, table) for kind, table in KINDS.items()}
        self.catalog = last_catalog(self.batches) or Catalog(buckets=(Bucket(),) * buckets)
        self.roll_forward()

    @property
    def done(self) -> int:
        """The last committed batch."""
        return self.batches.last()

    def plan(self, n: int) -> list[SegmentRow]:
        """The segments of batch `n`, as the source planned them."""
        self.segments.refresh()
        rows = self.segments.read(where=(pc.field("n") == n) & (pc.field("status") == PLANNED))
        return sorted((SegmentRow(**row) for row in rows.to_pylist()), key=lambda row: row.name)

    def planned_retention(self, n: int) -> str | None:
        """The first day that stays, if batch `n` is planned to delete earlier ones."""
        self.segments.refresh()
        rows = self.segments.read(["name"], (pc.field("n") == n) & (pc.field("status") == RETAIN)).to_pylist()
        return rows[0]["name"] if rows else None

    def plan_retention(self, first_day: str) -> int:
        """Plan the next batch: it deletes the days before this one. Return its number."""
        n = self.done + 1
        row = SegmentRow(n=n, name=first_day, status=RETAIN, size_bytes=0, changed_ns=0)
        rows = pa.Table.from_pylist([asdict(row)], schema=SEGMENTS)
        self.segments.commit(n, [self.segments.write(rows)], app_id=PLAN_APP)
        return n

    def rows_since(self, n: int) -> int:
        """How many rows the batches after `n` read."""
        return int(pc.sum(self.batches.read(["rows"], pc.field("n") > n)["rows"]).as_py() or 0)

    def refresh(self) -> None:
        """Take over what another process committed."""
        for table in (self.segments, self.batches, *self.tables.values()):
            table.refresh()
        self.catalog = last_catalog(self.batches) or self.catalog
        self.roll_forward()

    def commit(
        self,
        catalog: Catalog,
        segments: Sequence[SegmentRow],
        counts: Counts,
        rows: int,
        changes: EventChanges = EventChanges(),  # noqa: B008 - frozen
    ) -> None:
        """Make `catalog` the state of the stream; `segments` is what became of the batch's plan."""
        n = catalog.number
        redo = {
            "tables": {kind: _changes(self.catalog, catalog, kind) for kind in KINDS},
            "segments": self._segment_changes(n, segments),
            "catalog": catalog.as_json(),
        }
        row = {
            "n": n,
            "at_ms": int(time.time() * 1_000),
            "segments": len(segments),
            "rows": rows,
            **asdict(counts),
            "redo": _packed(redo),
            "changes": _packed(asdict(changes)),
        }
        added, removed = self._batch_files(n, pa.Table.from_pylist([row], schema=BATCHES))
        self.batches.commit(n, [added], removed)
        self.catalog = catalog
        self._apply(n, redo)

    def roll_forward(self) -> None:
        """Apply the committed batches that some table does not have."""
        last = self.done
        behind = min([self.segments.last(), *(table.last() for table in self.tables.values())])
        if behind >= last:
            return
        for table in (self.segments, *self.tables.values()):
            table.refresh()  # another process may have applied them
        behind = min([self.segments.last(), *(table.last() for table in self.tables.values())])
        rows = self.batches.read(["n", "redo"], pc.field("n") > behind).sort_by("n").to_pylist()
        for row in rows:
            if row["redo"] is None:
                raise StoreUnusable(f"a table lacks batch {row['n']}, whose redo data is gone; start with --reset")
            self._apply(row["n"], _unpacked(row["redo"]))

    def vacuum(self) -> None:
        """Delete files that no table needs any more, also those of killed attempts."""
        self.roll_forward()
        for kind, table in self.tables.items():
            table.vacuum(retention_h=KINDS[kind].retention_h)
        for table in (self.segments, self.batches):
            table.vacuum(retention_h=STREAM_RETENTION_H)

    def _apply(self, n: int, redo: Mapping[str, Any]) -> None:
        for table, changes in (
            *((self.tables[kind], redo["tables"][kind]) for kind in KINDS),
            (self.segments, redo["segments"]),
        ):
            _catch_up(table, n, changes)

    def _segment_changes(self, n: int, rows: Sequence[SegmentRow]) -> dict[str, Any]:
        made = pa.Table.from_pylist([asdict(row) for row in rows], schema=SEGMENTS)
        removed: list[str] = []
        if n % MERGE_INTERVAL == 0:
            removed = list(self.segments.live())
            made = pa.concat_tables([self.segments.read().select(SEGMENTS.names).cast(SEGMENTS), made])
        return {"add": [asdict(self.segments.write(made))] if len(made) else [], "remove": removed}

    def _batch_files(self, n: int, row: Any) -> tuple[DataFile, list[str]]:
        if n % MERGE_INTERVAL:
            return self.batches.write(row), []
        old = self.batches.read().select(BATCHES.names).cast(BATCHES)
        nothing = pa.nulls(len(old), pa.binary())
        recent = pc.if_else(pc.greater(old["n"], n - CHANGES_KEPT), old["changes"], nothing)
        for name, column in (("redo", nothing), ("changes", recent)):
            old = old.set_column(BATCHES.get_field_index(name), BATCHES.field(name), column)
        return self.batches.write(pa.concat_tables([old, row])), list(self.batches.live())


def _catch_up(table: DeltaFiles, n: int, changes: Mapping[str, Any]) -> None:
    """Give the table the files of batch `n`, unless it has them: another process may be applying the same row."""
    if table.last() >= n:
        return
    added = [DataFile(**one) for one in changes["add"]]
    try:
        table.commit(n, added, changes["remove"])
    except ConcurrentWriter:
        table.refresh()
        if table.last() < n:  # what came between was a plan, not this batch
            table.commit(n, added, changes["remove"])


def _address(lake: Lake, table: StateTable) -> str:
    return f"{lake.root.rstrip('/')}/{table.folder}"


def _open(lake: Lake, table: StateTable) -> DeltaFiles:
    return DeltaFiles(_address(lake, table), table.delta, partition=table.partition, retention_h=table.retention_h)


def check_can_begin(lake: Lake) -> None:
    """A stream that begins must not find tables of a backfill: it would write beside them. Creates nothing."""
    if exists(lake.stream_table("batches")):
        return
    if any(exists(_address(lake, table)) and _open(lake, table).live() for table in KINDS.values()):
        raise ConfigurationInvalid(
            f"{lake.tables} has tables of a backfill; 'restante fleet backfill' brings them up to date, "
            "'restante fleet stream --reset' replaces them"
        )


def open_segments(lake: Lake) -> DeltaFiles:
    return DeltaFiles(lake.stream_table("segments"), SEGMENTS, retention_h=STREAM_RETENTION_H)


def open_batches(lake: Lake) -> DeltaFiles:
    return DeltaFiles(lake.stream_table("batches"), BATCHES, retention_h=STREAM_RETENTION_H)


def last_catalog(batches: DeltaFiles) -> Catalog | None:
    """The state after the last committed batch; None before the first."""
    last = batches.last()
    if not last:
        return None
    [row] = batches.read(["redo"], pc.field("n") == last).to_pylist()
    return Catalog.from_json(_unpacked(row["redo"])["catalog"])


def changes_since(batches: DeltaFiles, n: int) -> EventChanges | None:
    """Which events came and went after batch `n`; None if that is not known any more."""
    rows = batches.read(["n", "changes"], pc.field("n") > n).sort_by("n").to_pylist()
    if any(row["changes"] is None for row in rows):
        return None
    each = (_unpacked(row["changes"]) for row in rows)
    return sum((EventChanges(came=tuple(one["came"]), went=tuple(one["went"])) for one in each), EventChanges())


def _packed(value: Mapping[str, Any]) -> bytes:
    return zlib.compress(json.dumps(value).encode(), 1)


def _unpacked(raw: bytes) -> Any:
    return json.loads(zlib.decompress(raw))


def _changes(before: Catalog, after: Catalog, kind: str) -> dict[str, Any]:
    old, new = before.refs(kind), after.refs(kind)
    folder = f"{KINDS[kind].folder}/"
    added = (new[name] for name in new.keys() - old.keys())
    return {
        "add": [asdict(_data_file(ref, folder)) for ref in added],
        "remove": sorted(name.removeprefix(folder) for name in old.keys() - new.keys()),
    }


def _data_file(ref: FileRef, folder: str) -> DataFile:
    return DataFile(path=ref.name.removeprefix(folder), size_bytes=ref.size_bytes, rows=ref.rows, day=ref.day)


def with_rejected(
    catalog: Catalog, names_read: Iterable[str], rejected: Sequence[RejectedFile]
) -> tuple[RejectedFile, ...]:
    """The rejected files after a batch that read `names_read` and rejected some of them."""
    read = set(names_read)
    still = [one for one in catalog.rejected if one.name not in read]
    return tuple(sorted([*still, *rejected], key=lambda one: one.name))

"""One step of a bucket: rows that have come in, and its files after them. The same rows in any parts and any order give
the same tables as all of them at once (SPEC 13.2, 13.7).

Nothing is changed in place, and nothing here is true before the commit that names it.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.fleet.kernels.arrivals_words import UNUSABLE
from restante.fleet.stream.annotate import with_annotations
from restante.fleet.stream.bucket_files import (
    DAY_MS,
    EPOCH,
    Bucket,
    BucketWriter,
    FileRef,
    rewrite_without,
    sort_by_event,
)
from restante.fleet.stream.compaction import FAN, compact
from restante.fleet.stream.duplicates import (
    BatchFiles,
    Copies,
    classify_duplicates,
    is_contradicted,
    retract,
    without_unusable,
)
from restante.fleet.stream.known_numbers import NO_RANGES, ids_of, with_numbers
from restante.fleet.stream.retention import by_day, without_late
from restante.fleet.stream.rows import EVENTS, QUARANTINE, in_order, is_unusable, session_tags, taken, with_reason
from restante.fleet.stream.sessions import update_sessions
from restante.policy.dedup import DedupLimits
from restante.policy.reorder_limits import OrderLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Rows that became events, duplicates or quarantined, and late events.

    Sessions are reprocessed for late and `retracted` events, and if they had been evicted. An event is retracted when a
    later row contradicts it.
    """

    events: int = 0
    duplicates: int = 0
    quarantined: int = 0
    late: int = 0
    reprocessed: int = 0
    retracted: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            events=self.events + other.events,
            duplicates=self.duplicates + other.duplicates,
            quarantined=self.quarantined + other.quarantined,
            late=self.late + other.late,
            reprocessed=self.reprocessed + other.reprocessed,
            retracted=self.retracted + other.retracted,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A bucket after some rows.

    `came` are the files whose rows are the new events and nothing else. The rows of `went` that have the reason
    CONFLICT name all events that are none any more.
    """

    bucket: Bucket
    counts: Counts
    came: tuple[FileRef, ...]
    went: tuple[FileRef, ...]


def advance(
    writer: BucketWriter,
    before: Bucket,
    rows: Any,
    *,
    order: OrderLimits,
    dedup: DedupLimits,
    files: BatchFiles = BatchFiles(),  # noqa: B008 - frozen
    retained_from: str | None = None,
    n: int = 0,
) -> Step:
    """Apply `rows` (INCOMING, stream/rows), which are of `files`, to the bucket, in batch `n`.

    Days before `retained_from` were deleted; rows of these do not become events again.
    """
    is_sound = pc.is_null(rows["reason"]).to_numpy()
    refused = taken(rows, ~is_sound).select(QUARANTINE.names)
    ranges = pa.concat_tables([NO_RANGES, *map(writer.read_state, before.numbers)])
    sound = in_order(taken(rows, is_sound), files.signed)
    days = by_day(writer, before, sound, ranges, retained_from=retained_from)
    copies = classify_duplicates(writer, before, days.kept, ranges, files)
    copies, late = without_late(copies, days.late, retained_from=retained_from)
    bucket, released = _without_released(writer, before, copies)
    bucket, gone, replaced, repeats_gone = _without_retracted(writer, bucket, copies)
    bucket = _without_refiled(writer, bucket, copies)
    unusable = copies.fresh.filter(is_unusable(copies.fresh))
    odd = [
        refused,
        late,
        copies.conflicting,
        replaced,
        with_reason(unusable, UNUSABLE),
        with_reason(copies.refiled.filter(is_unusable(copies.refiled)), UNUSABLE),
    ]
    came = writer.write_table("events", copies.fresh)
    refiled = writer.write_table("events", sort_by_event(copies.refiled))
    refused_now = writer.write_table("quarantine", sort_by_event(pa.concat_tables(odd)))
    overruled = writer.write_table("quarantine", sort_by_event(copies.overruled))  # none of `went`: the event stays
    repeats = pa.concat_tables([copies.repeats, days.repeats])
    bucket = _tidied(
        writer, bucket, _open_days(copies.fresh, n, writer)
    )  # before new files: these stay apart for a batch
    bucket = replace(
        bucket,
        events=(*bucket.events, *refiled, *came),
        repeats=(*bucket.repeats, *writer.write_table("repeats", sort_by_event(repeats))),
        quarantine=(*bucket.quarantine, *overruled, *refused_now),
    )
    new_ids = pa.chunked_array([*copies.new_ids.chunks, *days.late_ids.chunks], pa.binary())
    if len(new_ids):
        bucket = replace(bucket, numbers=writer.write_state("numbers", with_numbers(ranges, new_ids)))
    lost = with_annotations(gone)
    updated = update_sessions(
        writer,
        bucket,
        copies.fresh,
        broken_tags=pc.drop_null(session_tags(lost)),
        broken_ids=lost.filter(pc.is_valid(lost["annotated_event"]))["event_id"],
        order=order,
        dedup=dedup,
    )
    bucket = replace(
        bucket, arrivals=updated.arrivals, sessions=updated.sessions, seen=updated.seen, forgotten=updated.forgotten
    )
    counts = Counts(
        events=len(copies.fresh) - len(gone),
        # An event that goes by another file leaves a repeat for the one it takes.
        duplicates=len(repeats) - repeats_gone,
        quarantined=len(refused)
        + len(late)
        + len(copies.conflicting)
        + len(replaced)
        + len(copies.overruled)
        - released,
        late=updated.late + len(late),
        reprocessed=updated.reprocessed,
        retracted=len(gone),
    )
    return Step(bucket=bucket, counts=counts, came=came, went=refused_now if len(gone) else ())


def remove_file_rows(writer: BucketWriter, bucket: Bucket, name: str) -> tuple[Bucket, Counts]:
    """The bucket without the rows of one file that are not events, since it is to be read once more."""

    def is_of_file(table: Any) -> Any:
        return pc.equal(table["source_file"], name)

    def is_odd(table: Any) -> Any:
        return pc.and_(is_of_file(table), pc.not_equal(table["reason"], UNUSABLE))

    quarantine, odd = rewrite_without(writer, "quarantine", bucket.quarantine, is_odd, lambda _ref: True)
    repeats, copies = rewrite_without(writer, "repeats", bucket.repeats, is_of_file, lambda _ref: True)
    gone = Counts(quarantined=-sum(map(len, odd)), duplicates=-sum(map(len, copies)))
    return replace(bucket, quarantine=quarantine, repeats=repeats), gone


def _without_retracted(writer: BucketWriter, bucket: Bucket, copies: Copies) -> tuple[Bucket, Any, Any, int]:
    """The bucket; the events that are none any more; their rows for the quarantine, and how many of them are copies."""
    if not len(copies.retracted):
        return bucket, EVENTS.empty_table(), QUARANTINE.empty_table(), 0
    bucket, gone, replaced = retract(writer, bucket, copies.retracted)
    return bucket, gone, replaced, len(replaced) - len(gone)


def _without_released(writer: BucketWriter, bucket: Bucket, copies: Copies) -> tuple[Bucket, int]:
    """The bucket without the quarantined copies of events that a signed file has, and how many these are."""
    if not len(copies.released):
        return bucket, 0
    quarantine, gone = rewrite_without(
        writer,
        "quarantine",
        bucket.quarantine,
        lambda table: is_contradicted(table, copies.released),
        lambda _ref: True,
    )
    return replace(bucket, quarantine=quarantine), sum(map(len, gone))


def _without_refiled(writer: BucketWriter, bucket: Bucket, copies: Copies) -> Bucket:
    if not len(copies.refiled):
        return bucket
    ids = np.sort(ids_of(copies.refiled["event_id"]))
    events, _ = rewrite_without(
        writer,
        "events",
        bucket.events,
        lambda table: pa.array(np.isin(ids_of(table["event_id"]), ids)),
        lambda _ref: True,
    )
    return replace(bucket, events=events, quarantine=without_unusable(writer, bucket, ids))


def _tidied(writer: BucketWriter, bucket: Bucket, open_days: frozenset[str] | None) -> Bucket:
    """With fewer files, where there are many."""
    files: dict[str, tuple[FileRef, ...]] = {
        what: compact(writer, what, getattr(bucket, what), open_days=open_days)
        for what in ("events", "arrivals", "quarantine", "repeats")
    }
    return replace(bucket, **files)


def _open_days(fresh: Any, n: int, writer: BucketWriter) -> frozenset[str] | None:
    """The days of new events, if it is this bucket's turn to merge the files of all other days.

    A day ends for all buckets in the same batch: they take turns.
    """
    if (n + writer.bucket) % FAN:
        return None
    return frozenset(
        str(EPOCH + timedelta(days=day)) for day in np.unique(fresh["at_ms"].to_numpy() // DAY_MS).tolist()
    )

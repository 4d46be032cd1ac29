"""Retention in one bucket (SPEC 13.3): delete the events of old days, and classify rows of these days that come again.

A session with deleted events cannot be reprocessed from its first event. The state that the deleted events left is kept
as its base, so that the verdicts of later events stay what they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.fleet.kernels.arrivals import classify_arrivals
from restante.fleet.kernels.arrivals_schema import EMPTY_STATE, SEEN
from restante.fleet.kernels.arrivals_state import CLOCK_SLACK_MS
from restante.fleet.stream.bucket_files import DAY_MS, EPOCH, Bucket, BucketWriter, FileRef
from restante.fleet.stream.duplicates import Copies, find_events
from restante.fleet.stream.known_numbers import ids_of, is_known
from restante.fleet.stream.rows import QUARANTINE, REPEATS, taken, with_reason
from restante.fleet.stream.sessions import events_in, load_bases
from restante.policy.dedup import DedupLimits
from restante.policy.reorder_limits import OrderLimits

TOO_LATE: Final = "is of a day that retention deleted"
"""The reason of an event in the quarantine that first came after its day was deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsByDay:
    """Sound rows: `kept` may become events; `repeats` are copies of deleted events or of late ones; `late` came for the
    first time, and `late_ids` are theirs: their numbers are taken from now on."""

    kept: Any
    repeats: Any
    late: Any
    late_ids: Any


def by_day(writer: BucketWriter, bucket: Bucket, sound: Any, ranges: Any, *, retained_from: str | None) -> RowsByDay:
    """Separate rows of deleted days. A copy of a deleted event cannot be compared with it: the number decides.

    A row that claims a deleted day and has the number of a stored event, or of a row that came with it, is kept: it
    contradicts that one. It does not become an event in its place (`without_late`).
    """
    first_ms = None if retained_from is None else first_ms_of(retained_from)
    is_kept = sound["at_ms"].to_numpy() >= first_ms if first_ms is not None else np.ones(len(sound), dtype=np.bool_)
    if is_kept.all():
        none = sound["event_id"].slice(0, 0)
        return RowsByDay(kept=sound, repeats=REPEATS.empty_table(), late=QUARANTINE.empty_table(), late_ids=none)
    old = taken(sound, ~is_kept)
    ids = ids_of(old["event_id"])
    known = is_known(ranges, ids)
    stored = ids_of(find_events(writer, bucket.events, np.unique(ids[known]))["event_id"])
    is_stored = np.isin(ids, stored) | np.isin(ids, ids_of(taken(sound, is_kept)["event_id"]))
    is_kept[np.flatnonzero(~is_kept)[is_stored]] = True
    is_first = np.ones(len(ids), dtype=np.bool_)
    is_first[1:] = ids[1:] != ids[:-1]
    is_late = ~known & ~is_stored & is_first
    late = taken(old, is_late)
    return RowsByDay(
        kept=taken(sound, is_kept),
        repeats=taken(old, ~is_stored & ~is_late).select(REPEATS.names),
        late=with_reason(late, TOO_LATE),
        late_ids=late["event_id"],
    )


def without_late(copies: Copies, late: Any, *, retained_from: str | None) -> tuple[Copies, Any]:
    """Move new events of deleted days to the `late` rows: a signed row that takes the place of an unsigned event.

    The stream still removes the unsigned event from the table. It does not add the signed row, because retention
    deletes all files of that row's day.
    """
    if retained_from is None or not len(copies.fresh):
        return copies, late
    is_late = copies.fresh["at_ms"].to_numpy() < first_ms_of(retained_from)
    if not is_late.any():
        return copies, late
    refused = with_reason(taken(copies.fresh, is_late), TOO_LATE)
    return replace(copies, fresh=taken(copies.fresh, ~is_late)), pa.concat_tables([late, refused])


def without_days(
    writer: BucketWriter, bucket: Bucket, retained_from: str, *, order: OrderLimits, dedup: DedupLimits
) -> Bucket:
    """The bucket without events and arrivals of earlier days. One day of events is in memory at a time."""
    deleted = [ref for ref in bucket.events if _is_before(ref, retained_from)]
    if not deleted:
        return bucket
    bases = load_bases(writer, bucket)
    for _, refs in groupby(sorted(deleted, key=_day_of), key=_day_of):
        events = pa.concat_tables([events_in(writer, ref) for ref in refs])
        bases = _advanced(bases, events, order=order, dedup=dedup)
    return replace(
        bucket,
        events=_without(bucket.events, retained_from),
        arrivals=_without(bucket.arrivals, retained_from),
        bases=writer.write_state("bases", _without_old_marks(bases, retained_from, dedup)),
    )


def first_ms_of(day: str) -> int:
    return (date.fromisoformat(day) - EPOCH).days * DAY_MS


def _advanced(bases: Any, events: Any, *, order: OrderLimits, dedup: DedupLimits) -> Any:
    if not len(events):
        return bases
    is_active = pc.is_in(bases["session_tag"], value_set=events["session_tag"].unique())
    before = bases.filter(is_active)
    state = classify_arrivals(events, before if len(before) else EMPTY_STATE, order=order, dedup=dedup).state()
    return pa.concat_tables([bases.filter(pc.invert(is_active)), state])


def _without_old_marks(bases: Any, retained_from: str, dedup: DedupLimits) -> Any:
    """Without the fingerprints that are too old to count for any event that is kept (SPEC 9.2)."""
    oldest_ms = first_ms_of(retained_from) - dedup.window_ms - CLOCK_SLACK_MS
    is_old = pc.and_(pc.equal(bases["entry"], SEEN), pc.less(bases["at_ms"], oldest_ms))
    return bases.filter(pc.invert(is_old))


def _without(refs: Sequence[FileRef], retained_from: str) -> tuple[FileRef, ...]:
    return tuple(ref for ref in refs if not _is_before(ref, retained_from))


def _is_before(ref: FileRef, day: str) -> bool:
    return _day_of(ref) < day


def _day_of(ref: FileRef) -> str:
    if ref.day is None:
        raise AssertionError(f"{ref.name} is of a table that is divided by day")
    return ref.day

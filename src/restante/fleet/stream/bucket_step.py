"""One step of a bucket: rows that have come in, and its files after them. The same rows in any parts and any order give
the same tables as all of them at once (SPEC 13.2, 13.7).

Nothing is changed in place, and nothing here is true before the commit that names it.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.fleet.stream.copies import Copies, revoke, sort_copies, without_unusable
from restante.fleet.stream.files import Bucket, Desk, FileRef, rewritten, sort_by_event, with_fewer_files
from restante.fleet.stream.numbers import NO_RANGES, ids_of, with_numbers
from restante.fleet.stream.rows import EVENTS, QUARANTINE, in_order, is_unusable, taken, told_tags, with_reason
from restante.fleet.stream.sessions import judge_sessions
from restante.fleet.transforms.arrivals import UNUSABLE
from restante.policy.dedup import DedupLimits
from restante.policy.reorder_limits import OrderLimits

_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What changed: rows that are events, copies, in quarantine; late facts, and sessions judged again for them, for
    `revoked` events, which a row contradicted that came later, or because they had been forgotten."""

    events: int = 0
    duplicates: int = 0
    quarantined: int = 0
    late: int = 0
    judged_again: int = 0
    revoked: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            events=self.events + other.events,
            duplicates=self.duplicates + other.duplicates,
            quarantined=self.quarantined + other.quarantined,
            late=self.late + other.late,
            judged_again=self.judged_again + other.judged_again,
            revoked=self.revoked + other.revoked,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A bucket after some rows. `days` are the days since 1970 whose events or arrivals have changed."""

    bucket: Bucket
    counts: Counts
    days: tuple[int, ...]


def advance(
    desk: Desk,
    before: Bucket,
    rows: Any,
    *,
    order: OrderLimits,
    dedup: DedupLimits,
    once_more: frozenset[str] = frozenset(),
) -> Step:
    """`rows` are INCOMING (stream/rows): what was read, each with what is wrong with it. `once_more` names files that
    were read in part before."""
    is_sound = pc.is_null(rows["reason"]).to_numpy()
    refused = taken(rows, ~is_sound).select(QUARANTINE.names)
    ranges = pa.concat_tables([NO_RANGES, *map(desk.read_state, before.numbers)])
    copies = sort_copies(desk, before, in_order(taken(rows, is_sound)), ranges, once_more)
    bucket, gone, replaced, repeats_gone = _without_revoked(desk, before, copies)
    bucket = _without_refiled(desk, bucket, copies)
    unusable = copies.fresh.filter(is_unusable(copies.fresh))
    odd = [
        refused,
        copies.conflicting,
        replaced,
        with_reason(unusable, UNUSABLE),
        with_reason(copies.refiled, UNUSABLE),
    ]
    written = sort_by_event(pa.concat_tables([copies.fresh, copies.refiled])) if len(copies.refiled) else copies.fresh
    bucket = replace(
        bucket,
        events=(*bucket.events, *desk.write_table("events", written)),
        repeats=(*bucket.repeats, *desk.write_table("repeats", sort_by_event(copies.repeats))),
        quarantine=(*bucket.quarantine, *desk.write_table("quarantine", sort_by_event(pa.concat_tables(odd)))),
    )
    if len(copies.new_ids):
        bucket = replace(bucket, numbers=desk.write_state("numbers", with_numbers(ranges, copies.new_ids)))
    judged = judge_sessions(
        desk,
        bucket,
        copies.fresh,
        broken_tags=pc.drop_null(told_tags(gone)),
        broken_ids=gone.filter(pc.is_valid(gone["told_event"]))["event_id"],
        order=order,
        dedup=dedup,
    )
    bucket = replace(
        bucket, arrivals=judged.arrivals, sessions=judged.sessions, seen=judged.seen, forgotten=judged.forgotten
    )
    days = {*judged.days, *_days(copies.fresh), *_days(gone)}
    counts = Counts(
        events=len(copies.fresh) - len(gone),
        # An event that goes by another file leaves a repeat for the one it takes.
        duplicates=len(copies.repeats) - repeats_gone,
        quarantined=len(refused) + len(copies.conflicting) + len(replaced),
        late=judged.late,
        judged_again=judged.judged_again,
        revoked=len(gone),
    )
    return Step(bucket=_tidied(desk, bucket), counts=counts, days=tuple(sorted(days)))


def forget_file(desk: Desk, bucket: Bucket, name: str) -> tuple[Bucket, Counts]:
    """The bucket without the rows of one file that are not events, since it is to be read once more."""

    def is_of_file(table: Any) -> Any:
        return pc.equal(table["source_file"], name)

    def is_odd(table: Any) -> Any:
        return pc.and_(is_of_file(table), pc.not_equal(table["reason"], UNUSABLE))

    quarantine, odd = rewritten(desk, "quarantine", bucket.quarantine, is_odd, lambda _ref: True)
    repeats, copies = rewritten(desk, "repeats", bucket.repeats, is_of_file, lambda _ref: True)
    gone = Counts(quarantined=-sum(map(len, odd)), duplicates=-sum(map(len, copies)))
    return replace(bucket, quarantine=quarantine, repeats=repeats), gone


def _without_revoked(desk: Desk, bucket: Bucket, copies: Copies) -> tuple[Bucket, Any, Any, int]:
    """The bucket; the events that are none any more; their rows for the quarantine, and how many of them are copies."""
    if not len(copies.revoked):
        return bucket, EVENTS.empty_table(), QUARANTINE.empty_table(), 0
    bucket, gone, replaced = revoke(desk, bucket, copies.revoked)
    return bucket, gone, replaced, len(replaced) - len(gone)


def _without_refiled(desk: Desk, bucket: Bucket, copies: Copies) -> Bucket:
    if not len(copies.refiled):
        return bucket
    ids = np.sort(ids_of(copies.refiled["event_id"]))
    events, _ = rewritten(
        desk,
        "events",
        bucket.events,
        lambda table: pa.array(np.isin(ids_of(table["event_id"]), ids)),
        lambda _ref: True,
    )
    return replace(bucket, events=events, quarantine=without_unusable(desk, bucket, ids))


def _tidied(desk: Desk, bucket: Bucket) -> Bucket:
    """With fewer files, where there are many."""
    files: dict[str, tuple[FileRef, ...]] = {
        what: with_fewer_files(desk, what, getattr(bucket, what))
        for what in ("events", "arrivals", "quarantine", "repeats")
    }
    return replace(bucket, **files)


def _days(events: Any) -> list[int]:
    days: list[int] = np.unique(events["at_ms"].to_numpy() // _DAY_MS).tolist()
    return days

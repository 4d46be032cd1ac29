"""Sessions of a bucket from one batch to the next: events in, rows of the table arrivals and the new state out.

The kernel (kernels/arrivals) decides the verdicts; it wants each session's events in order. A session with a late
event, one with a lower number than its latest, is reprocessed from its first event, so that the table is as if nothing
had been late. So is a session that was dropped after a long silence. Where retention deleted its first events, it is
reprocessed from its base: the state that these events left (stream/retention).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.fleet.kernels.arrivals import classify_arrivals
from restante.fleet.kernels.arrivals_schema import EMPTY_STATE, SEEN, SESSION, STATE, TIME_PASSED, halves
from restante.fleet.kernels.arrivals_words import decode_arrivals
from restante.fleet.stream import dedup_runs
from restante.fleet.stream.annotate import with_annotations
from restante.fleet.stream.bucket_files import Bucket, BucketWriter, FileRef, rewrite_without, sort_by_event
from restante.fleet.stream.known_numbers import numbers_of
from restante.fleet.stream.retired_sessions import are_retired, silent_tags, with_retired
from restante.fleet.stream.rows import kernel_events
from restante.fleet.stream.state_tables import SESSIONS
from restante.policy.dedup import DedupLimits
from restante.policy.reorder_limits import OrderLimits

_READ: Final = [
    "event_id",
    "at_ms",
    "kind",
    "code",
    "sequence",
    "message_id",
    "payload_hash",
    "session_tag",
    "message_kind",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """What came of a batch's events."""

    arrivals: tuple[FileRef, ...]
    sessions: tuple[FileRef, ...]
    seen: tuple[FileRef, ...]
    forgotten: tuple[FileRef, ...]
    late: int
    reprocessed: int


def update_sessions(
    writer: BucketWriter,
    bucket: Bucket,
    fresh: Any,
    *,
    broken_tags: Any,
    broken_ids: Any,
    order: OrderLimits,
    dedup: DedupLimits,
) -> Sessions:
    """`fresh` are the new events. `bucket.events` has them; `broken_tags` are sessions that lost a event to quarantine,
    and `broken_ids` the ids of those events."""
    events = kernel_events(fresh)
    known = _load(writer, bucket.sessions)
    is_late = _is_late(events, known)
    is_anew = pc.or_(is_late, _is_woken(writer, bucket.forgotten, events, known))
    again = pa.concat_arrays([*_chunks(events["session_tag"].filter(is_anew)), *_chunks(broken_tags)]).unique()
    if not len(events) and not len(again):
        return Sessions(
            arrivals=bucket.arrivals,
            sessions=bucket.sessions,
            seen=bucket.seen,
            forgotten=bucket.forgotten,
            late=0,
            reprocessed=0,
        )
    arrivals, runs = bucket.arrivals, bucket.seen
    bases = EMPTY_STATE
    if len(again):
        writers = pa.concat_arrays([*_chunks(events["event_id"].filter(is_anew)), *_chunks(broken_ids)])
        events = _with_all_events(writer, bucket.events, events, again, writers)
        arrivals = _without(writer, bucket.arrivals, again, writers)
        runs = dedup_runs.without_sessions(writer, runs, again)
        known = known.filter(pc.invert(pc.is_in(known["session_tag"], value_set=again)))
        bases = load_bases(writer, bucket)
        bases = bases.filter(pc.is_in(bases["session_tag"], value_set=again))
    is_active = pc.is_in(known["session_tag"], value_set=events["session_tag"].unique())
    arrived = events.filter(pc.not_equal(events["event"], TIME_PASSED))
    marks = dedup_runs.look_up(writer, runs, dedup_runs.keys_of(arrived["session_tag"], arrived["message_id"]))
    before = pa.concat_tables([known.filter(is_active).select(STATE.names), marks, bases])
    done = classify_arrivals(events, before if len(before) else EMPTY_STATE, order=order, dedup=dedup)
    state = done.state()
    # The new events are in order, and so are their outcomes.
    classified = sort_by_event(done.classified) if len(again) else done.classified
    sessions = pa.concat_tables([known.filter(pc.invert(is_active)), _with_numbers(state, events)])
    silent = silent_tags(sessions, state, dedup)
    is_heard_of = pc.invert(pc.is_in(sessions["session_tag"], value_set=silent.combine_chunks()))
    return Sessions(
        arrivals=(*arrivals, *writer.write_table("arrivals", decode_arrivals(classified))),
        sessions=writer.write_state("sessions", sessions.filter(is_heard_of)),
        seen=dedup_runs.add_run(writer, runs, state, sessions, dedup),
        forgotten=with_retired(writer, bucket.forgotten, silent),
        late=int(pc.sum(is_late).as_py() or 0),
        reprocessed=len(again),
    )


def load_bases(writer: BucketWriter, bucket: Bucket) -> Any:
    """What deleted events left of their sessions: rows of STATE."""
    return pa.concat_tables([EMPTY_STATE, *map(writer.read_state, bucket.bases)])


def events_in(writer: BucketWriter, ref: FileRef) -> Any:
    """What the events of a file tell of incoming sessions."""
    return kernel_events(with_annotations(writer.read_table(ref, _READ)))


def _load(writer: BucketWriter, refs: Sequence[FileRef]) -> Any:
    return pa.concat_tables([SESSIONS.empty_table(), *map(writer.read_state, refs)])


def _is_late(events: Any, known: Any) -> Any:
    """Return events with a lower number than one that their session has processed already."""
    heads = known.filter(pc.equal(known["entry"], SESSION))
    place = pc.index_in(events["session_tag"], value_set=heads["session_tag"].combine_chunks())
    latest = heads["number"].take(place)
    return pc.fill_null(pc.less(pa.array(numbers_of(events["event_id"])), latest), False)


def _is_woken(writer: BucketWriter, forgotten: Sequence[FileRef], events: Any, known: Any) -> Any:
    """Return events of sessions that were evicted from the state."""
    is_unknown = pc.invert(pc.is_in(events["session_tag"], value_set=known["session_tag"].unique()))
    if not forgotten:
        return pc.and_(is_unknown, False)
    return pc.and_(is_unknown, pa.array(are_retired(writer, forgotten, events["session_tag"])))


def _with_all_events(writer: BucketWriter, refs: Sequence[FileRef], events: Any, again: Any, writers: Any) -> Any:
    """`events`, and of the sessions in `again` every event that is not deleted."""
    others = events.filter(pc.invert(pc.is_in(events["session_tag"], value_set=again)))
    parts = [others]
    for ref in refs:
        if not _has_writer(ref, writers):
            continue
        told = events_in(writer, ref)
        parts.append(told.filter(pc.is_in(told["session_tag"], value_set=again)))
    return pa.concat_tables(parts)


def _without(writer: BucketWriter, refs: Sequence[FileRef], again: Any, writers: Any) -> tuple[FileRef, ...]:
    kept, _ = rewrite_without(
        writer,
        "arrivals",
        refs,
        lambda table: pc.is_in(table["session_tag"], value_set=again),
        lambda ref: _has_writer(ref, writers),
    )
    return kept


def _has_writer(ref: FileRef, ids: Any) -> bool:
    """Whether a file can hold ids of the writers of these."""
    prefixes = np.unique(halves(ids)[:, 0].byteswap())
    first, last = (int(text[:16], 16) for text in (ref.first, ref.last))
    return bool(((prefixes >= first) & (prefixes <= last)).any())


def _with_numbers(state: Any, events: Any) -> Any:
    """The state of the sessions that had events, but for what they have seen, with the number of each one's latest."""
    lasting = state.filter(pc.not_equal(state["entry"], SEEN))
    numbers = pa.table({"tag": events["session_tag"], "number": pa.array(numbers_of(events["event_id"]))})
    latest = numbers.group_by("tag").aggregate([("number", "max")])
    place = pc.index_in(lasting["session_tag"], value_set=latest["tag"].combine_chunks())
    # A session that only has a base has no event with a number: none is too low for it.
    number = pc.fill_null(latest["number_max"].take(place), 0)
    return pa.table([*lasting.columns, number], schema=SESSIONS)


def _chunks(column: Any) -> list[Any]:
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return chunks or [pa.array([], column.type)]

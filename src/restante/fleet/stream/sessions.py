"""Sessions of a bucket from one commit to the next: facts in, rows of arrivals and the new state out.

The verdicts are the kernel's (kernels/arrivals), which wants each session's facts in order. A session whose fact came
late, after a later one was judged, is judged again from its first fact: then the table is as if nothing had been late.
So is one that was silent for so long that it was forgotten.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.fleet.kernels.arrivals import judge_arrivals
from restante.fleet.kernels.arrivals_schema import ARRIVED, EMPTY_STATE, SEEN, SESSION, STATE, halves
from restante.fleet.stream import seen
from restante.fleet.stream.files import Bucket, Desk, FileRef, rewritten, sort_by_event
from restante.fleet.stream.forgotten import are_forgotten, silent_tags, with_forgotten
from restante.fleet.stream.numbers import numbers_of
from restante.fleet.stream.rows import kernel_facts, told_tags
from restante.policy.dedup import DedupLimits
from restante.policy.reorder_limits import OrderLimits

SESSIONS: Final = pa.schema([*STATE, pa.field("number", pa.uint64())])
"""The kernel's state but for what was seen. `number` is that of the session's latest fact."""
_DAY_MS: Final = 86_400_000
_READ: Final = [
    "event_id",
    "at_ms",
    "sequence",
    "message_id",
    "payload_hash",
    "session_tag",
    "told_tag",
    "told_event",
    "told_recorded",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """What came of a batch's facts."""

    arrivals: tuple[FileRef, ...]
    sessions: tuple[FileRef, ...]
    seen: tuple[FileRef, ...]
    forgotten: tuple[FileRef, ...]
    late: int
    judged_again: int
    days: tuple[int, ...]
    """Days since 1970 whose arrivals have changed."""


def judge_sessions(
    desk: Desk,
    bucket: Bucket,
    fresh: Any,
    *,
    broken_tags: Any,
    broken_ids: Any,
    order: OrderLimits,
    dedup: DedupLimits,
) -> Sessions:
    """`fresh` are the new events. `bucket.events` has them; `broken_tags` are sessions that lost a fact to quarantine,
    and `broken_ids` the ids of those facts."""
    facts = kernel_facts(fresh)
    known = _load(desk, bucket.sessions)
    is_late = _is_late(facts, known)
    is_anew = pc.or_(is_late, _is_woken(desk, bucket.forgotten, facts, known))
    again = pa.concat_arrays([*_chunks(facts["session_tag"].filter(is_anew)), *_chunks(broken_tags)]).unique()
    if not len(facts) and not len(again):
        return Sessions(
            arrivals=bucket.arrivals,
            sessions=bucket.sessions,
            seen=bucket.seen,
            forgotten=bucket.forgotten,
            late=0,
            judged_again=0,
            days=(),
        )
    arrivals, runs = bucket.arrivals, bucket.seen
    days: set[int] = set()
    if len(again):
        writers = pa.concat_arrays([*_chunks(facts["event_id"].filter(is_anew)), *_chunks(broken_ids)])
        facts = _with_all_facts(desk, bucket.events, facts, again, writers)
        arrivals, gone = _without(desk, bucket.arrivals, again, writers)
        runs = seen.without_sessions(desk, runs, again)
        known = known.filter(pc.invert(pc.is_in(known["session_tag"], value_set=again)))
        days.update(*(_days(part["at_ms"]) for part in gone))
    is_active = pc.is_in(known["session_tag"], value_set=facts["session_tag"].unique())
    arrived = facts.filter(pc.equal(facts["event"], ARRIVED))
    marks = seen.look_up(desk, runs, seen.keys_of(arrived["session_tag"], arrived["message_id"]))
    before = pa.concat_tables([known.filter(is_active).select(STATE.names), marks])
    done = judge_arrivals(facts, before if len(before) else EMPTY_STATE, order=order, dedup=dedup)
    state = done.state()
    # The new events are in order, and so are their outcomes.
    judged = sort_by_event(done.judged) if len(again) else done.judged
    sessions = pa.concat_tables([known.filter(pc.invert(is_active)), _with_numbers(state, facts)])
    days.update(_days(facts["at_ms"]))
    silent = silent_tags(sessions, state, dedup)
    is_heard_of = pc.invert(pc.is_in(sessions["session_tag"], value_set=silent.combine_chunks()))
    return Sessions(
        arrivals=(*arrivals, *desk.write_table("arrivals", judged)),
        sessions=desk.write_state("sessions", sessions.filter(is_heard_of)),
        seen=seen.add_run(desk, runs, state, sessions, dedup),
        forgotten=with_forgotten(desk, bucket.forgotten, silent),
        late=int(pc.sum(is_late).as_py() or 0),
        judged_again=len(again),
        days=tuple(sorted(days)),
    )


def _load(desk: Desk, refs: Sequence[FileRef]) -> Any:
    return pa.concat_tables([SESSIONS.empty_table(), *map(desk.read_state, refs)])


def _is_late(facts: Any, known: Any) -> Any:
    """Facts with a lower number than one that their session was already judged by."""
    heads = known.filter(pc.equal(known["entry"], SESSION))
    place = pc.index_in(facts["session_tag"], value_set=heads["session_tag"].combine_chunks())
    latest = heads["number"].take(place)
    return pc.fill_null(pc.less(pa.array(numbers_of(facts["event_id"])), latest), False)


def _is_woken(desk: Desk, forgotten: Sequence[FileRef], facts: Any, known: Any) -> Any:
    """Facts of sessions that are not known any more."""
    is_unknown = pc.invert(pc.is_in(facts["session_tag"], value_set=known["session_tag"].unique()))
    if not forgotten:
        return pc.and_(is_unknown, False)
    return pc.and_(is_unknown, pa.array(are_forgotten(desk, forgotten, facts["session_tag"])))


def _with_all_facts(desk: Desk, events: Sequence[FileRef], facts: Any, again: Any, writers: Any) -> Any:
    """`facts`, and of the sessions in `again` every fact there ever was."""
    others = facts.filter(pc.invert(pc.is_in(facts["session_tag"], value_set=again)))
    parts = [others]
    for ref in events:
        if not _has_writer(ref, writers):
            continue
        table = desk.read_table(ref, _READ)
        parts.append(kernel_facts(table.filter(pc.is_in(told_tags(table), value_set=again))))
    return pa.concat_tables(parts)


def _without(desk: Desk, refs: Sequence[FileRef], again: Any, writers: Any) -> tuple[tuple[FileRef, ...], list[Any]]:
    return rewritten(
        desk,
        "arrivals",
        refs,
        lambda table: pc.is_in(table["session_tag"], value_set=again),
        lambda ref: _has_writer(ref, writers),
    )


def _has_writer(ref: FileRef, ids: Any) -> bool:
    """Whether a file can hold ids of the writers of these."""
    prefixes = np.unique(halves(ids)[:, 0].byteswap())
    first, last = (int(text[:16], 16) for text in (ref.first, ref.last))
    return bool(((prefixes >= first) & (prefixes <= last)).any())


def _with_numbers(state: Any, facts: Any) -> Any:
    """The state of the sessions that had facts, but for what they have seen, with the number of each one's latest."""
    lasting = state.filter(pc.not_equal(state["entry"], SEEN))
    numbers = pa.table({"tag": facts["session_tag"], "number": pa.array(numbers_of(facts["event_id"]))})
    latest = numbers.group_by("tag").aggregate([("number", "max")])
    place = pc.index_in(lasting["session_tag"], value_set=latest["tag"].combine_chunks())
    return pa.table([*lasting.columns, latest["number_max"].take(place)], schema=SESSIONS)


def _days(at_ms: Any) -> list[int]:
    days: list[int] = np.unique(at_ms.to_numpy() // _DAY_MS).tolist()
    return days


def _chunks(column: Any) -> list[Any]:
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return chunks or [pa.array([], column.type)]

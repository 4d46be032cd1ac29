"""The state of sessions between two batches: out of its table into arrays, and back with what has changed.

See kernels/tables for what its rows mean. How sessions change is decided elsewhere.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.fleet.kernels.arrivals_fallback import StateRow
from restante.fleet.kernels.arrivals_schema import (
    NO_TIME,
    SEEN,
    SESSION,
    STATE,
    WAITING,
    Flags,
    Ints,
    Words,
    binaries,
    halves,
    ints,
)
from restante.fleet.kernels.arrivals_vectorized import After, Before, Rows, mixed
from restante.policy.dedup import DAY_MS, DedupLimits

CLOCK_SLACK_MS: Final = DAY_MS
"""How far a recipient's clock may be set back unnoticed: dedup rows are kept longer here by this time."""


class SessionArrays:
    """The state before, as arrays. Rows of sessions without events stay as they are."""

    def __init__(self, state: Any, session: Ints, sessions: int) -> None:
        self.table = state
        self.session = session
        self.entry = ints(state["entry"])
        self.is_active = session < sessions
        self.at_ms: Ints = ints(state["at_ms"])
        self.first: Ints = ints(state["first"])
        self.flag = ints(state["flag"])
        seen = np.flatnonzero(self.is_active & (self.entry == SEEN))
        message = halves(state["message_id"])[seen]
        key = mixed(session[seen], message)
        by_key = np.argsort(key)
        self.seen = seen[by_key]
        self.seen_key: Words = key[by_key]
        self.seen_message = message[by_key]

    def before(self, sessions: int) -> Before:
        expected = np.zeros(sessions, dtype=np.int64)
        has_placeholder = np.zeros(sessions, dtype=np.bool_)
        known = np.flatnonzero(self.is_active & (self.entry == SESSION))
        expected[self.session[known]] = self.first[known]
        waits = np.flatnonzero(self.is_active & (self.entry == WAITING))
        has_placeholder[self.session[waits[self.flag[waits] == 1]]] = True
        return Before(
            expected=expected,
            has_placeholder=has_placeholder,
            waiting_session=self.session[waits],
            waiting_number=self.first[waits],
            waiting_at_ms=self.at_ms[waits],
            seen_session=self.session[self.seen],
            seen_key=self.seen_key,
            seen_message=self.seen_message,
            seen_payload=halves(self.table["payload"])[self.seen],
            seen_at_ms=self.at_ms[self.seen],
        )

    def rows_of(self, needs_fallback: Flags) -> dict[int, list[StateRow]]:
        """Return the rows of the sessions on the fallback path, as values."""
        wanted = np.flatnonzero(self.is_active)
        wanted = wanted[needs_fallback[self.session[wanted]]]
        found: dict[int, list[StateRow]] = {}
        for session, row in zip(
            self.session[wanted].tolist(), self.table.take(pa.array(wanted)).to_pylist(), strict=True
        ):
            del row["session_tag"]
            found.setdefault(session, []).append(StateRow(**row))
        return found


def new_state(
    held: SessionArrays,
    rows: Rows,
    after: After,
    *,
    tags: Words,
    writer: Ints,
    exact_rows: list[tuple[int, StateRow]],
    dedup: DedupLimits,
) -> Any:
    """Return the state after `rows`. `tags` and `writer` belong to the sessions, `exact_rows` to the fallback path."""
    vectorized = np.flatnonzero(~after.needs_fallback)
    is_smooth_row = after.is_leader & ~after.needs_fallback[rows.session]
    leaders = np.flatnonzero(is_smooth_row)
    waits = np.flatnonzero(~after.needs_fallback[after.waiting_session])
    waiting_session = after.waiting_session[waits]
    has_waiting = np.zeros(len(tags), dtype=np.int8)
    has_waiting[waiting_session] = 1
    latest = _latest(held, rows)
    parts = [
        _kept(held, after),
        _part(
            SESSION,
            tags[vectorized],
            writer[vectorized],
            first=after.expected[rows.last[vectorized]],
            at_ms=latest[vectorized],
            flag=has_waiting[vectorized],
        ),
        _part(
            WAITING,
            tags[waiting_session],
            writer[waiting_session],
            first=after.waiting_number[waits],
            at_ms=after.waiting_at_ms[waits],
        ),
        _part(
            SEEN,
            tags[rows.session[leaders]],
            writer[rows.session[leaders]],
            at_ms=after.leader_seen_at_ms[leaders],
            message_id=rows.message[leaders],
            payload=rows.payload[leaders],
        ),
        _from_exact(exact_rows, tags),
    ]
    return _without_old(pa.concat_tables(parts), dedup)


def _latest(held: SessionArrays, rows: Rows) -> Ints:
    """The latest moment of each session that has events."""
    latest = np.maximum.reduceat(rows.at_ms, rows.start) if len(rows.start) else np.empty(0, dtype=np.int64)
    known = np.flatnonzero(held.is_active & (held.entry == SESSION))
    latest[held.session[known]] = np.maximum(latest[held.session[known]], held.at_ms[known])
    return latest


def _kept(held: SessionArrays, after: After) -> Any:
    """Return the rows of the state before that still hold; vectorized sessions may have refreshed their dedup rows."""
    active = np.flatnonzero(held.is_active)
    stays = np.ones(len(held.session), dtype=np.bool_)
    entry = held.entry[active]
    stays[active] = ~after.needs_fallback[held.session[active]] & (entry != SESSION) & (entry != WAITING)
    at_ms = held.at_ms.copy()
    at_ms[held.seen] = after.seen_at_ms
    column = STATE.get_field_index("at_ms")
    return held.table.set_column(column, STATE.field(column), pa.array(at_ms)).filter(pa.array(stays))


def _part(entry: int, tags: Words, writer: Ints, **columns: Any) -> Any:
    size = len(tags)
    zeros = {
        "first": np.zeros(size, dtype=np.int64),
        "last": np.zeros(size, dtype=np.int64),
        "message_id": np.zeros((size, 2), dtype=np.uint64),
        "payload": np.zeros((size, 2), dtype=np.uint64),
        "flag": np.zeros(size, dtype=np.int8),
    }
    whole = {
        **zeros,
        **columns,
        "entry": np.full(size, entry, dtype=np.int8),
        "writer": writer,
        "session_tag": tags,
    }
    arrays = [
        binaries(whole[field.name]) if field.type == pa.binary() else pa.array(whole[field.name], field.type)
        for field in STATE
    ]
    return pa.table(arrays, schema=STATE)


def _from_exact(exact_rows: list[tuple[int, StateRow]], tags: Words) -> Any:
    records = [{"session_tag": tags[session].tobytes(), **row._asdict()} for session, row in exact_rows]
    return pa.Table.from_pylist(records, schema=STATE)


def _without_old(state: Any, dedup: DedupLimits) -> Any:
    """Forget what was last seen too long ago, by the clock of the recipient who saw it (SPEC 9.2)."""
    entry, at_ms = ints(state["entry"]), ints(state["at_ms"])
    writers = ints(state["writer"])
    is_session = entry == SESSION
    known, place = np.unique(writers, return_inverse=True)
    clock = np.full(len(known), NO_TIME, dtype=np.int64)
    np.maximum.at(clock, place[is_session], at_ms[is_session])
    is_old = (entry == SEEN) & (clock[place] - at_ms >= dedup.window_ms + CLOCK_SLACK_MS)
    return state.filter(pc.invert(pa.array(is_old))) if is_old.any() else state

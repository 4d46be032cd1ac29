"""Verdict, order and gaps of all arrivals of a partition of recipients (SPEC 9.1, 9.4, 9.5, 13.7).

Batch and stream call `classify_arrivals`: events and the state before them in, outcomes and the state after them out.
The result does not depend on how events are cut into calls. Common sessions take the vectorized path
(kernels/arrivals_vectorized), the others the fallback path, which runs the core's machine (kernels/arrivals_fallback).
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from restante.fleet.kernels.arrivals_fallback import ExactSession, SessionEvent, StateRow
from restante.fleet.kernels.arrivals_schema import CLASSIFIED, Gaps, Ints, Words, gap_lists, halves, ints
from restante.fleet.kernels.arrivals_state import SessionArrays, new_state
from restante.fleet.kernels.arrivals_vectorized import After, Rows, classify_vectorized
from restante.policy.dedup import DedupLimits
from restante.policy.reorder_limits import OrderLimits

_NUMBER_BITS: Final = 40
_MOST_SESSIONS: Final = 1 << 23  # with the number, what fits into 63 bits


@dataclass(slots=True, kw_only=True)
class Judgement:
    """What came of a table of events; the new state is only put together for those who ask."""

    classified: Any
    """Every event with its outcome, in the order given: a table CLASSIFIED."""
    _held: SessionArrays
    _rows: Rows
    _after: After
    _tags: Words
    _writer: Ints
    _exact_rows: list[tuple[int, StateRow]]
    _dedup: DedupLimits

    def state(self) -> Any:
        """What is to be known before the next events: a table STATE."""
        return new_state(
            self._held,
            self._rows,
            self._after,
            tags=self._tags,
            writer=self._writer,
            exact_rows=self._exact_rows,
            dedup=self._dedup,
        )


def classify_arrivals(events: Any, state: Any, *, order: OrderLimits, dedup: DedupLimits) -> Judgement:
    """The outcome of each of `events`, for sessions that were in `state` before.

    An event must come after all earlier events of its session: in this call or in one before. Within a call its number
    decides, not its place.
    """
    session, state_session, sessions = _number_sessions(events["session_tag"], state["session_tag"])
    in_order, rows, writer = _sorted_rows(events, session, sessions)
    held = SessionArrays(state, state_session, sessions)
    after = classify_vectorized(
        rows,
        held.before(sessions),
        max_gap=order.max_gap,
        gap_timeout_ms=order.gap_timeout_ms,
        window_ms=dedup.window_ms,
    )
    gaps: dict[int, Gaps] = {}
    exact_rows: list[tuple[int, StateRow]] = []
    held_rows = held.rows_of(after.needs_fallback)
    for one in np.flatnonzero(after.needs_fallback).tolist():
        machine = ExactSession(held_rows.get(one, ()), writer=int(writer[one]), order=order, dedup=dedup)
        for place in range(rows.start[one], rows.last[one] + 1):
            outcome = machine.take(_session_event(rows, place))
            after.verdict[place], after.placement[place] = outcome.verdict, outcome.placement
            after.expected[place], after.released[place] = outcome.expected, outcome.released
            if outcome.gaps:
                gaps[int(in_order[place])] = outcome.gaps
        exact_rows += [(one, row) for row in machine.rows()]
    return Judgement(
        classified=_classified(events, after, gaps, in_order),
        _held=held,
        _rows=rows,
        _after=after,
        _tags=halves(events["session_tag"])[in_order[rows.start]],
        _writer=writer,
        _exact_rows=exact_rows,
        _dedup=dedup,
    )


def _classified(events: Any, after: After, gaps: dict[int, Gaps], in_order: Ints) -> Any:
    outcomes = {
        "verdict": after.verdict,
        "placement": after.placement,
        "expected": after.expected,
        "released": after.released,
    }
    columns = {name: pa.array(_put_back(values, in_order)) for name, values in outcomes.items()}
    columns["gaps"] = gap_lists(gaps, len(in_order))
    return pa.table(
        [columns[name] if name in columns else events[name] for name in CLASSIFIED.names], schema=CLASSIFIED
    )


def _put_back(values: Any, in_order: Ints) -> Any:
    found = np.empty_like(values)
    found[in_order] = values
    return found


def _number_sessions(tags: Any, state_tags: Any) -> tuple[Ints, Ints, int]:
    """Each session's number: those with events come first; how many these are."""
    together = pa.concat_arrays([*_chunks(tags), *_chunks(state_tags)]) if len(tags) + len(state_tags) else None
    if together is None:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), 0
    numbers = ints(together.dictionary_encode().indices).astype(np.int64)
    found, known = numbers[: len(tags)], numbers[len(tags) :]
    return found, known, int(found.max()) + 1 if len(found) else 0


def _chunks(column: Any) -> list[Any]:
    return [chunk.cast(pa.binary()) for chunk in column.chunks] if isinstance(column, pa.ChunkedArray) else [column]


def _sorted_rows(events: Any, session: Ints, sessions: int) -> tuple[Ints, Rows, Ints]:
    """The order of the events, the events in it, and the writer of each session."""
    event_id = halves(events["event_id"])
    number = event_id[:, 1].byteswap()  # a number is written with its highest byte first
    if len(number) and (int(np.max(number)) >> _NUMBER_BITS or sessions >= _MOST_SESSIONS):
        in_order = np.lexsort((number, session))
    else:
        in_order = np.argsort((session.astype(np.uint64) << np.uint64(_NUMBER_BITS)) | number)
    session = session[in_order]
    start = np.searchsorted(session, np.arange(sessions))
    rows = Rows(
        session=session,
        start=start,
        event=ints(events["event"])[in_order],
        at_ms=ints(events["at_ms"])[in_order],
        sequence=ints(events["sequence"])[in_order],
        message=halves(events["message_id"])[in_order],
        payload=halves(events["payload"])[in_order],
        recorded=ints(events["recorded"])[in_order],
    )
    return in_order, rows, event_id[in_order[start], 0].view(np.int64)


def _session_event(rows: Rows, place: int) -> SessionEvent:
    return SessionEvent(
        event=int(rows.event[place]),
        at_ms=int(rows.at_ms[place]),
        sequence=int(rows.sequence[place]),
        message_id=rows.message[place].tobytes(),
        payload=rows.payload[place].tobytes(),
        recorded=int(rows.recorded[place]),
    )

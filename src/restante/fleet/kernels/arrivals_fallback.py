"""The fallback path: one session at a time, by the machine of core/inbox.

It takes the events of a session in order and its state rows; it returns an outcome for each event and the new state
rows. Core and policy take all decisions except one: what an event without a sequence number may mean.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from restante.core.deduplication import Fingerprint, classify_before_decryption
from restante.core.inbox import InboxSession, SkippedRange, step
from restante.core.inbox_events import (
    Arrived,
    Effect,
    Event,
    Hold,
    KnownInOtherSession,
    RecordGap,
    RecordVerdict,
    Refuse,
    Release,
    RequestRetransmit,
    TimePassed,
)
from restante.fleet.kernels.arrivals_schema import (
    ARRIVED,
    COLLISION,
    CONTROL_ARRIVED,
    DUPLICATE,
    HELD,
    LATE,
    MISSING,
    NEW,
    NO_SEQUENCE,
    NO_TIME,
    NOTHING,
    PHASES,
    PLACEHOLDER,
    REFUSED,
    RELEASED,
    REPLAY,
    SEEN,
    SESSION,
    VERDICTS,
    WAITING,
    ZERO_MARK,
)
from restante.model.states import Verdict
from restante.policy.dedup import DedupLimits, is_fresh
from restante.policy.reorder_limits import OrderLimits

_ELSEWHERE = {DUPLICATE: KnownInOtherSession.SAME_CONTENT, COLLISION: KnownInOtherSession.OTHER_CONTENT}
_UNOPENED = (DUPLICATE, COLLISION, REFUSED)
_NUMBER_OF = {verdict: number for number, verdict in enumerate(VERDICTS)}


class SessionEvent(NamedTuple):
    """A row of SESSION_EVENTS without its session and its id."""

    event: int
    at_ms: int
    sequence: int
    message_id: bytes
    payload: bytes
    recorded: int


class StateRow(NamedTuple):
    """A row of the state, but for its session; see kernels/tables."""

    entry: int
    writer: int
    first: int = 0
    last: int = 0
    at_ms: int = 0
    message_id: bytes = ZERO_MARK
    payload: bytes = ZERO_MARK
    flag: int = 0


@dataclass(slots=True)
class ArrivalOutcome:
    verdict: int = NOTHING
    placement: int = NOTHING
    expected: int = 0
    released: int = 0
    gaps: list[tuple[int, int, bool]] = field(default_factory=list)


@dataclass(slots=True)
class _Seen:
    payload: bytes
    at_ms: int


class ExactSession:
    """A session between its events."""

    def __init__(self, rows: Iterable[StateRow], *, writer: int, order: OrderLimits, dedup: DedupLimits) -> None:
        self._writer = writer
        self._order = order
        self._dedup = dedup
        self._session = InboxSession()
        self._seen: dict[bytes, list[_Seen]] = {}
        self._last_at_ms = NO_TIME
        self._load(rows)

    def take(self, row: SessionEvent) -> ArrivalOutcome:
        """The outcome of the next row."""
        self._last_at_ms = max(self._last_at_ms, row.at_ms)
        is_arrival = row.event in (ARRIVED, CONTROL_ARRIVED)
        outcome = self._arrive(row) if is_arrival else self._step(TimePassed(), row.at_ms, None)
        outcome.expected = self._session.expected
        return outcome

    def rows(self) -> Iterator[StateRow]:
        """What is to be known of the session before its next row."""
        session, writer = self._session, self._writer
        yield StateRow(
            SESSION,
            writer,
            first=session.expected,
            at_ms=self._last_at_ms,
            flag=PHASES.index(session.phase),
        )
        for number, at_ms in session.waiting.items():
            yield StateRow(WAITING, writer, first=number, at_ms=at_ms, flag=int(number in session.placeholders))
        for gap in session.missing:
            yield StateRow(MISSING, writer, first=gap.first, last=gap.last, at_ms=gap.skipped_at_ms)
        for message_id, marks in self._seen.items():
            for mark in marks:
                yield StateRow(SEEN, writer, at_ms=mark.at_ms, message_id=message_id, payload=mark.payload)

    def _load(self, rows: Iterable[StateRow]) -> None:
        known: dict[int, list[StateRow]] = {SESSION: [], WAITING: [], MISSING: [], SEEN: []}
        for row in rows:
            known[row.entry].append(row)
        for row in known[SEEN]:
            self._seen.setdefault(row.message_id, []).append(_Seen(row.payload, row.at_ms))
        for row in known[SESSION]:
            self._last_at_ms = row.at_ms
            self._session = InboxSession(
                phase=PHASES[row.flag],
                expected=row.first,
                waiting={one.first: one.at_ms for one in known[WAITING]},
                placeholders=frozenset(one.first for one in known[WAITING] if one.flag),
                # In order of their numbers, as the machine keeps them: a gap begins where the one before it ended.
                missing=tuple(SkippedRange(one.first, one.last, one.at_ms) for one in sorted(known[MISSING])),
            )

    def _arrive(self, row: SessionEvent) -> ArrivalOutcome:
        marks = self._seen.get(row.message_id, [])
        fresh = [mark for mark in marks if is_fresh(self._dedup, seen_at_ms=mark.at_ms, now_ms=row.at_ms)]
        known = classify_before_decryption(
            (Fingerprint(b"", mark.payload, b"") for mark in fresh), session=b"", payload=row.payload
        )
        if known is Verdict.DUPLICATE:
            next(mark for mark in fresh if mark.payload == row.payload).at_ms = row.at_ms
        if known is not None:
            return ArrivalOutcome(verdict=_NUMBER_OF[known])
        if row.sequence == NO_SEQUENCE:
            # Never decrypted: its recipient knew it from events that never came, or could not read it.
            return ArrivalOutcome(verdict=row.recorded if row.recorded in _UNOPENED else REPLAY)
        elsewhere = _ELSEWHERE.get(row.recorded, KnownInOtherSession.UNKNOWN)
        is_control = row.event == CONTROL_ARRIVED
        outcome = self._step(Arrived(row.sequence, elsewhere, is_control), row.at_ms, row.sequence)
        if outcome.verdict in (NEW, DUPLICATE):
            self._seen.setdefault(row.message_id, []).append(_Seen(row.payload, row.at_ms))
        if outcome.verdict in _ELSEWHERE or (is_control and outcome.verdict == NEW):
            outcome.placement = PLACEHOLDER
        return outcome

    def _step(self, event: Event, now_ms: int, arrived: int | None) -> ArrivalOutcome:
        self._session, effects = step(self._session, event, now_ms=now_ms, limits=self._order)
        outcome = ArrivalOutcome()
        for effect in effects:
            _note(outcome, effect, arrived)
        return outcome


def _note(outcome: ArrivalOutcome, effect: Effect, arrived: int | None) -> None:
    match effect:
        case RecordVerdict(verdict):
            outcome.verdict = _NUMBER_OF[verdict]
        case Refuse():
            outcome.verdict = REFUSED
        case Hold():
            outcome.placement = HELD
        case Release(sequence, is_late):
            outcome.released += 1
            if outcome.verdict == NEW and sequence == arrived:
                outcome.placement = LATE if is_late else RELEASED
        case RecordGap(first, last):
            outcome.gaps.append((first, last, False))
        case RequestRetransmit():
            outcome.gaps[-1] = (*outcome.gaps[-1][:2], True)
        case _:
            pass  # Discard: there is nothing to release

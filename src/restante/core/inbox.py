"""The state machine of one incoming session: verdicts, order of release and gaps (SPEC 9.1, 9.4, 9.5).

There is one machine per sender and session. Every transition is in this file, and every event is allowed in every
phase. Each step first applies what is due at its time. So equal arrivals at equal times give equal verdicts, order and
gaps, however often the host called it in between. It does not decrypt, store or acknowledge. No arrival ends a session.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, assert_never

from restante.core.inbox_events import (
    Arrived,
    Discard,
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
from restante.model.states import Verdict
from restante.policy.reorder_limits import (
    MAX_MISSING,
    OrderLimits,
    gap_ends_at_ms,
    is_kept_open,
    is_too_far_ahead,
    retransmit_range,
)


class Phase(StrEnum):
    """The phases of an incoming session."""

    FLOWING = "flowing"
    """Every message that arrived was released."""
    WAITING = "waiting"
    """At least one message is buffered until an earlier one arrives."""


@dataclass(frozen=True, slots=True)
class SkippedRange:
    """Numbers that were skipped at that time and have not arrived, both ends included."""

    first: int
    last: int
    skipped_at_ms: int


_NOTHING_WAITS: Final[Mapping[int, int]] = {}


class InboxSession(NamedTuple):
    """The state of a session. `expected` is the lowest number not passed yet; `waiting` are the buffered ones with
    their time.

    `placeholders` are the buffered numbers with nothing to release: control messages, and messages that another session
    delivered. It is a tuple because one is made for each message: a frozen dataclass takes four times as long.
    """

    phase: Phase = Phase.FLOWING
    expected: int = 0
    waiting: Mapping[int, int] = _NOTHING_WAITS
    placeholders: frozenset[int] = frozenset()
    missing: tuple[SkippedRange, ...] = ()


Step = tuple[InboxSession, tuple[Effect, ...]]
_FLOWING: Final = Phase.FLOWING
_NEW: Final = RecordVerdict(Verdict.NEW)
_VERDICT_BY_CONTENT: Final = {
    KnownInOtherSession.UNKNOWN: _NEW,
    KnownInOtherSession.SAME_CONTENT: RecordVerdict(Verdict.DUPLICATE),
    KnownInOtherSession.OTHER_CONTENT: RecordVerdict(Verdict.COLLISION),
}


def step(session: InboxSession, event: Event, *, now_ms: int, limits: OrderLimits) -> Step:
    """Return the session after `event` and the effects, which the host executes in this order in the same
    transaction."""
    if session.phase is _FLOWING and isinstance(event, Arrived) and event.sequence == session.expected:
        return _in_turn(session, event)
    session, effects = _skip_old_gaps(session, now_ms, limits)
    match event:
        case Arrived():
            session, more = _arrived(session, event, now_ms, limits)
        case TimePassed():
            return session, effects
        case _:
            assert_never(event)
    return session, effects + more


def next_wake_ms(session: InboxSession, *, limits: OrderLimits) -> int | None:
    """Return when time alone changes the session, or None."""
    if not session.waiting:
        return None
    return gap_ends_at_ms(limits, oldest_waiting_ms=min(session.waiting.values()))


def highest_read(session: InboxSession) -> int:
    """Return the highest number that arrived; -1 before the first."""
    return max(session.waiting, default=session.expected - 1)


def is_consumed(session: InboxSession, sequence: int, *, now_ms: int) -> bool:
    """Return whether the number was used before and its key deleted (SPEC 9.1)."""
    if sequence >= session.expected:
        return sequence in session.waiting
    return not any(
        gap.first <= sequence <= gap.last and is_kept_open(skipped_at_ms=gap.skipped_at_ms, now_ms=now_ms)
        for gap in session.missing
    )


def _arrived(session: InboxSession, event: Arrived, now_ms: int, limits: OrderLimits) -> Step:
    sequence = event.sequence
    if is_consumed(session, sequence, now_ms=now_ms):
        return session, (RecordVerdict(Verdict.REPLAY),)
    if is_too_far_ahead(limits, sequence=sequence, highest_read=highest_read(session)):
        return session, (Refuse(),)
    recorded = _VERDICT_BY_CONTENT[event.elsewhere]
    is_placeholder = event.is_control or recorded is not _NEW
    if sequence < session.expected:
        found = session._replace(missing=_without(session.missing, sequence))
        return found, (recorded,) if is_placeholder else (recorded, Release(sequence, is_late=True))
    if sequence > session.expected:
        held = session._replace(
            phase=Phase.WAITING,
            waiting={**session.waiting, sequence: now_ms},
            placeholders=session.placeholders | {sequence} if is_placeholder else session.placeholders,
        )
        full, skipped = _skip_while_full(held, now_ms, limits)
        return full, (recorded, Hold(sequence, is_placeholder), *skipped)
    run_on, released = _run_on(session._replace(expected=sequence + 1))
    return run_on, (recorded, *released) if is_placeholder else (recorded, Release(sequence), *released)


def _in_turn(session: InboxSession, event: Arrived) -> Step:
    """Handle the most frequent case: the expected number, with nothing buffered.

    The session is built directly, because `_replace` takes three times as long.
    """
    _, sequence, waiting, placeholders, missing = session
    recorded = _VERDICT_BY_CONTENT[event.elsewhere]
    moved = InboxSession(_FLOWING, sequence + 1, waiting, placeholders, missing)
    return moved, (recorded, Release(sequence)) if recorded is _NEW and not event.is_control else (recorded,)


def _run_on(session: InboxSession) -> Step:
    """Release all buffered messages from `expected` on, up to the next gap."""
    if session.expected not in session.waiting:
        return session, ()
    waiting = dict(session.waiting)
    released: list[Effect] = []
    number = session.expected
    while number in waiting:
        del waiting[number]
        released.append(Discard(number) if number in session.placeholders else Release(number))
        number += 1
    after = session._replace(
        phase=Phase.WAITING if waiting else Phase.FLOWING,
        expected=number,
        waiting=waiting,
        placeholders=session.placeholders.intersection(waiting),
    )
    return after, tuple(released)


def _skip_old_gaps(session: InboxSession, now_ms: int, limits: OrderLimits) -> Step:
    """Skip gaps that are too old, and request their messages again (SPEC 9.5)."""
    effects: tuple[Effect, ...] = ()
    while (due_ms := next_wake_ms(session, limits=limits)) is not None and due_ms <= now_ms:
        # Record the time when the gap was due, not the time of this step: equal arrivals give equal sessions.
        session, skipped = _skip(session, skipped_at_ms=due_ms)
        effects += skipped
    return session, effects


def _skip_while_full(session: InboxSession, now_ms: int, limits: OrderLimits) -> Step:
    """Skip the lowest gap at once when more messages wait than the buffer holds (SPEC 9.4)."""
    effects: tuple[Effect, ...] = ()
    while len(session.waiting) > limits.max_gap:
        session, skipped = _skip(session, skipped_at_ms=now_ms)
        effects += skipped
    return session, effects


def _skip(session: InboxSession, *, skipped_at_ms: int) -> Step:
    """Request the missing messages again, go on to the lowest buffered number and release up to the next gap."""
    gap = SkippedRange(session.expected, min(session.waiting) - 1, skipped_at_ms)
    moved = session._replace(expected=gap.last + 1, missing=_newest((*session.missing, gap)))
    run_on, released = _run_on(moved)
    requested = RequestRetransmit(*retransmit_range(gap.first))
    return run_on, (RecordGap(gap.first, gap.last), requested, *released)


def _without(missing: tuple[SkippedRange, ...], sequence: int) -> tuple[SkippedRange, ...]:
    """Return the gaps without a number that arrived."""
    left: list[SkippedRange] = []
    for gap in missing:
        if not gap.first <= sequence <= gap.last:
            left.append(gap)
            continue
        if gap.first < sequence:
            left.append(SkippedRange(gap.first, sequence - 1, gap.skipped_at_ms))
        if sequence < gap.last:
            left.append(SkippedRange(sequence + 1, gap.last, gap.skipped_at_ms))
    return tuple(left)


def _newest(missing: tuple[SkippedRange, ...]) -> tuple[SkippedRange, ...]:
    """Return the highest missing numbers, as many as keys are stored for."""
    space = MAX_MISSING
    kept: list[SkippedRange] = []
    for gap in reversed(missing):
        if space <= 0:
            break
        first = max(gap.first, gap.last + 1 - space)
        kept.append(SkippedRange(first, gap.last, gap.skipped_at_ms))
        space -= gap.last + 1 - first
    return tuple(reversed(kept))

"""One incoming session: what each arrival is, in which order the application gets them, when a gap is given up.

One machine per sender and session (SPEC 9.1, 9.4, 9.5, 8.7); every transition is in this file, no pair of phase and
event is refused. Equal arrivals at equal times give equal verdicts, order, gaps and resets, however often the host
looked at the clock in between: time is judged first in every step. It does not decrypt, store or acknowledge.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, assert_never

from restante.core.inbox_events import (
    Arrived,
    AskReset,
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
    ResetAgreed,
    ResetReason,
    SessionFailed,
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
    FLOWING = "flowing"
    """Everything that came was handed on."""
    WAITING = "waiting"
    """Something came that has to wait for an earlier one."""
    BROKEN = "broken"
    """Given up; we asked the sender for another session."""
    CLOSED = "closed"
    """Over: the sender goes on in another session."""


@dataclass(frozen=True, slots=True)
class SkippedRange:
    """Numbers that were skipped at that moment and have not come yet, both ends included."""

    first: int
    last: int
    skipped_at_ms: int


_NOTHING_WAITS: Final[Mapping[int, int]] = {}


class InboxSession(NamedTuple):
    """`expected` is the lowest number not passed yet. `waiting` holds what came early, with the time it came.

    `void` are those of the waiting that have nothing to show: another session brought their message before. A tuple,
    because one is made for each message: a frozen dataclass takes four times as long.
    """

    phase: Phase = Phase.FLOWING
    expected: int = 0
    waiting: Mapping[int, int] = _NOTHING_WAITS
    void: frozenset[int] = frozenset()
    missing: tuple[SkippedRange, ...] = ()
    asked_at_ms: int | None = None
    reason: ResetReason | None = None


Step = tuple[InboxSession, tuple[Effect, ...]]
_FLOWING: Final = Phase.FLOWING
_OPEN: Final = frozenset({Phase.FLOWING, Phase.WAITING})
_NEW: Final = RecordVerdict(Verdict.NEW)
_VERDICT_BY_CONTENT: Final = {
    KnownInOtherSession.UNKNOWN: _NEW,
    KnownInOtherSession.SAME_CONTENT: RecordVerdict(Verdict.DUPLICATE),
    KnownInOtherSession.OTHER_CONTENT: RecordVerdict(Verdict.COLLISION),
}


def step(session: InboxSession, event: Event, *, now_ms: int, limits: OrderLimits) -> Step:
    """The session after `event`, and the effects the host carries out, in this order, in the same transaction."""
    if session.phase is _FLOWING and isinstance(event, Arrived) and event.sequence == session.expected:
        return _in_turn(session, event)
    session, effects = _skip_old_gaps(session, now_ms, limits)
    match event:
        case Arrived():
            session, more = _arrived(session, event, now_ms, limits)
        case TimePassed():
            return session, effects
        case SessionFailed():
            session, more = _failed(session, event.reason, now_ms, limits)
        case ResetAgreed():
            session, more = _end(session, Phase.CLOSED, now_ms)
        case _:
            assert_never(event)
    return session, effects + more


def next_wake_ms(session: InboxSession, *, limits: OrderLimits) -> int | None:
    """When time alone changes the session; None while it waits for nothing."""
    if not session.waiting:
        return None
    return gap_ends_at_ms(limits, oldest_waiting_ms=min(session.waiting.values()))


def is_consumed(session: InboxSession, sequence: int, *, now_ms: int) -> bool:
    """Whether the number was used before and no key for it is left (SPEC 9.1)."""
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
    if session.phase not in _OPEN:
        asked, effects = _ask_again(session, now_ms, limits)
        return asked, (Refuse(), *effects)
    if is_too_far_ahead(limits, sequence=sequence, expected=session.expected):
        broken, effects = _failed(session, ResetReason.GAP_TOO_WIDE, now_ms, limits)
        return broken, (Refuse(), *effects)
    judged = _VERDICT_BY_CONTENT[event.elsewhere]
    is_void = judged is not _NEW
    if sequence < session.expected:
        found = session._replace(missing=_without(session.missing, sequence))
        return found, (judged,) if is_void else (judged, Release(sequence, is_late=True))
    if sequence > session.expected:
        held = session._replace(
            phase=Phase.WAITING,
            waiting={**session.waiting, sequence: now_ms},
            void=session.void | {sequence} if is_void else session.void,
        )
        return held, (judged, Hold(sequence, is_void))
    run_on, released = _run_on(session._replace(expected=sequence + 1))
    return run_on, (judged, *released) if is_void else (judged, Release(sequence), *released)


def _in_turn(session: InboxSession, event: Arrived) -> Step:
    """The way almost every message goes: nothing waits, so that nothing runs on, and no other question is open.

    The session is made whole, not by `_replace`, which takes three times as long.
    """
    _, sequence, waiting, void, missing, _, _ = session
    judged = _VERDICT_BY_CONTENT[event.elsewhere]
    moved = InboxSession(_FLOWING, sequence + 1, waiting, void, missing)
    return moved, (judged, Release(sequence)) if judged is _NEW else (judged,)


def _run_on(session: InboxSession) -> Step:
    """Hand on everything that waits from `expected` without a break."""
    if session.expected not in session.waiting:
        return session, ()
    waiting = dict(session.waiting)
    released: list[Effect] = []
    number = session.expected
    while number in waiting:
        del waiting[number]
        released.append(Discard(number) if number in session.void else Release(number))
        number += 1
    after = session._replace(
        phase=Phase.WAITING if waiting else Phase.FLOWING,
        expected=number,
        waiting=waiting,
        void=session.void.intersection(waiting),
    )
    return after, tuple(released)


def _skip_old_gaps(session: InboxSession, now_ms: int, limits: OrderLimits) -> Step:
    """Give up waiting for what has been missing too long, and ask for it again (SPEC 9.5)."""
    effects: tuple[Effect, ...] = ()
    while (due_ms := next_wake_ms(session, limits=limits)) is not None and due_ms <= now_ms:
        first = session.expected
        # Skipped when it was due, not when the host looked: equal arrivals, equal sessions.
        session, skipped = _skip(session, skipped_at_ms=due_ms)
        effects += (skipped[0], RequestRetransmit(*retransmit_range(first)), *skipped[1:])
    return session, effects


def _skip(session: InboxSession, *, skipped_at_ms: int) -> Step:
    """On to the lowest that waits, and from there without a break."""
    gap = SkippedRange(session.expected, min(session.waiting) - 1, skipped_at_ms)
    moved = session._replace(expected=gap.last + 1, missing=_newest((*session.missing, gap)))
    run_on, released = _run_on(moved)
    return run_on, (RecordGap(gap.first, gap.last), *released)


def _end(session: InboxSession, phase: Phase, now_ms: int) -> Step:
    """No more of this session. What waited was acknowledged, so nobody would send it again: it is handed on."""
    effects: tuple[Effect, ...] = ()
    while session.waiting:
        session, skipped = _skip(session, skipped_at_ms=now_ms)
        effects += skipped
    return session._replace(phase=phase), effects


def _failed(session: InboxSession, reason: ResetReason, now_ms: int, limits: OrderLimits) -> Step:
    if session.phase not in _OPEN:
        return _ask_again(session, now_ms, limits)
    broken, effects = _end(session, Phase.BROKEN, now_ms)
    return broken._replace(asked_at_ms=now_ms, reason=reason), (*effects, AskReset(reason))


def _ask_again(session: InboxSession, now_ms: int, limits: OrderLimits) -> Step:
    """The first request may have been lost: it is repeated while the sender goes on here, but not for each arrival."""
    if session.phase is Phase.CLOSED or session.asked_at_ms is None or session.reason is None:
        return session, ()
    if now_ms < session.asked_at_ms + limits.gap_timeout_ms:
        return session, ()
    return session._replace(asked_at_ms=now_ms), (AskReset(session.reason),)


def _without(missing: tuple[SkippedRange, ...], sequence: int) -> tuple[SkippedRange, ...]:
    """The gaps after one of their numbers came."""
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
    """As many of the highest numbers as keys are kept for."""
    room = MAX_MISSING
    kept: list[SkippedRange] = []
    for gap in reversed(missing):
        if room <= 0:
            break
        first = max(gap.first, gap.last + 1 - room)
        kept.append(SkippedRange(first, gap.last, gap.skipped_at_ms))
        room -= gap.last + 1 - first
    return tuple(reversed(kept))

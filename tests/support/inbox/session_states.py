"""Incoming sessions in each phase, brought there by the machine itself; for every test of the inbox machine."""

from collections.abc import Iterable
from typing import Final

from restante.core.inbox import InboxSession, Phase, Step, step
from restante.core.inbox_events import (
    Arrived,
    Effect,
    Event,
    KnownInOtherSession,
    RecordVerdict,
    Refuse,
    Release,
    TimePassed,
)
from restante.model.states import Verdict
from restante.policy.reorder_limits import OrderLimits

NOW_MS: Final = 1_800_000_000_000
MINUTE_MS: Final = 60_000
DAY_MS: Final = 86_400_000
LIMITS: Final = OrderLimits()
GAP_MS: Final = LIMITS.gap_timeout_ms

WAY_TO: Final[dict[Phase, tuple[Event, ...]]] = {
    Phase.FLOWING: (Arrived(sequence=0),),
    Phase.WAITING: (Arrived(sequence=0), Arrived(sequence=2)),
}
"""In each of them 0 was released and 1 has not come; when waiting, 2 is buffered."""


def taken(session: InboxSession, event: Event, *, at_ms: int = NOW_MS, limits: OrderLimits = LIMITS) -> Step:
    return step(session, event, now_ms=at_ms, limits=limits)


def after(session: InboxSession, *events: Event, at_ms: int = NOW_MS) -> InboxSession:
    for event in events:
        session, _ = taken(session, event, at_ms=at_ms)
    return session


def reached(phase: Phase) -> InboxSession:
    return after(InboxSession(), *WAY_TO[phase])


def arrived(session: InboxSession, numbers: Iterable[int], *, at_ms: int = NOW_MS) -> tuple[InboxSession, list[Effect]]:
    """All of them, one after the other, at the same time."""
    effects: list[Effect] = []
    for number in numbers:
        session, more = taken(session, Arrived(sequence=number), at_ms=at_ms)
        effects += more
    return session, effects


def verdicts(effects: Iterable[Effect]) -> list[Verdict | None]:
    """What the arrivals were, None for those refused."""
    return [
        effect.verdict if isinstance(effect, RecordVerdict) else None
        for effect in effects
        if isinstance(effect, RecordVerdict | Refuse)
    ]


def released(effects: Iterable[Effect]) -> list[int]:
    return [effect.sequence for effect in effects if isinstance(effect, Release)]


EVENTS: Final[dict[str, tuple[Event, int]]] = {
    "next": (Arrived(sequence=1), NOW_MS),
    "next, known elsewhere": (Arrived(sequence=1, elsewhere=KnownInOtherSession.SAME_CONTENT), NOW_MS),
    "next, other content elsewhere": (Arrived(sequence=1, elsewhere=KnownInOtherSession.OTHER_CONTENT), NOW_MS),
    "next, control": (Arrived(sequence=1, is_control=True), NOW_MS),
    "ahead, control": (Arrived(sequence=3, is_control=True), NOW_MS),
    "ahead": (Arrived(sequence=3), NOW_MS),
    "ahead, known elsewhere": (Arrived(sequence=3, elsewhere=KnownInOtherSession.SAME_CONTENT), NOW_MS),
    "number used before": (Arrived(sequence=0), NOW_MS),
    "too far ahead": (Arrived(sequence=5_000), NOW_MS),
    "too far ahead, much later": (Arrived(sequence=5_000), NOW_MS + GAP_MS),
    "a moment passed": (TimePassed(), NOW_MS),
    "five minutes passed": (TimePassed(), NOW_MS + GAP_MS),
}
"""Every event, in each way that makes a difference, and when it happens."""

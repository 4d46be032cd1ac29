"""An outbox entry as `send` leaves it, and ways to take it further; for every test of the outbox machine."""

from collections.abc import Mapping
from functools import reduce
from typing import Any, Final

from restante.core.outbox import Step, step
from restante.core.outbox_events import (
    AppendJournalEvent,
    Cancelled,
    CapacityExceeded,
    Effect,
    EmitEvent,
    Event,
    Leased,
    ReceiptAcked,
    StoreDeadLetter,
    TransmitFailed,
    TransmitSucceeded,
)
from restante.model.ids import MessageId
from restante.model.journal import STATE_AFTER
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import DeadLetter, OutboxEntry
from restante.model.states import Route, State
from restante.policy.failures import Failure
from restante.policy.settings import Settings

NOW_MS = 1_800_000_000_000
SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
SETTINGS = Settings()
OWNER = "drain-1"


def accepted(**changes: Any) -> OutboxEntry:
    """A text for a relay, accepted at NOW_MS, with the 30 days of its kind before it."""
    fields: dict[str, Any] = {
        "message_id": MessageId(bytes(16)),
        "route": Route.RELAY,
        "lane": "north",
        "kind": Kind.TEXT,
        "payload": b"sealed",
        "sealed_plaintext": b"kept",
        "priority": Priority.NORMAL,
        "created_at_ms": NOW_MS,
        "queued_at_ms": NOW_MS,
        "ttl_s": 30 * 86_400,
        "expires_at_ms": NOW_MS + 30 * DAY_MS,
        "next_attempt_at_ms": NOW_MS,
    }
    return OutboxEntry(**(fields | changes))


def after(entry: OutboxEntry, event: Event, *, at_ms: int = NOW_MS, settings: Settings = SETTINGS) -> OutboxEntry:
    return step(entry, event, now_ms=at_ms, settings=settings)[0]


def taken(entry: OutboxEntry, event: Event, *, at_ms: int = NOW_MS, settings: Settings = SETTINGS) -> Step:
    return step(entry, event, now_ms=at_ms, settings=settings)


def leased(entry: OutboxEntry, *, at_ms: int = NOW_MS) -> OutboxEntry:
    """On its way, claimed for a minute."""
    return after(entry, lease(at_ms), at_ms=at_ms)


def lease(at_ms: int = NOW_MS) -> Leased:
    return Leased(owner=OWNER, until_ms=at_ms + MINUTE_MS)


def failure(kind: Failure = Failure.NETWORK_TIMEOUT, *, told_ms: int | None = None) -> TransmitFailed:
    return TransmitFailed(owner=OWNER, failure=kind, retry_after_ms=told_ms)


WAY_TO: Final[Mapping[State, tuple[Event, ...]]] = {
    State.PENDING: (),
    State.SENDING: (lease(),),
    State.SENT: (lease(), TransmitSucceeded()),
    State.DELIVERED: (lease(), TransmitSucceeded(), ReceiptAcked()),
    State.EXPIRED: (lease(), failure(Failure.TTL_EXPIRED)),
    State.EVICTED: (CapacityExceeded(),),
    State.DEAD: (Cancelled(),),
}


def reached(state: State) -> OutboxEntry:
    """An entry in that state, brought there by the machine itself."""
    return reduce(after, WAY_TO[state], accepted())


def records(effects: tuple[Effect, ...]) -> list[tuple[str, str | None]]:
    """The journal facts among the effects, each with its code."""
    return [(effect.kind.value, effect.code) for effect in effects if isinstance(effect, AppendJournalEvent)]


def notices(effects: tuple[Effect, ...]) -> list[tuple[str, str | None]]:
    return [(effect.notice.value, effect.code) for effect in effects if isinstance(effect, EmitEvent)]


def journaled_states(effects: tuple[Effect, ...]) -> list[State]:
    """The states the journal goes through, in order (SPEC 1.4)."""
    return [
        STATE_AFTER[effect.kind]
        for effect in effects
        if isinstance(effect, AppendJournalEvent) and effect.kind in STATE_AFTER
    ]


def buried(effects: tuple[Effect, ...]) -> DeadLetter:
    """The one letter among the effects."""
    [letter] = [effect.letter for effect in effects if isinstance(effect, StoreDeadLetter)]
    return letter


def failed_times(entry: OutboxEntry, count: int, settings: Settings) -> OutboxEntry:
    """After `count` tries in a row that all timed out."""
    for _ in range(count):
        at_ms = entry.next_attempt_at_ms
        entry = after(after(entry, lease(at_ms), at_ms=at_ms), failure(), at_ms=at_ms, settings=settings)
    return entry

"""The life of one outbox entry: each state, each event and what follows (SPEC 1.4, 3.5, 3.8, 3.13, 4.3, 5.2).

`TABLE` lists every transition of the machine; code, tests and the diagram in the docs read it. Which entry is chosen
next is decided in policy/send_order. An event that the table does not list for a state raises and changes nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from restante.core.outbox_events import (
    AppendJournalEvent,
    Cancelled,
    CapacityExceeded,
    DeletePayload,
    DeliveryAcked,
    Effect,
    EmitEvent,
    Event,
    Leased,
    OutboxEventType,
    ReadAcked,
    ReceiptAcked,
    RecipientReached,
    Recovered,
    ResetSession,
    RetransmitRequested,
    StoreDeadLetter,
    TimePassed,
    TransmitFailed,
    TransmitSucceeded,
)
from restante.model.error_codes import Code
from restante.model.errors import LocalProtocolError
from restante.model.journal import AUTOMATIC_RETRY, JournalKind
from restante.model.kinds import KIND_RULES
from restante.model.outbox_entry import DeadLetter, Lease, OutboxEntry
from restante.model.states import Confirmation, DeadCategory, DeadReason, DropReason, Route, State
from restante.policy.ack_batching import advance
from restante.policy.completion import LONGEST_STORED_WAIT_MS, ends_when_accepted, store_again_at_ms
from restante.policy.dead_letters import category_of, recovered_expiry_ms
from restante.policy.dead_letters import expires_at_ms as letter_expires_at_ms
from restante.policy.failures import FAILURE_RULES, GiveUp, Remove, RetryAt, decide
from restante.policy.pruning import Pruning, pruning
from restante.policy.retry import Schedule, longest_wait_ms
from restante.policy.send_order import has_exceeded_queue_time, is_abandoned, is_due
from restante.policy.settings import Settings

Step = tuple[OutboxEntry, tuple[Effect, ...]]
Handler = Callable[[OutboxEntry, Any, int, Settings], Step]

_UNCHANGED: Final[tuple[Effect, ...]] = ()
_ATTEMPTED: Final = AppendJournalEvent(kind=JournalKind.ATTEMPTED)
_EMIT_SENT: Final = EmitEvent(notice=OutboxEventType.SENT)
_EMIT_DELIVERED: Final = EmitEvent(notice=OutboxEventType.DELIVERED)
_DELETE_PAYLOAD: Final = DeletePayload()
LEASE_EXPIRED: Final = "lease_expired"
LATE_RECEIPT: Final = "late_receipt"


def step(entry: OutboxEntry, event: Event, *, now_ms: int, settings: Settings) -> Step:
    """Return the entry after `event`, and the effects that the host carries out in the same transaction."""
    transition = TABLE.get((entry.state, type(event)))
    if transition is None:
        raise LocalProtocolError(f"{type(event).__name__} while {entry.state}")
    return transition.handler(entry, event, now_ms, settings)


def _ignore(entry: OutboxEntry, _event: Event, _now_ms: int, _settings: Settings) -> Step:
    """Late answers, repeated acknowledgements and idle sweeps are normal and change nothing."""
    return entry, _UNCHANGED


def schedule_of(route: Route, settings: Settings) -> Schedule:
    return settings.channel_retry if route is Route.CHANNEL else settings.retry


def longest_wait_of(entry: OutboxEntry, settings: Settings) -> int:
    """Return the longest wait that this entry can have. A longer one shows that the clock jumped (SPEC 3.5)."""
    if entry.state is State.SENT:
        return LONGEST_STORED_WAIT_MS
    return longest_wait_ms(schedule_of(entry.route, settings))


def _lease(entry: OutboxEntry, event: Leased, now_ms: int, settings: Settings) -> Step:
    """Begin an attempt. Storing again what was stored before starts its attempts at one (SPEC 10.4)."""
    if ended := _ended_by_time(entry, now_ms, settings):
        return ended
    longest_ms = longest_wait_of(entry, settings)
    if not is_due(entry.next_attempt_at_ms, now_ms=now_ms, longest_wait_ms=longest_ms):
        raise LocalProtocolError(f"Leased before next_attempt_at_ms while {entry.state}")
    again = entry.state is State.SENT
    leased = entry._replace(
        state=State.SENDING,
        attempts=1 if again else entry.attempts + 1,
        failures=0 if again else entry.failures,
        lease=Lease(owner=event.owner, until_ms=event.until_ms),
        first_attempt_at_ms=now_ms if entry.first_attempt_at_ms is None else entry.first_attempt_at_ms,
        last_attempt_at_ms=now_ms,
    )
    return leased, (_ATTEMPTED,)


def _ended_by_time(entry: OutboxEntry, now_ms: int, settings: Settings) -> Step | None:
    """End an expired entry, with or without an event, before anything else (SPEC 3.3, 3.9)."""
    fate = pruning(settings.outbox, entry, now_ms)
    if fate is Pruning.KEEP:
        return None
    return _expired(entry, now_ms, settings, notify=fate is Pruning.EXPIRE)


def _pass_time_waiting(entry: OutboxEntry, event: TimePassed, now_ms: int, settings: Settings) -> Step:
    if ended := _ended_by_time(entry, now_ms, settings):
        return ended
    is_over = entry.state is State.PENDING and has_exceeded_queue_time(
        kind=entry.kind, priority=entry.priority, was_sent=entry.was_sent, connected_ms=event.connected_ms
    )
    if is_over:
        return _bury(entry, DeadReason.QUEUE_TIME_EXCEEDED, None, now_ms, settings)
    return entry, _UNCHANGED


def _pass_time_sending(entry: OutboxEntry, event: TimePassed, now_ms: int, settings: Settings) -> Step:
    """Take the entry back if its owner died during the attempt: the attempt counts, the entry is due (SPEC 3.5)."""
    if not is_abandoned(entry, now_ms, dead_owner=event.dead_owner):
        return entry, _UNCHANGED
    if ended := _ended_by_time(entry, now_ms, settings):
        return ended
    if entry.attempts >= schedule_of(entry.route, settings).max_attempts:
        return _bury(entry, DeadReason.ATTEMPTS_EXHAUSTED, Code.NETWORK_UNREACHABLE, now_ms, settings)
    free = entry._replace(state=State.PENDING, lease=None, next_attempt_at_ms=now_ms)
    return free, (
        AppendJournalEvent(kind=JournalKind.RETRIED, code=LEASE_EXPIRED),
        EmitEvent(notice=OutboxEventType.RETRIED, code=LEASE_EXPIRED),
    )


def _accepted_by_next_hop(entry: OutboxEntry, _event: TransmitSucceeded, now_ms: int, settings: Settings) -> Step:
    """PENDING is possible, too: the answer may come after the lease expired."""
    times_stored = entry.times_stored + 1
    sent = entry._replace(
        state=State.SENT,
        lease=None,
        times_stored=times_stored,
        failures=0,
        last_error=None,
        next_attempt_at_ms=store_again_at_ms(
            stored_at_ms=now_ms, times_stored=times_stored, expires_at_ms=entry.expires_at_ms
        ),
    )
    effects: tuple[Effect, ...] = (
        AppendJournalEvent(kind=JournalKind.SENT, latency_ms=now_ms - entry.created_at_ms),
        _EMIT_SENT,
    )
    if not ends_when_accepted(entry.route, entry.kind):
        return sent, effects
    delivered, more = _received(sent, ReceiptAcked(), now_ms, settings)
    return delivered, effects + more


def _failed(entry: OutboxEntry, event: TransmitFailed, now_ms: int, settings: Settings) -> Step:
    if entry.lease is None or entry.lease.owner != event.owner:
        return entry, _UNCHANGED
    rule = FAILURE_RULES[event.failure]
    session: tuple[Effect, ...] = (ResetSession(),) if rule.resets_session else ()
    if ended := _ended_by_time(entry, now_ms, settings):
        gone, effects = ended
        return gone, session + effects
    failures = entry.failures + 1
    decision = decide(
        event.failure,
        attempts=entry.attempts,
        failures=failures,
        now_ms=now_ms,
        dice=event.dice,
        schedule=schedule_of(entry.route, settings),
        retry_after_ms=event.retry_after_ms,
        reached=event.reached,
        has_failed_to_encrypt=entry.has_failed_to_encrypt,
    )
    failed = entry._replace(lease=None, last_error=rule.code, failures=failures)
    match decision:
        case Remove():
            gone, effects = _expired(failed, now_ms, settings, notify=True)
            return gone, session + effects
        case GiveUp():
            buried, effects = _bury(failed, decision.reason, decision.code, now_ms, settings)
            return buried, session + effects
        case RetryAt():
            waiting = failed._replace(
                state=State.PENDING,
                attempts=entry.attempts if decision.counts else entry.attempts - 1,
                next_attempt_at_ms=decision.at_ms,
                has_failed_to_encrypt=entry.has_failed_to_encrypt or rule.retries_once,
            )
            return waiting, (
                *session,
                AppendJournalEvent(kind=JournalKind.RETRIED, code=rule.code),
                EmitEvent(notice=OutboxEventType.RETRIED, code=rule.code),
            )


def _stored(entry: OutboxEntry, event: DeliveryAcked, _now_ms: int, _settings: Settings) -> Step:
    """Journal every node's acknowledgement; emit an event for the first."""
    known = advance(entry.confirmation, Confirmation.STORED)
    is_first = known is not entry.confirmation
    if not is_first and event.node is None:
        return entry, _UNCHANGED
    told = AppendJournalEvent(kind=JournalKind.DELIVERY_CONFIRMED, node=event.node, receipt=event.receipt)
    if not is_first:
        return entry, (told,)
    return entry._replace(confirmation=known), (told, EmitEvent(notice=OutboxEventType.DELIVERY_CONFIRMED))


def _received(entry: OutboxEntry, _event: ReceiptAcked, now_ms: int, _settings: Settings) -> Step:
    done = entry._replace(
        state=State.DELIVERED, lease=None, confirmation=advance(entry.confirmation, Confirmation.RECEIVED)
    )
    return done, (
        AppendJournalEvent(kind=JournalKind.DELIVERED, latency_ms=now_ms - entry.created_at_ms),
        _EMIT_DELIVERED,
        _DELETE_PAYLOAD,
    )


def _read(entry: OutboxEntry, _event: ReadAcked, now_ms: int, settings: Settings) -> Step:
    """READ implies RECEIPT (SPEC 3.13)."""
    delivered, effects = _received(entry, ReceiptAcked(), now_ms, settings)
    read, more = _read_delivered(delivered, _event, now_ms, settings)
    return read, effects + more


def _read_delivered(entry: OutboxEntry, _event: ReadAcked, _now_ms: int, _settings: Settings) -> Step:
    known = advance(entry.confirmation, Confirmation.READ)
    if known is entry.confirmation:
        return entry, _UNCHANGED
    effects = (AppendJournalEvent(kind=JournalKind.READ), EmitEvent(notice=OutboxEventType.READ))
    return entry._replace(confirmation=known), effects


def _delivered_after_death(
    entry: OutboxEntry, event: ReceiptAcked | ReadAcked, now_ms: int, settings: Settings
) -> Step:
    """An earlier attempt arrived after all. It is recovered only to end as delivered, so that the journal balances."""
    delivered, effects = step(entry._replace(state=State.SENT), event, now_ms=now_ms, settings=settings)
    return delivered, (AppendJournalEvent(kind=JournalKind.RECOVERED, code=LATE_RECEIPT), *effects)


def _evicted(entry: OutboxEntry, _event: CapacityExceeded, _now_ms: int, _settings: Settings) -> Step:
    return entry._replace(state=State.EVICTED), (
        AppendJournalEvent(kind=JournalKind.EVICTED, code=DropReason.EVICTED_FOR_CAPACITY),
        EmitEvent(notice=OutboxEventType.EVICTED, code=DropReason.EVICTED_FOR_CAPACITY),
        _DELETE_PAYLOAD,
    )


def _cancelled(entry: OutboxEntry, _event: Cancelled, now_ms: int, settings: Settings) -> Step:
    return _bury(entry, DeadReason.CANCELLED, None, now_ms, settings)


def _recovered(entry: OutboxEntry, event: Recovered, now_ms: int, _settings: Settings) -> Step:
    """Back into the queue, due at once. Only a user's request gives it a new TTL; an automatic retry keeps the old."""
    new_end_ms = recovered_expiry_ms(
        ttl_s=entry.ttl_s,
        expires_at_ms=entry.expires_at_ms,
        now_ms=now_ms,
        ttl_type=KIND_RULES[entry.kind].ttl_type,
    )
    if new_end_ms is None:
        raise LocalProtocolError("the message has expired and cannot be recovered", code=Code.TTL_EXPIRED)
    again = entry._replace(
        state=State.PENDING,
        attempts=0,
        failures=0,
        queued_at_ms=now_ms,
        expires_at_ms=entry.expires_at_ms if event.is_automatic else new_end_ms,
        next_attempt_at_ms=now_ms,
        first_dead_at_ms=entry.first_dead_at_ms if event.is_automatic else None,
        times_stored=0,
        has_failed_to_encrypt=False,
    )
    # The fleet's tables recognise by this code which retries leave a dead letter's deadlines unchanged (SPEC 5.3).
    code = AUTOMATIC_RETRY if event.is_automatic else None
    return again, (
        AppendJournalEvent(kind=JournalKind.RECOVERED, code=code),
        EmitEvent(notice=OutboxEventType.RECOVERED),
    )


def _send_now(
    entry: OutboxEntry, _event: RetransmitRequested | RecipientReached, now_ms: int, _settings: Settings
) -> Step:
    """End the wait of an entry; one that is due already stays as it is."""
    if entry.next_attempt_at_ms <= now_ms:
        return entry, _UNCHANGED
    return entry._replace(next_attempt_at_ms=now_ms), _UNCHANGED


def _expired(entry: OutboxEntry, now_ms: int, settings: Settings, *, notify: bool) -> Step:
    """Delete the payload and leave a payload-free tombstone for a day (SPEC 5.2)."""
    ended = entry._replace(state=State.EXPIRED, lease=None, last_error=Code.TTL_EXPIRED)
    tombstone = ended._replace(payload=b"", sealed_plaintext=b"")
    letter = _letter(tombstone, DeadReason.EXPIRED, Code.TTL_EXPIRED, now_ms, settings)
    effects: tuple[Effect, ...] = (
        AppendJournalEvent(kind=JournalKind.EXPIRED, code=Code.TTL_EXPIRED if notify else "pruned"),
        StoreDeadLetter(letter=letter),
        _DELETE_PAYLOAD,
    )
    return ended, (*effects, EmitEvent(notice=OutboxEventType.EXPIRED, code=Code.TTL_EXPIRED)) if notify else effects


def _bury(entry: OutboxEntry, reason: DeadReason, code: Code | None, now_ms: int, settings: Settings) -> Step:
    first_dead_at_ms = now_ms if entry.first_dead_at_ms is None else entry.first_dead_at_ms
    dead = entry._replace(state=State.DEAD, lease=None, first_dead_at_ms=first_dead_at_ms)
    letter = _letter(dead, reason, code, now_ms, settings)
    why = code or reason
    return dead, (
        AppendJournalEvent(kind=JournalKind.DEAD_LETTERED, code=why),
        EmitEvent(notice=OutboxEventType.DEAD_LETTERED, code=why),
        StoreDeadLetter(letter=letter),
        _DELETE_PAYLOAD,
    )


def _letter(entry: OutboxEntry, reason: DeadReason, code: Code | None, now_ms: int, settings: Settings) -> DeadLetter:
    category = category_of(reason)
    # Automatic retries must not prolong how long a dead letter is kept; a tombstone counts from the expiry itself.
    first_ms = now_ms if category is DeadCategory.EXPIRED else entry.first_dead_at_ms
    return DeadLetter(
        entry=entry,
        reason=reason,
        code=code,
        category=category,
        total_attempts=entry.attempts,
        first_attempt_at_ms=entry.first_attempt_at_ms,
        last_attempt_at_ms=entry.last_attempt_at_ms,
        moved_at_ms=now_ms,
        expires_at_ms=letter_expires_at_ms(
            settings.dead_letters,
            category=category,
            moved_at_ms=now_ms if first_ms is None else first_ms,
            message_expires_at_ms=entry.expires_at_ms,
        ),
    )


class Transition(NamedTuple):
    """What an event does in a state: the function, and every state it may lead to."""

    handler: Handler
    to: frozenset[State]


def _row(handler: Handler, *to: State) -> Transition:
    return Transition(handler, frozenset(to))


_P, _S, _T = State.PENDING, State.SENDING, State.SENT
_DELIVERED, _EXPIRED, _EVICTED, _DEAD = State.DELIVERED, State.EXPIRED, State.EVICTED, State.DEAD
_STALE: Final = (
    TimePassed,
    TransmitSucceeded,
    TransmitFailed,
    DeliveryAcked,
    ReceiptAcked,
    ReadAcked,
    Cancelled,
    RetransmitRequested,
    RecipientReached,
)
"""Events that may come late: where no other row names them, they change nothing."""

TABLE: Final[Mapping[tuple[State, type[Any]], Transition]] = {
    **{(state, event): _row(_ignore, state) for state in State for event in _STALE},
    (_P, Leased): _row(_lease, _S, _EXPIRED),
    (_T, Leased): _row(_lease, _S, _EXPIRED),
    (_P, TransmitSucceeded): _row(_accepted_by_next_hop, _T, _DELIVERED),
    (_S, TransmitSucceeded): _row(_accepted_by_next_hop, _T, _DELIVERED),
    (_S, TransmitFailed): _row(_failed, _S, _P, _DEAD, _EXPIRED),
    **{(state, DeliveryAcked): _row(_stored, state) for state in (_P, _S, _T)},
    **{(state, ReceiptAcked): _row(_received, _DELIVERED) for state in (_P, _S, _T)},
    (_DEAD, ReceiptAcked): _row(_delivered_after_death, _DELIVERED),
    **{(state, ReadAcked): _row(_read, _DELIVERED) for state in (_P, _S, _T)},
    (_DELIVERED, ReadAcked): _row(_read_delivered, _DELIVERED),
    (_DEAD, ReadAcked): _row(_delivered_after_death, _DELIVERED),
    (_P, TimePassed): _row(_pass_time_waiting, _P, _EXPIRED, _DEAD),
    (_S, TimePassed): _row(_pass_time_sending, _S, _P, _EXPIRED, _DEAD),
    (_T, TimePassed): _row(_pass_time_waiting, _T, _EXPIRED),
    (_P, CapacityExceeded): _row(_evicted, _EVICTED),
    **{(state, Cancelled): _row(_cancelled, _DEAD) for state in (_P, _S, _T)},
    (_DEAD, Recovered): _row(_recovered, _P),
    (_P, RetransmitRequested): _row(_send_now, _P),
    (_T, RetransmitRequested): _row(_send_now, _T),
    (_P, RecipientReached): _row(_send_now, _P),
}
"""Every legal pair of state and event. Hosts decide nothing that is not in here."""

"""The life of one outbox entry: each state, each event, and what follows (SPEC 1.4, 3.5, 3.8, 3.13, 4.3, 5.2).

Every transition of the machine is in this file. It does not know which entry is chosen next (policy/send_order),
where entries are kept or how they travel. An event that cannot happen in a state raises and changes nothing.
"""

from typing import Final

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
    Recovered,
    Reencrypt,
    ResetSession,
    RetransmitRequested,
    StoreDeadLetter,
    TimePassed,
    TransmitFailed,
    TransmitSucceeded,
)
from restante.model.error_codes import Code
from restante.model.errors import LocalProtocolError
from restante.model.ids import NodeId
from restante.model.journal import DAILY_RETRY, JournalKind
from restante.model.kinds import KIND_RULES
from restante.model.outbox_entry import DeadLetter, Lease, OutboxEntry
from restante.model.states import Confirmation, DeadCategory, DeadReason, DropReason, Route, State
from restante.policy.ack_batching import advance
from restante.policy.completion import ends_when_accepted, restore_at_ms
from restante.policy.dead_letters import category_of, recovered_expiry_ms
from restante.policy.dead_letters import expires_at_ms as letter_expires_at_ms
from restante.policy.failures import FAILURE_RULES, GiveUp, Remove, RetryAt, decide
from restante.policy.pruning import Pruning, pruning
from restante.policy.retry import Schedule
from restante.policy.send_order import has_exceeded_queue_time, is_abandoned
from restante.policy.settings import Settings

Step = tuple[OutboxEntry, tuple[Effect, ...]]
# By these names in what every message passes: on Python 3.11 a member takes ten times as long to read from its class.
_PENDING: Final = State.PENDING
_SENDING: Final = State.SENDING
_SENT: Final = State.SENT
_DELIVERED: Final = State.DELIVERED
_DEAD: Final = State.DEAD
_KEEP: Final = Pruning.KEEP
_RECEIVED: Final = Confirmation.RECEIVED
_FACT_SENT: Final = JournalKind.SENT
_FACT_DELIVERED: Final = JournalKind.DELIVERED
_UNCHANGED: Final[tuple[Effect, ...]] = ()
_WAITING: Final = frozenset({State.PENDING, State.SENT})
_IN_FLIGHT: Final = frozenset({State.PENDING, State.SENDING, State.SENT})
_MAY_COME_LATE: Final = (
    TimePassed,
    TransmitSucceeded,
    TransmitFailed,
    DeliveryAcked,
    ReceiptAcked,
    ReadAcked,
    Cancelled,
    RetransmitRequested,
)
"""Late answers, repeated acknowledgements and idle sweeps are normal and change nothing."""

_ATTEMPTED: Final = AppendJournalEvent(kind=JournalKind.ATTEMPTED)
_TELL_SENT: Final = EmitEvent(notice=OutboxEventType.SENT)
_TELL_DELIVERED: Final = EmitEvent(notice=OutboxEventType.DELIVERED)
_FORGET: Final = DeletePayload()


def step(entry: OutboxEntry, event: Event, *, now_ms: int, settings: Settings) -> Step:
    """The entry after `event`, and the effects the host carries out in the same transaction.

    Sorted by event, the frequent ones first; what no line names is either stale or cannot happen.
    """
    state = entry.state
    match event:
        case Leased() if state in _WAITING:
            if ended := _ended_by_time(entry, now_ms, settings):
                return ended
            if entry.next_attempt_at_ms <= now_ms:
                return _lease(entry, event, now_ms)
        case TransmitSucceeded() if state is _SENDING or state is _PENDING:
            # PENDING too: the answer may come after the lease was given up.
            return _accepted_by_next_hop(entry, now_ms)
        case ReceiptAcked() if state in _IN_FLIGHT:
            return _delivered(entry, now_ms)
        case DeliveryAcked() if state in _IN_FLIGHT:
            return _confirmed(entry, Confirmation.STORED, event.node)
        case ReadAcked() if state in _IN_FLIGHT:
            delivered, effects = _delivered(entry, now_ms)
            read, more = _confirmed(delivered, Confirmation.READ)
            return read, effects + more
        case ReadAcked() if state is _DELIVERED:
            return _confirmed(entry, Confirmation.READ)
        case ReceiptAcked() | ReadAcked() if state is _DEAD:
            # It arrived after all, by an earlier try: taken up again only to end as delivered, so the books stay true.
            alive = entry.but(state=_SENT)
            delivered, effects = step(alive, event, now_ms=now_ms, settings=settings)
            return delivered, (AppendJournalEvent(kind=JournalKind.RECOVERED, code="late_receipt"), *effects)
        case TransmitFailed() if entry.lease is not None and entry.lease.owner == event.owner:
            return _failed(entry, event, now_ms, settings)
        case TimePassed() if state in _WAITING:
            return _ended_by_time(entry, now_ms, settings) or (entry, _UNCHANGED)
        case TimePassed() if is_abandoned(entry, now_ms):
            return _ended_by_time(entry, now_ms, settings) or _take_back(entry, now_ms, settings)
        case CapacityExceeded() if state is _PENDING:
            return _evicted(entry)
        case Cancelled() if state in _IN_FLIGHT:
            return _bury(entry, DeadReason.CANCELLED, None, now_ms, settings)
        case Recovered() if state is _DEAD:
            return _recovered(entry, event, now_ms)
        case RetransmitRequested() if state is _SENT:
            return entry.but(next_attempt_at_ms=now_ms), _UNCHANGED
    if isinstance(event, _MAY_COME_LATE):
        return entry, _UNCHANGED
    raise LocalProtocolError(f"{type(event).__name__} while {state}")


def _schedule(entry: OutboxEntry, settings: Settings) -> Schedule:
    return settings.channel_retry if entry.route is Route.CHANNEL else settings.retry


def _ended_by_time(entry: OutboxEntry, now_ms: int, settings: Settings) -> Step | None:
    """The end of its life, with or without a notice, before anything else (SPEC 3.3, 3.9); then the wait of 2.2."""
    fate = pruning(settings.outbox, entry, now_ms)
    if fate is not _KEEP:
        return _expired(entry, now_ms, settings, notify=fate is Pruning.EXPIRE)
    if entry.state is _PENDING and has_exceeded_queue_time(
        priority=entry.priority, queued_at_ms=entry.queued_at_ms, was_sent=entry.was_sent, now_ms=now_ms
    ):
        return _bury(entry, DeadReason.QUEUE_TIME_EXCEEDED, None, now_ms, settings)
    return None


def _lease(entry: OutboxEntry, event: Leased, now_ms: int) -> Step:
    """One more try; storing again what was already stored once starts its tries anew (SPEC 10.4)."""
    leased = entry.but(
        state=_SENDING,
        attempts=1 if entry.state is _SENT else entry.attempts + 1,
        lease=Lease(owner=event.owner, until_ms=event.until_ms),
        first_attempt_at_ms=now_ms if entry.first_attempt_at_ms is None else entry.first_attempt_at_ms,
        last_attempt_at_ms=now_ms,
    )
    return leased, (_ATTEMPTED,)


def _take_back(entry: OutboxEntry, now_ms: int, settings: Settings) -> Step:
    """The owner died mid-try: that try counts, and the entry is due again at once (SPEC 3.5)."""
    if entry.attempts >= _schedule(entry, settings).max_attempts:
        return _bury(entry, DeadReason.ATTEMPTS_EXHAUSTED, Code.NETWORK_UNREACHABLE, now_ms, settings)
    free = entry.but(state=State.PENDING, lease=None, next_attempt_at_ms=now_ms)
    return free, (
        AppendJournalEvent(kind=JournalKind.RETRIED, code="lease_expired"),
        EmitEvent(notice=OutboxEventType.RETRIED, code="lease_expired"),
    )


def _accepted_by_next_hop(entry: OutboxEntry, now_ms: int) -> Step:
    latency_ms = now_ms - entry.created_at_ms
    sent = entry.but(
        state=_SENT,
        lease=None,
        was_sent=True,
        last_error=None,
        next_attempt_at_ms=restore_at_ms(sent_at_ms=now_ms, expires_at_ms=entry.expires_at_ms),
    )
    effects: tuple[Effect, ...] = (
        AppendJournalEvent(kind=_FACT_SENT, latency_ms=latency_ms),
        _TELL_SENT,
    )
    if not ends_when_accepted(entry.route, entry.kind):
        return sent, effects
    delivered, more = _delivered(sent, now_ms)
    return delivered, effects + more


def _failed(entry: OutboxEntry, event: TransmitFailed, now_ms: int, settings: Settings) -> Step:
    rule = FAILURE_RULES[event.failure]
    session: tuple[Effect, ...] = (ResetSession(),) if rule.resets_session else ()
    if ended := _ended_by_time(entry, now_ms, settings):
        gone, effects = ended
        return gone, session + effects
    decision = decide(
        event.failure,
        attempts=entry.attempts,
        now_ms=now_ms,
        dice=event.dice,
        schedule=_schedule(entry, settings),
        retry_after_ms=event.retry_after_ms,
        already_reencrypted=entry.reencrypted,
    )
    failed = entry.but(lease=None, last_error=rule.code)
    match decision:
        case Remove():
            gone, effects = _expired(failed, now_ms, settings, notify=True)
            return gone, session + effects
        case GiveUp():
            buried, effects = _bury(failed, decision.reason, decision.code, now_ms, settings)
            return buried, session + effects
        case RetryAt():
            waiting = failed.but(
                state=State.PENDING,
                attempts=entry.attempts if decision.counts else entry.attempts - 1,
                next_attempt_at_ms=decision.at_ms,
                # Only E008 uses up its one new sealing; E009 is cured as often as it comes (SPEC 4.4).
                reencrypted=entry.reencrypted or rule.retries_once,
            )
            again: tuple[Effect, ...] = (Reencrypt(code=rule.code),) if rule.reencrypts else ()
            return waiting, (
                *session,
                *again,
                AppendJournalEvent(kind=JournalKind.RETRIED, code=rule.code),
                EmitEvent(notice=OutboxEventType.RETRIED, code=rule.code),
            )


def _confirmed(entry: OutboxEntry, to: Confirmation, node: NodeId | None = None) -> Step:
    known = advance(entry.confirmation, to)
    if known is entry.confirmation:
        return entry, _UNCHANGED
    kind, notice = (
        (JournalKind.READ, OutboxEventType.READ)
        if to is Confirmation.READ
        else (JournalKind.DELIVERY_CONFIRMED, OutboxEventType.DELIVERY_CONFIRMED)
    )
    return entry.but(confirmation=known), (AppendJournalEvent(kind=kind, node=node), EmitEvent(notice=notice))


def _delivered(entry: OutboxEntry, now_ms: int) -> Step:
    done = entry.but(
        state=_DELIVERED,
        lease=None,
        confirmation=advance(entry.confirmation, _RECEIVED),
    )
    return done, (
        AppendJournalEvent(kind=_FACT_DELIVERED, latency_ms=now_ms - entry.created_at_ms),
        _TELL_DELIVERED,
        _FORGET,
    )


def _expired(entry: OutboxEntry, now_ms: int, settings: Settings, *, notify: bool) -> Step:
    """The payload goes; a payload-free tombstone stays for a day (SPEC 5.2)."""
    ended = entry.but(state=State.EXPIRED, lease=None, last_error=Code.TTL_EXPIRED)
    tombstone = ended.but(payload=b"", sealed_plaintext=b"")
    letter = _letter(tombstone, DeadReason.EXPIRED, Code.TTL_EXPIRED, now_ms, settings)
    effects: tuple[Effect, ...] = (
        AppendJournalEvent(kind=JournalKind.EXPIRED, code=Code.TTL_EXPIRED if notify else "pruned"),
        StoreDeadLetter(letter=letter),
        _FORGET,
    )
    return ended, (*effects, EmitEvent(notice=OutboxEventType.EXPIRED, code=Code.TTL_EXPIRED)) if notify else effects


def _evicted(entry: OutboxEntry) -> Step:
    return entry.but(state=State.EVICTED), (
        AppendJournalEvent(kind=JournalKind.EVICTED, code=DropReason.EVICTED_FOR_CAPACITY),
        EmitEvent(notice=OutboxEventType.EVICTED, code=DropReason.EVICTED_FOR_CAPACITY),
        _FORGET,
    )


def _bury(entry: OutboxEntry, reason: DeadReason, code: Code | None, now_ms: int, settings: Settings) -> Step:
    first_buried_at_ms = now_ms if entry.first_buried_at_ms is None else entry.first_buried_at_ms
    dead = entry.but(state=State.DEAD, lease=None, first_buried_at_ms=first_buried_at_ms)
    letter = _letter(dead, reason, code, now_ms, settings)
    why = code or reason
    return dead, (
        AppendJournalEvent(kind=JournalKind.DEAD_LETTERED, code=why),
        EmitEvent(notice=OutboxEventType.DEAD_LETTERED, code=why),
        StoreDeadLetter(letter=letter),
        _FORGET,
    )


def _letter(entry: OutboxEntry, reason: DeadReason, code: Code | None, now_ms: int, settings: Settings) -> DeadLetter:
    category = category_of(reason)
    # Daily retries must not prolong how long a letter is kept; a tombstone tells of an end that has come only now.
    first_ms = now_ms if category is DeadCategory.EXPIRED else entry.first_buried_at_ms
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
        ),
    )


def _recovered(entry: OutboxEntry, event: Recovered, now_ms: int) -> Step:
    """Back into the queue, due at once. Only a person's wish gives it a new life; a daily retry spends the old one."""
    new_end_ms = recovered_expiry_ms(
        ttl_s=entry.ttl_s,
        expires_at_ms=entry.expires_at_ms,
        now_ms=now_ms,
        ttl_type=KIND_RULES[entry.kind].ttl_type,
    )
    if new_end_ms is None:
        raise LocalProtocolError("the message has expired and cannot be recovered", code=Code.TTL_EXPIRED)
    again = entry.but(
        state=State.PENDING,
        attempts=0,
        queued_at_ms=now_ms,
        expires_at_ms=entry.expires_at_ms if event.by_itself else new_end_ms,
        next_attempt_at_ms=now_ms,
        first_buried_at_ms=entry.first_buried_at_ms if event.by_itself else None,
        was_sent=False,
        reencrypted=False,
    )
    # The fleet's tables tell by this word which retries leave a letter's deadlines as they were (SPEC 5.3).
    code = DAILY_RETRY if event.by_itself else None
    return again, (
        AppendJournalEvent(kind=JournalKind.RECOVERED, code=code),
        EmitEvent(notice=OutboxEventType.RECOVERED),
    )

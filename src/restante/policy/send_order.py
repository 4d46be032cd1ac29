"""Which outbox entry goes next, which must wait for another, and how long one may wait (SPEC 2.2, 3.3, 3.4, 3.5).

Works on entries as they are; claiming, sending and ending them is the outbox machine's business.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from restante.model.kinds import Priority
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route, State
from restante.policy.ttl import is_expired

HOUR_MS: Final = 3_600_000

QUEUE_TIME_MS: Final[Mapping[Priority, int]] = MappingProxyType(
    {Priority.HIGH: HOUR_MS, Priority.NORMAL: 24 * HOUR_MS, Priority.LOW: 72 * HOUR_MS}
)
"""The longest an entry may wait unsent (SPEC 2.2)."""

STRICT_ROUTES: Final = frozenset({Route.RELAY, Route.CHANNEL})
"""Routes whose lanes are first in, first out (SPEC 3.4); on the mesh the sequence numbers restore the order."""


def queue_deadline_ms(*, priority: Priority, queued_at_ms: int) -> int:
    """Return when an entry that was never sent becomes a dead letter. Recovery restarts the time."""
    return queued_at_ms + QUEUE_TIME_MS[priority]


def has_exceeded_queue_time(*, priority: Priority, queued_at_ms: int, was_sent: bool, now_ms: int) -> bool:
    """Return whether the entry has waited too long unsent. At the deadline itself it has, as in SPEC 2.6."""
    return not was_sent and now_ms >= queue_deadline_ms(priority=priority, queued_at_ms=queued_at_ms)


def choice_key(entry: OutboxEntry) -> tuple[int, int, int]:
    """Return the sort key of ready entries: higher priority first, then older, then first inserted."""
    return (-entry.priority, entry.created_at_ms, entry.insertion)


def is_ready(entry: OutboxEntry, now_ms: int) -> bool:
    """Return whether the entry could be sent now, apart from its lane.

    A sent entry is due again if no RECEIPT ack came in time and it must be stored once more (SPEC 10.4).
    """
    if is_expired(entry.expires_at_ms, now_ms):
        return False
    return entry.state in (State.PENDING, State.SENT) and entry.next_attempt_at_ms <= now_ms


def is_abandoned(entry: OutboxEntry, now_ms: int) -> bool:
    """Return whether the lease of an entry in `sending` has expired, so that any process may lease it again (SPEC
    3.5)."""
    return entry.state is State.SENDING and (entry.lease is None or now_ms >= entry.lease.until_ms)


def is_unsent(entry: OutboxEntry) -> bool:
    """Return whether no attempt has succeeded yet, so that its FIFO lane must wait for it."""
    return entry.state in (State.PENDING, State.SENDING) and not entry.was_sent


def may_overtake(later: OutboxEntry, earlier: OutboxEntry) -> bool:
    """Return whether `later` may be sent while `earlier` is in its state. An entry that was sent before overtakes no
    other.

    The order of a lane is the order of insertion, because clocks may step back and `created_at_ms` with them.
    """
    same_lane = later.route is earlier.route and later.lane == earlier.lane
    if not same_lane or later.route not in STRICT_ROUTES:
        return True
    return later.was_sent or earlier.insertion >= later.insertion or not is_unsent(earlier)


def sendable_now(entries: Iterable[OutboxEntry], now_ms: int) -> list[OutboxEntry]:
    """Return the entries that may be sent now, in the order of choice: all ready ones that no FIFO lane blocks.

    Expiry is tested first (SPEC 3.3): an expired entry is neither sent nor blocks its lane, unless it is being sent
    now. Until that attempt has an answer or its lease expires, the message may still arrive.
    """
    alive = [entry for entry in entries if entry.state is State.SENDING or not is_expired(entry.expires_at_ms, now_ms)]
    heads: dict[tuple[Route, str], OutboxEntry] = {}
    for entry in sorted(filter(is_unsent, alive), key=lambda unsent: unsent.insertion):
        heads.setdefault((entry.route, entry.lane), entry)
    free = (entry for entry in alive if may_overtake(entry, heads.get((entry.route, entry.lane), entry)))
    return sorted((entry for entry in free if is_ready(entry, now_ms)), key=choice_key)

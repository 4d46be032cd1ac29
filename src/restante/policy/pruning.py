"""Decide what a sweep does with an old outbox entry: keep, prune silently, or expire with an event (SPEC 3.9)."""

from enum import StrEnum
from typing import Final

from restante.model.kinds import Kind
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route, State
from restante.policy.capacity import OutboxLimits
from restante.policy.send_order import queue_deadline_ms
from restante.policy.ttl import is_expired

SHARED_BOARD_KINDS: Final = frozenset({Kind.DRAWING, Kind.DRAWING_DELETE, Kind.CHAT, Kind.CHAT_LEAVE, Kind.VOICE_LEAVE})
"""Traffic of an upstream server. An old row is useless, and an event about it would be noise."""


class Pruning(StrEnum):
    """What a sweep does with an entry."""

    KEEP = "keep"
    PRUNE_SILENTLY = "prune_silently"
    EXPIRE = "expire"


# Module-level names, because on Python 3.11 reading an enum member from its class is ten times slower.
_KEEP: Final = Pruning.KEEP
_RELAY: Final = Route.RELAY


def pruning(limits: OutboxLimits, entry: OutboxEntry, now_ms: int) -> Pruning:
    """Decide what to do with the entry. Silent pruning comes first: with the default TTL both are due at the same time.

    An entry's age is counted from when it last entered the queue, so that a recovered one is not pruned at once.
    """
    if _is_link_traffic(entry) and now_ms >= entry.queued_at_ms + limits.upstream_max_age_ms:
        return Pruning.PRUNE_SILENTLY
    if is_expired(entry.expires_at_ms, now_ms):
        return Pruning.EXPIRE
    return _KEEP


def attention_at_ms(limits: OutboxLimits, entry: OutboxEntry) -> int:
    """Return when time alone next changes the entry. No sweep needs to read it before."""
    if entry.state is State.SENDING:
        return 0 if entry.lease is None else entry.lease.until_ms
    at_ms = entry.expires_at_ms
    if _is_link_traffic(entry):
        at_ms = min(at_ms, entry.queued_at_ms + limits.upstream_max_age_ms)
    if entry.state is State.PENDING and not entry.was_sent:
        at_ms = min(at_ms, queue_deadline_ms(priority=entry.priority, queued_at_ms=entry.queued_at_ms))
    return at_ms


def _is_link_traffic(entry: OutboxEntry) -> bool:
    return entry.route is _RELAY and entry.kind in SHARED_BOARD_KINDS

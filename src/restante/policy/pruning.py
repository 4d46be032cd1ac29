"""What a sweep of the outbox does with an entry that has grown old (SPEC 3.9).

Decides between keeping it, deleting it silently and expiring it with an event. The sweep itself is a host's timer.
"""

from enum import StrEnum
from typing import Final

from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route
from restante.policy.capacity import OutboxLimits
from restante.policy.ttl import is_expired


class Pruning(StrEnum):
    KEEP = "keep"
    PRUNE_SILENTLY = "prune_silently"
    EXPIRE = "expire"


_KEEP: Final = Pruning.KEEP
_UPSTREAM: Final = Route.UPSTREAM


def pruning(limits: OutboxLimits, entry: OutboxEntry, now_ms: int) -> Pruning:
    """Return what to do with the entry. Silence comes first: with the default TTL both ends fall on one millisecond.

    The age of an upstream entry counts from when it last entered the queue, so that recovering an old one has an
    effect.
    """
    if entry.route is _UPSTREAM and now_ms >= entry.queued_at_ms + limits.upstream_max_age_ms:
        return Pruning.PRUNE_SILENTLY
    if is_expired(entry.expires_at_ms, now_ms):
        return Pruning.EXPIRE
    return _KEEP


def next_deadline_ms(limits: OutboxLimits, *, route: Route, queued_at_ms: int, expires_at_ms: int) -> int:
    """Return when time alone next ends the entry: no sweep need look at it before, unless its lease expires."""
    if route is _UPSTREAM:
        return min(expires_at_ms, queued_at_ms + limits.upstream_max_age_ms)
    return expires_at_ms

"""How much the outbox may hold (SPEC 3.6, 5.3).

Counts come in as numbers. Mail that does not fit is refused; only lanes of route `upstream` evict.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from restante.model.errors import OutboxFull
from restante.model.outbox_entry import OutboxEntry
from restante.model.setting_ranges import check_ranges, ranged
from restante.model.states import Route
from restante.policy.send_order import is_control_lane

LANE: Final = "lane"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxLimits:
    """The settings of the outbox. MB is 10^6 bytes."""

    max_entries: int = ranged(10_000, low=100, high=1_000_000, unit="entries", clause="3.6")
    max_payload_bytes: int = ranged(50_000_000, low=1_000_000, high=10_000_000_000, unit="bytes", clause="3.6")
    max_lane_share: float = ranged(0.8, low=0.01, high=1.0, unit="of the outbox", clause="3.6")
    control_reserve: int = ranged(500, low=10, high=100_000, unit="entries", clause="3.6")
    max_pending_per_upstream_lane: int = ranged(256, low=1, high=10_000, unit="entries", clause="3.6")
    upstream_max_age_ms: int = ranged(604_800_000, low=3_600_000, high=2_592_000_000, unit="ms", clause="3.9")
    sweep_interval_ms: int = ranged(300_000, low=1_000, high=3_600_000, unit="ms", clause="3.9")
    drain_on_startup: int = ranged(1, low=0, high=1, unit="(0 off, 1 on)", clause="3.10")
    drain_budget_ms: int = ranged(60_000, low=1_000, high=600_000, unit="ms", clause="3.10")
    lease_ms: int = ranged(60_000, low=1_000, high=600_000, unit="ms", clause="3.5")

    def __post_init__(self) -> None:
        check_ranges(self, "outbox")


class Held(NamedTuple):
    """Entries and bytes, of a lane or of several. Dead letters with a payload count, too (SPEC 5.3)."""

    entries: int
    size_bytes: int


def check_capacity(limits: OutboxLimits, *, held: Held, new: Held) -> None:
    """Raise `OutboxFull` unless the new entries fit beside everything the outbox holds."""
    _check("the outbox", None, held, new, Held(limits.max_entries, limits.max_payload_bytes))


def check_control_capacity(limits: OutboxLimits, *, lane: str, held: Held, held_in_lane: Held, new: Held) -> None:
    """Raise `OutboxFull` unless the new control messages fit into their own reserve."""
    reserve = Held(limits.control_reserve, limits.max_payload_bytes)
    _check("the reserve for control messages", None, held, new, reserve)
    _check(LANE, lane, held_in_lane, new, _share(limits, reserve))


def check_share(limits: OutboxLimits, *, what: str, name: str, held: Held, new: Held) -> None:
    """Raise `OutboxFull` unless one lane, or one relay, stays within its share of the outbox."""
    _check(what, name, held, new, _share(limits, Held(limits.max_entries, limits.max_payload_bytes)))


def max_entries_of_lane(limits: OutboxLimits, route: Route, lane: str) -> int:
    """Return how many entries one lane takes; of an upstream lane, how many pending ones."""
    if route is Route.UPSTREAM:
        return limits.max_pending_per_upstream_lane
    whole = limits.control_reserve if is_control_lane(route, lane) else limits.max_entries
    return int(whole * limits.max_lane_share)


def overflow(limits: OutboxLimits, *, route: Route, pending: int) -> int:
    """Return how many pending entries of a lane must be evicted, the new one counted. Only upstream lanes evict."""
    if route is not Route.UPSTREAM:
        return 0
    return max(0, pending - limits.max_pending_per_upstream_lane)


def check_upstream_recovery(limits: OutboxLimits, *, lane: str, pending: int) -> None:
    """Raise `OutboxFull` where a recovered dead letter would make its upstream lane evict.

    It is older than what waits there, so the lane would evict the recovered entry itself.
    """
    if overflow(limits, route=Route.UPSTREAM, pending=pending + 1):
        raise OutboxFull(
            f"lane {_shown(lane)} has {pending} pending messages, of at most {limits.max_pending_per_upstream_lane};"
            " the dead letter stays where it is",
            limit=limits.max_pending_per_upstream_lane,
            lane=lane,
        )


def eviction_key(entry: OutboxEntry) -> tuple[int, int]:
    """Sort the pending entries of an upstream lane: the first ones are evicted first."""
    return (entry.created_at_ms, entry.queue_number)


def _share(limits: OutboxLimits, whole: Held) -> Held:
    return Held(int(whole.entries * limits.max_lane_share), int(whole.size_bytes * limits.max_lane_share))


def _check(what: str, name: str | None, held: Held, new: Held, limit: Held) -> None:
    full = what if name is None else f"{what} {_shown(name)}"
    lane = name or "" if what == LANE else ""
    if held.entries + new.entries > limit.entries:
        more = f"{new.entries} more would pass its limit of" if new.entries > 1 else "its limit is"
        raise OutboxFull(
            f"{full} holds {held.entries} messages; {more} {limit.entries}", limit=limit.entries, lane=lane
        )
    if held.size_bytes + new.size_bytes > limit.size_bytes:
        raise OutboxFull(
            f"{full} holds {held.size_bytes} bytes; {new.size_bytes} more would pass its limit of {limit.size_bytes}",
            limit=limit.size_bytes,
            lane=lane,
        )


def _shown(lane: str) -> str:
    return repr(lane if len(lane) <= 80 else f"{lane[:79]}…")

"""How much the outbox may hold, and what gives way when a relay lane is full (SPEC 3.6).

Counts come in as numbers; reading them from a store and deleting rows happens elsewhere.
"""

from dataclasses import dataclass

from restante.model.errors import OutboxFull
from restante.model.outbox_entry import OutboxEntry
from restante.model.setting_ranges import check_ranges, ranged
from restante.model.states import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxLimits:
    """The settings of the outbox. MB is 10^6 bytes."""

    max_entries: int = ranged(10_000, low=100, high=1_000_000, unit="entries", clause="3.6")
    max_payload_bytes: int = ranged(50_000_000, low=1_000_000, high=10_000_000_000, unit="bytes", clause="3.6")
    max_pending_per_upstream_lane: int = ranged(256, low=1, high=10_000, unit="entries", clause="3.6")
    upstream_max_age_ms: int = ranged(604_800_000, low=3_600_000, high=2_592_000_000, unit="ms", clause="3.9")
    sweep_interval_ms: int = ranged(300_000, low=1_000, high=3_600_000, unit="ms", clause="3.9")
    drain_budget_ms: int = ranged(60_000, low=1_000, high=600_000, unit="ms", clause="3.10")
    lease_ms: int = ranged(60_000, low=1_000, high=600_000, unit="ms", clause="3.5")

    def __post_init__(self) -> None:
        check_ranges(self, "outbox")


def check_capacity(
    limits: OutboxLimits, *, held_entries: int, held_bytes: int, new_entries: int, new_bytes: int
) -> None:
    """Raise `OutboxFull` unless all new entries fit beside those in the outbox. Nothing is evicted for them."""
    if held_entries + new_entries > limits.max_entries or held_bytes + new_bytes > limits.max_payload_bytes:
        raise OutboxFull(
            f"the outbox holds {held_entries} entries and {held_bytes} bytes; {new_entries} more with {new_bytes}"
            f" bytes would pass its limits of {limits.max_entries} entries and {limits.max_payload_bytes} bytes"
        )


def overflow(limits: OutboxLimits, *, route: Route, pending: int) -> int:
    """Return how many pending entries of a lane must be evicted, the new one included. Only upstream lanes evict."""
    if route is not Route.RELAY:
        return 0
    return max(0, pending - limits.max_pending_per_upstream_lane)


def check_lane_capacity(limits: OutboxLimits, *, route: Route, pending: int) -> None:
    """Raise `OutboxFull` if a recovered dead letter would make its lane evict.

    It is older than the entries there, so the lane would evict the recovered message itself.
    """
    if overflow(limits, route=route, pending=pending + 1):
        raise OutboxFull(
            f"{pending} messages wait in this lane already, of at most {limits.max_pending_per_upstream_lane};"
            " the dead letter stays where it is"
        )


def eviction_key(entry: OutboxEntry) -> tuple[int, int]:
    """Return the sort key of a lane's pending entries: the smallest is evicted first."""
    return (entry.created_at_ms, entry.insertion)

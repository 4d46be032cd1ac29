"""The numbers of circuits that an operator or user may change, with their ranges (SPEC 11.2, 11.3, 11.5)."""

from dataclasses import dataclass
from typing import Final

from restante.model.setting_ranges import check_ranges, ranged

MIB: Final = 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitLimits:
    """`pool`, `spares` and the times are the client's, the rest a hop's."""

    pool: int = ranged(10, low=6, high=16, unit="circuits", clause="11.2")
    spares: int = ranged(2, low=1, high=3, unit="circuits", clause="11.2")
    messages_per_minute: int = ranged(1_000, low=1, high=100_000, unit="messages", clause="11.2")
    bytes_per_s: int = ranged(MIB, low=65_536, high=1_024 * MIB, unit="bytes", clause="11.2")
    idle_ms: int = ranged(60_000, low=1_000, high=3_600_000, unit="ms", clause="11.3")
    max_queued_bytes: int = ranged(64 * MIB, low=MIB, high=4_096 * MIB, unit="bytes", clause="11.5")
    max_circuits: int = ranged(16_384, low=1, high=1_000_000, unit="circuits", clause="11.5")
    max_circuits_per_client: int = ranged(64, low=16, high=4_096, unit="circuits", clause="11.5")

    def __post_init__(self) -> None:
        check_ranges(self, "circuits")


MESSAGES_PER_CIRCUIT: Final = 100
"""Messages a minute on one circuit: what an exit allows, too (SPEC 11.2)."""
ROTATE_MS: Final = 600_000
ROTATE_JITTER_MS: Final = 120_000
GONE_MS: Final = 720_000
"""A circuit is gone at this age in any case (SPEC 11.3)."""
HOP_IDLE_S: Final = 75.0
"""A hop ends a circuit that is silent for longer than its client would keep it."""
HOP_GONE_S: Final = 780.0


def may_create(limits: CircuitLimits, *, taken: int, of_source: int) -> bool:
    """Return whether a hop makes one more circuit for a source that holds `of_source` of the `taken` ones.

    As with connections (`policy.connection_limits.may_connect`), a source has no limit of its own until half of the
    circuits are taken; then it may hold a quarter.
    """
    if taken >= limits.max_circuits:
        return False
    return not is_crowded(limits, taken=taken) or 4 * of_source < limits.max_circuits


def is_crowded(limits: CircuitLimits, *, taken: int) -> bool:
    """Return whether half of the circuits are taken."""
    return 2 * taken >= limits.max_circuits


def is_left_behind(*, may_wait: bool, began_s: float, used_s: float, now_s: float) -> bool:
    """Return whether a hop ends a circuit. `may_wait` is a client's spare: it may be silent until it is old."""
    return now_s > began_s + HOP_GONE_S or (not may_wait and now_s > used_s + HOP_IDLE_S)


def is_spare(*, is_used: bool, is_extended: bool, is_crowded: bool) -> bool:
    """Return whether a hop takes a circuit for a client's spare. Idle time begins with the first use; on a crowded hop
    at once for a circuit that it does not pass on: nothing tells it from one that somebody made to take the place."""
    return not is_used and (is_extended or not is_crowded)

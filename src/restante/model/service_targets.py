"""Compare a fleet report with the targets of SPEC 1.7."""

from dataclasses import dataclass
from typing import Final

from restante.model.fleet_report import FleetReport

DELIVERY_RATE_TARGET: Final = 0.999
P50_TARGET_MS: Final = 1_000
P99_TARGET_MS: Final = 10_000
REPEATED_RELEASE_TARGET: Final = 0.001
DELIVERY_SPAN: Final = "accepted_to_delivered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One target; `is_met` is None while nothing was measured."""

    name: str
    found: str
    wanted: str
    is_met: bool | None


def targets_of(report: FleetReport) -> tuple[Target, ...]:
    """Return delivery rate, latencies and duplicates of a report beside their targets."""
    levels = [level for level in report.levels if level.is_total]
    accepted = sum(level.accepted for level in levels)
    ended = accepted - sum(level.in_flight for level in levels)
    delivered = sum(level.delivered for level in levels)
    repeated = sum(level.repeated_releases for level in levels)
    times = [one for one in report.conservation.latency if one.is_total and one.span == DELIVERY_SPAN]
    rate = delivered / ended if ended else None
    again = repeated / accepted if accepted else None
    p50, p99 = (times[0].p50_ms, times[0].p99_ms) if times else (None, None)
    return (
        Target(
            name="delivery rate",
            found="" if rate is None else f"{rate:.3%}",
            wanted=f"at least {DELIVERY_RATE_TARGET:.1%}",
            is_met=None if rate is None else rate >= DELIVERY_RATE_TARGET,
        ),
        _latency("P50", p50, P50_TARGET_MS),
        _latency("P99", p99, P99_TARGET_MS),
        Target(
            name="shown twice",
            found="" if again is None else f"{again:.3%}",
            wanted=f"less than {REPEATED_RELEASE_TARGET:.1%}",
            is_met=None if again is None else again < REPEATED_RELEASE_TARGET,
        ),
    )


def _latency(name: str, found_ms: float | None, target_ms: int) -> Target:
    return Target(
        name=f"{name} from acceptance to receipt",
        found="" if found_ms is None else f"{found_ms:,.0f} ms",
        wanted=f"at most {target_ms:,} ms",
        is_met=None if found_ms is None else found_ms <= target_ms,
    )

"""What calls for attention in a fleet, and what does not."""

import pytest

from restante.model.fleet_alerts import AlertKind, FleetMeasures, alerts
from support.spec.clauses import clause

pytestmark = pytest.mark.unit

NOW_MS = 1_767_614_400_000
DAY_MS = 86_400_000


def kinds(measures: FleetMeasures) -> list[tuple[AlertKind, str]]:
    return [(alert.kind, alert.subject) for alert in alerts(measures)]


def test_a_fleet_that_meets_its_targets_has_no_alerts() -> None:
    sound = FleetMeasures(
        now_ms=NOW_MS,
        latest_by_writer=(("aa", NOW_MS - DAY_MS),),
        last_batch_at_ms=NOW_MS - 15 * 60_000,
        accepted=10_000,
        ended=10_000,
        delivered=9_990,
        repeated_releases=9,
        p50_ms=1_000.0,
        p99_ms=10_000.0,
    )
    assert alerts(sound) == []
    assert alerts(FleetMeasures(now_ms=NOW_MS)) == []


@clause("1.7")
def test_each_missed_target_is_named() -> None:
    missed = FleetMeasures(
        now_ms=NOW_MS,
        accepted=1_000,
        ended=1_000,
        delivered=998,
        repeated_releases=1,
        p50_ms=1_001.0,
        p99_ms=10_001.0,
    )
    assert kinds(missed) == [
        (AlertKind.ERROR_BUDGET, target) for target in ("delivery rate", "P50", "P99", "repeated releases")
    ]


@clause("13.4", "13.5")
def test_everything_missing_silent_withheld_skewed_or_late_is_named() -> None:
    troubled = FleetMeasures(
        now_ms=NOW_MS,
        unbalanced_days=(("2026-01-05", 2),),
        missing_events=(("aa", 3),),
        latest_by_writer=(("aa", NOW_MS), ("bb", NOW_MS - DAY_MS - 1)),
        withholding=(("cc", 1),),
        skewed=(("dd", -5),),
        last_batch_at_ms=NOW_MS - 15 * 60_000 - 1,
    )
    assert kinds(troubled) == [
        (AlertKind.UNBALANCED, "2026-01-05"),
        (AlertKind.MISSING_EVENTS, "aa"),
        (AlertKind.WITHHOLDING, "cc"),
        (AlertKind.CLOCK_SKEW, "dd"),
        (AlertKind.SILENT_WRITER, "bb"),
        (AlertKind.LAG, "stream"),
    ]

"""Gauges of a fleet, as a file that Prometheus collects."""

from pathlib import Path

import pytest

from restante.model.errors import StoreUnusable
from restante.policy.alerts import FleetMeasures, alerts
from restante.views.fleet_metrics import write_metrics

MEASURES = FleetMeasures(
    now_ms=10_000, missing_events=(("aa" * 16, 3),), last_batch_at_ms=4_000, accepted=9, ended=9, delivered=9
)


def test_gauges_count_alerts_and_name_no_writer(tmp_path: Path) -> None:
    write_metrics(MEASURES, alerts(MEASURES), tmp_path / "fleet.prom")
    text = (tmp_path / "fleet.prom").read_text("utf-8")
    assert 'restante_fleet_alerts{kind="missing_events"} 1.0' in text
    assert 'restante_fleet_alerts{kind="lag"} 0.0' in text
    assert "restante_fleet_missing_events 3.0" in text
    assert "restante_fleet_lag_seconds 6.0" in text
    assert "aaaa" not in text


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="cannot be written"):
        write_metrics(MEASURES, [], tmp_path / "nowhere" / "fleet.prom")

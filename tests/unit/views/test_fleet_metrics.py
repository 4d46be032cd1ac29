"""Gauges of a fleet, as Prometheus reads them."""

from restante.model.fleet_alerts import FleetMeasures, alerts
from restante.views.fleet_metrics import metrics_text

MEASURES = FleetMeasures(
    now_ms=10_000, missing_events=(("aa" * 16, 3),), last_batch_at_ms=4_000, accepted=9, ended=9, delivered=9
)


def test_gauges_count_alerts_and_name_no_writer() -> None:
    text = metrics_text(MEASURES, alerts(MEASURES))
    assert 'restante_fleet_alerts{kind="missing_events"} 1.0' in text
    assert 'restante_fleet_alerts{kind="lag"} 0.0' in text
    assert "restante_fleet_missing_events 3.0" in text
    assert "restante_fleet_lag_seconds 6.0" in text
    assert "aaaa" not in text

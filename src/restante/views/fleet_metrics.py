"""Gauges of a fleet in Prometheus' text format."""

from collections import Counter
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from restante.model.fleet_alerts import Alert, AlertKind, FleetMeasures


def metrics_text(measures: FleetMeasures, found: Sequence[Alert]) -> str:
    """Return all gauges. No id of a writer or node is in them."""
    registry = CollectorRegistry()
    by_kind = Counter(alert.kind for alert in found)
    alerts = Gauge("restante_fleet_alerts", "Alerts by kind", ["kind"], registry=registry)
    for kind in AlertKind:
        alerts.labels(kind=kind.value).set(by_kind[kind])
    values = {
        "accepted_messages": ("Messages accepted", measures.accepted),
        "ended_messages": ("Messages that ended, delivered or not", measures.ended),
        "delivered_messages": ("Messages delivered", measures.delivered),
        "repeated_releases": ("Releases to an application beyond the first", measures.repeated_releases),
        "delivery_p50_ms": ("Median from acceptance to receipt", measures.p50_ms or 0),
        "delivery_p99_ms": ("99th percentile from acceptance to receipt", measures.p99_ms or 0),
        "unaccounted_messages": ("Messages unaccounted for", sum(count for _, count in measures.unbalanced_days)),
        "missing_events": ("Journal events that never arrived", sum(count for _, count in measures.missing_events)),
        "writers": ("Journal writers", len(measures.latest_by_writer)),
        "lag_seconds": ("Time since the stream's last batch", _lag_s(measures)),
    }
    for name, (about, value) in values.items():
        Gauge(f"restante_fleet_{name}", about, registry=registry).set(value)
    return generate_latest(registry).decode()


def _lag_s(measures: FleetMeasures) -> float:
    return 0.0 if measures.last_batch_at_ms is None else (measures.now_ms - measures.last_batch_at_ms) / 1_000

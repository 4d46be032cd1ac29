"""The Grafana dashboard in contrib/ asks only for metrics and labels that nodes and `fleet alerts` export."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from restante.model.fleet_alerts import FleetMeasures
from restante.node.metrics import RelayMetrics
from restante.node.stats import RelayStats
from restante.runtime.journal.shipper import ShippingStats
from restante.views.fleet_metrics import metrics_text

DASHBOARD = json.loads((Path(__file__).parents[3] / "contrib/grafana/restante.json").read_text("utf-8"))
_METRIC = re.compile(r"\brestante_[a-z0-9_]+")
_LABELS = re.compile(r"by \((\w+)\)|\{\{(\w+)\}\}")
FROM_PROMETHEUS = {"job", "instance"}


def exported(tmp_path: Path) -> dict[str, set[str]]:
    """The labels of each sample that a node and a lake export."""
    database = tmp_path / "node.db"
    database.write_bytes(bytes(10))
    numbers: dict[str, Any] = {field.name: 1 for field in fields(RelayStats)}
    stats = RelayStats(**numbers | {"refusals_total": {}, "connections_closed_total": {}})
    shipping = ShippingStats(**{field.name: 1 for field in fields(ShippingStats)})
    texts = (
        RelayMetrics(lambda: stats, database=database, shipping=lambda: shipping).text().decode(),
        metrics_text(FleetMeasures(now_ms=0), []),
    )
    samples = [sample for text in texts for family in text_string_to_metric_families(text) for sample in family.samples]
    return {sample.name: set(sample.labels) for sample in samples}


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def test_every_panel_asks_for_metrics_that_exist_with_labels_that_they_have(tmp_path: Path) -> None:
    known = exported(tmp_path)
    for panel in panels():
        for target in panel["targets"]:
            names = _METRIC.findall(target["expr"])
            assert names, panel["title"]
            assert set(names) <= known.keys(), panel["title"]
            labels = {one or other for one, other in _LABELS.findall(target["expr"] + target["legendFormat"])}
            assert labels <= FROM_PROMETHEUS.union(*(known[name] for name in names)), panel["title"]


def test_every_gauge_of_the_fleet_has_a_panel(tmp_path: Path) -> None:
    shown = {name for panel in panels() for target in panel["targets"] for name in _METRIC.findall(target["expr"])}
    assert {name for name in exported(tmp_path) if name.startswith("restante_fleet_")} <= shown
    queries = [str(variable.get("query")) for variable in DASHBOARD["templating"]["list"]]
    assert {name for query in queries for name in _METRIC.findall(query)} <= exported(tmp_path).keys()


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not own & cells, panel["title"]
        assert max(x for x, _ in own) < 24
        cells |= own

"""What `/metrics` shows: every number of a relay's stats, and no labels but codes and reasons."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from restante.model.error_codes import Code
from restante.node.metrics import LABELS, MEANINGS, RelayMetrics
from restante.node.stats import CLOSED_BY_RELAY, RelayEvent, RelayStats
from support.spec.clauses import clause

NUMBERS: dict[str, Any] = {field.name: number for number, field in enumerate(fields(RelayStats), 1)}
STATS = RelayStats(
    **NUMBERS | {"refusals_total": {Code.RATE_LIMITED: 5}, "connections_closed_total": {RelayEvent.IDLE_TIMEOUT: 3}}
)


def samples(tmp_path: Path) -> dict[str, float]:
    database = tmp_path / "node.db"
    database.write_bytes(bytes(1_000))
    text = RelayMetrics(lambda: STATS, database=database).text().decode()
    return {
        "".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@clause("6.9")
def test_every_number_is_shown_under_its_name(tmp_path: Path) -> None:
    assert list(MEANINGS) == [field.name for field in fields(RelayStats)]
    shown = samples(tmp_path)
    for field in fields(RelayStats):
        if field.name in LABELS:
            continue
        name = "open_connections" if field.name == "connections" else field.name
        assert shown[f"restante_relay_{name}"] == getattr(STATS, field.name)
    assert shown["restante_store_file_bytes"] == 1_000
    assert shown["restante_store_free_bytes"] > 0
    assert shown["process_resident_memory_bytes"] > 0


@clause("6.9")
def test_the_only_labels_are_codes_reasons_and_the_version(tmp_path: Path) -> None:
    database = tmp_path / "node.db"
    text = RelayMetrics(lambda: STATS, database=database).text().decode()
    labels = {
        (family.name, name, value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        for name, value in sample.labels.items()
    }
    assert {(family, name) for family, name, _ in labels} == {
        ("restante_relay_refusals", "code"),
        ("restante_relay_connections_closed", "reason"),
        ("restante_info", "version"),
    }
    assert {value for _, name, value in labels if name == "code"} == set(Code)
    assert {value for _, name, value in labels if name == "reason"} == set(CLOSED_BY_RELAY)
    assert samples(tmp_path)["restante_relay_refusals_totalE007"] == 5
    assert samples(tmp_path)["restante_relay_connections_closed_totalidle_timeout"] == 3

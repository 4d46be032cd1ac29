"""A relay's figures in Prometheus's text format. The only label is the code of a refusal, a fixed list."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from restante import __version__
from restante.model.error_codes import Code
from restante.node.stats import RelayStats
from restante.runtime.journal.shipper import ShippingFigures

PREFIX: Final = "restante_relay_"
NAMES: Final = {"connections": "open_connections"}
"""Where a gauge would have the name of a counter."""
MEANINGS: Final = {
    "connections": "Connections that are open",
    "receive_sessions": "Connections on which somebody receives",
    "waiting_puts": "Puts that wait for the disk",
    "waiting_bytes": "Bytes of puts that wait for the disk",
    "store_usable": "Whether the last put could be kept: 1 or 0",
    "connections_total": "Connections that were taken",
    "turned_away_total": "Connections that were turned away because too many were open",
    "handshakes_failed_total": "Connections that were closed before they had introduced themselves",
    "closed_idle_total": "Connections that were closed because they were silent for too long",
    "closed_slow_total": "Connections that were closed because they did not read what was sent to them",
    "broke_format_total": "Connections that were closed because what they sent could not be read",
    "puts_stored_total": "Puts that were kept and acknowledged",
    "bytes_stored_total": "Bytes of puts that were kept and acknowledged",
    "refusals_total": "Requests that were refused, by code",
    "blobs_served_total": "Blobs that were sent to their recipients",
    "bytes_served_total": "Bytes of blobs that were sent to their recipients",
    "blobs_deleted_total": "Blobs that their recipients had deleted",
    "blobs_reaped_total": "Blobs that had lived out their time",
    "commits_total": "Commits of the store",
    "commit_seconds_total": "Time that commits of the store took",
}


class RelayMetrics:
    """Everything `/metrics` shows, read when it is asked for."""

    def __init__(
        self,
        figures: Callable[[], RelayStats],
        *,
        database: Path,
        shipping: Callable[[], ShippingFigures] | None = None,
    ) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Figures(figures))
        if shipping is not None:
            self._registry.register(_Shipping(shipping))
        self._registry.register(_Disk(database))
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _Figures(Collector):
    def __init__(self, figures: Callable[[], RelayStats]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        now = self._figures()
        for field in fields(now):
            yield _metric(field.name, getattr(now, field.name))
        version = GaugeMetricFamily("restante_info", "The version that runs", labels=["version"])
        version.add_metric([__version__], 1)
        yield version


class _Shipping(Collector):
    def __init__(self, figures: Callable[[], ShippingFigures]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        now = self._figures()
        yield GaugeMetricFamily(
            "restante_journal_ship_failing", "Whether the journal could not be shipped: 1 or 0", value=now.is_failing
        )
        yield GaugeMetricFamily(
            "restante_journal_waiting_facts", "Facts that had not left when it was looked", value=now.waiting
        )
        yield CounterMetricFamily("restante_journal_shipped_facts", "Facts that left", value=now.facts_total)
        yield CounterMetricFamily("restante_journal_segments", "Segments they left in", value=now.segments_total)
        yield CounterMetricFamily("restante_journal_ship_failures", "Tries that failed", value=now.failures_total)
        if now.last_at_ms is not None:
            yield GaugeMetricFamily(
                "restante_journal_shipped_timestamp_seconds", "When facts last left", value=now.last_at_ms / 1_000
            )


class _Disk(Collector):
    def __init__(self, database: Path) -> None:
        self._database = database

    def collect(self) -> Iterator[Metric]:
        wal = self._database.with_name(f"{self._database.name}-wal")
        yield GaugeMetricFamily(
            "restante_store_file_bytes", "Size of the store's files", value=_size(self._database) + _size(wal)
        )
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(self._database.parent).free
            yield GaugeMetricFamily("restante_store_free_bytes", "Bytes free on the store's disk", value=free)


def _size(path: Path) -> int:
    """0 for a file that is not there: health tells of that, metrics go on."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _metric(field: str, value: Any) -> Metric:
    meaning = MEANINGS[field]
    name = NAMES.get(field, field)
    if name == "refusals_total":
        by_code = CounterMetricFamily(PREFIX + name, meaning, labels=["code"])
        for code in Code:
            by_code.add_metric([code.value], value.get(code, 0))
        return by_code
    family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    return family(PREFIX + name, meaning, value=float(value))

"""A relay's stats in Prometheus's text format. The only labels are codes and close reasons, fixed lists."""

import contextlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from restante import __version__
from restante.model.error_codes import Code
from restante.node.mesh.agent import MeshStats
from restante.node.stats import CLOSED_BY_RELAY, RelayStats
from restante.runtime.journal.shipper import ShippingStats

PREFIX: Final = "restante_relay_"
NAMES: Final = {"connections": "open_connections"}
"""Where a gauge would have the name of a counter."""
MEANINGS: Final = {
    "connections": "Open connections",
    "subscriptions": "Connections that are subscribed to a mailbox",
    "pending_puts": "Puts that wait for their commit",
    "pending_put_bytes": "Bytes of puts that wait for their commit",
    "partial_frame_bytes": "Bytes of frames that have not arrived whole",
    "store_usable": "Whether the last commit succeeded: 1 or 0",
    "connections_total": "Connections accepted",
    "connections_rejected_total": "Connections rejected because a limit was reached",
    "handshake_failures_total": "Connections closed before the greeting was complete",
    "connections_closed_total": "Connections closed by the relay, by reason",
    "protocol_errors_total": "Connections closed because the client broke the protocol",
    "puts_stored_total": "Puts stored and acknowledged",
    "bytes_stored_total": "Bytes of puts stored and acknowledged",
    "refusals_total": "Requests refused, by code",
    "blobs_served_total": "Blobs sent to subscribers",
    "bytes_served_total": "Bytes of blobs sent to subscribers",
    "blobs_deleted_total": "Blobs deleted by their recipients",
    "blobs_reaped_total": "Expired blobs deleted",
    "blobs_damaged_total": "Blobs found damaged on disk, which are not served",
    "commits_total": "Commits of the store",
    "commit_seconds_total": "Time spent in commits of the store",
}
MESH_PREFIX: Final = "restante_mesh_"
MESH_MEANINGS: Final = {
    "directory_nodes": "Nodes in the directory whose descriptors are valid",
    "table_nodes": "Nodes in the routing table",
    "neighbours": "Nodes that this node watches, because they hold copies of the same keys",
    "reached_nodes": "Nodes that answered last time",
    "unchecked_nodes": "Nodes that were named and wait to be dialled before they count",
    "keys": "Inbox keys with mail or deleted mail",
    "copies": "Blobs stored for the mesh",
    "records": "Prekey records stored",
    "open_buckets": "Time buckets with mail",
    "subscriptions": "Subscribed inbox keys",
    "is_serving": "Whether the node has synced with its neighbours since its start: 1 or 0",
    "clock_offset_ms": "Network time minus own clock",
    "is_time_agreed": "Whether enough families answered to know network time: 1 or 0",
    "dials_total": "Nodes dialled before they count in the directory",
    "dials_failed_total": "Of those, nodes that did not answer with their key",
    "rounds_total": "Anti-entropy rounds",
    "repairs_total": "Neighbours found dead or leaving",
    "blobs_repaired_total": "Blobs fetched from neighbours",
    "blobs_damaged_total": "Blobs found damaged on disk, which are not served",
    "puts_stored_total": "Puts stored and acknowledged by a receipt",
    "blobs_served_total": "Blobs sent to owners and neighbours",
    "blobs_deleted_total": "Blobs deleted by their owners",
    "blobs_collected_total": "Expired blobs deleted",
    "wrong_bucket_total": "Puts into another time bucket than the node's",
    "not_responsible_total": "Puts of keys that closer nodes store",
}
LABELS: Final[Mapping[str, tuple[str, Iterable[StrEnum]]]] = {
    "refusals_total": ("code", Code),
    "connections_closed_total": ("reason", CLOSED_BY_RELAY),
}
"""The counters with a label, and its values: fixed lists."""


class RelayMetrics:
    """Everything `/metrics` shows, read at each request."""

    def __init__(
        self,
        stats: Callable[[], RelayStats],
        *,
        database: Path,
        shipping: Callable[[], ShippingStats] | None = None,
        mesh: Callable[[], MeshStats] | None = None,
    ) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Stats(stats))
        if shipping is not None:
            self._registry.register(_Shipping(shipping))
        if mesh is not None:
            self._registry.register(_Mesh(mesh))
        self._registry.register(_Disk(database))
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _Stats(Collector):
    def __init__(self, stats: Callable[[], RelayStats]) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        now = self._stats()
        for field in fields(now):
            yield _metric(field.name, getattr(now, field.name))
        version = GaugeMetricFamily("restante_info", "The version that runs", labels=["version"])
        version.add_metric([__version__], 1)
        yield version


class _Mesh(Collector):
    def __init__(self, stats: Callable[[], MeshStats]) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        now = self._stats()
        for field in fields(now):
            family = CounterMetricFamily if field.name.endswith("_total") else GaugeMetricFamily
            value = float(getattr(now, field.name))
            yield family(MESH_PREFIX + field.name, MESH_MEANINGS[field.name], value=value)


class _Shipping(Collector):
    def __init__(self, stats: Callable[[], ShippingStats]) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        now = self._stats()
        yield GaugeMetricFamily(
            "restante_journal_ship_failing", "Whether the last attempt to ship failed: 1 or 0", value=now.is_failing
        )
        yield GaugeMetricFamily(
            "restante_journal_unshipped_events", "Journal events not shipped yet", value=now.waiting
        )
        yield CounterMetricFamily("restante_journal_shipped_events", "Journal events shipped", value=now.events_total)
        yield CounterMetricFamily("restante_journal_segments", "Segments shipped", value=now.segments_total)
        yield CounterMetricFamily("restante_journal_ship_failures", "Failed attempts to ship", value=now.failures_total)
        if now.last_at_ms is not None:
            yield GaugeMetricFamily(
                "restante_journal_shipped_timestamp_seconds",
                "When events were last shipped",
                value=now.last_at_ms / 1_000,
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
    """Return 0 for a missing file: health reports that."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _metric(field: str, value: Any) -> Metric:
    meaning = MEANINGS[field]
    name = NAMES.get(field, field)
    if name in LABELS:
        label, values = LABELS[name]
        labelled = CounterMetricFamily(PREFIX + name, meaning, labels=[label])
        for each in values:
            labelled.add_metric([each.value], value.get(each, 0))
        return labelled
    family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    return family(PREFIX + name, meaning, value=float(value))

"""What alerts are decided by (model/fleet_alerts), read from the published tables without Spark."""

from typing import Any

from restante.fleet.lake.layout import Lake
from restante.fleet.lake.query import open_all, query
from restante.model.fleet_alerts import FleetMeasures


def read_measures(lake: Lake, *, now_ms: int) -> FleetMeasures:
    """Read the measures of a lake whose derived tables are published."""
    levels = query(
        lake,
        "select sum(accepted) as accepted, sum(accepted) - sum(in_flight) as ended, sum(delivered) as delivered,"
        " sum(repeated_releases) as repeated from service_levels where is_total",
    ).to_pylist()[0]
    times = query(
        lake, "select p50_ms, p99_ms from latency where is_total and span = 'accepted_to_delivered'"
    ).to_pylist()
    has_stream = "stream_batches" in open_all(lake)
    last = query(lake, "select max(at_ms) as at_ms from stream_batches").to_pylist()[0]["at_ms"] if has_stream else None
    return FleetMeasures(
        now_ms=now_ms,
        unbalanced_days=_pairs(
            lake, "select cast(day as string), unaccounted from conservation where unaccounted > 0 or not is_balanced"
        ),
        missing_events=_pairs(
            lake,
            "select writer, cast(sum(missing_to - missing_from + 1) as bigint) from missing_events group by 1",
        ),
        latest_by_writer=_pairs(lake, "select writer, max(last_event_at_ms) from writer_hours group by writer"),
        withholding=_pairs(lake, "select node, count(*) from withholding group by node"),
        skewed=_pairs(lake, "select writer, offset_ms from clock_skew"),
        last_batch_at_ms=last,
        accepted=levels["accepted"] or 0,
        ended=levels["ended"] or 0,
        delivered=levels["delivered"] or 0,
        repeated_releases=levels["repeated"] or 0,
        p50_ms=times[0]["p50_ms"] if times else None,
        p99_ms=times[0]["p99_ms"] if times else None,
    )


def _pairs(lake: Lake, sql: str) -> tuple[tuple[str, int], ...]:
    rows = (tuple(row.values()) for row in query(lake, sql).to_pylist())
    return tuple(sorted((_text(subject), int(count)) for subject, count in rows))


def _text(subject: Any) -> str:
    return subject.hex() if isinstance(subject, bytes) else str(subject)

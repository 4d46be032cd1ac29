"""Count events by writer and hour, in parts: transforms/writer_activity adds up the rows of several parts."""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.fleet.kernels.arrivals_schema import halves, ints
from restante.model.journal import JournalKind

HOUR_MS: Final = 3_600_000
COLUMNS: Final = ("event_id", "at_ms", "kind", "writer", "size_bytes", "node")
"""What is looked at of an event."""
HOURS: Final = pa.schema(
    [
        ("writer", pa.binary()),
        ("hour", pa.int64()),
        ("events", pa.int64()),
        ("highest", pa.int64()),
        ("lowest", pa.int64()),
        ("last_event_at_ms", pa.int64()),
        ("stored_bytes", pa.int64()),
        ("node", pa.binary()),
        ("started_event", pa.binary()),
    ]
)
_SUMMARY: Final = {
    ("events", "sum"): "events",
    ("number", "max"): "highest",
    ("number", "min"): "lowest",
    ("last_event_at_ms", "max"): "last_event_at_ms",
    ("stored_bytes", "sum"): "stored_bytes",
}


def hours_of(events: Any) -> Any:
    """One row for each writer and hour of these events, and one for each start of a node among them."""
    number = halves(events["event_id"]).byteswap()[:, 1].view(np.int64)
    is_stored = pc.equal(events["kind"], JournalKind.STORED.value)
    rows = pa.table(
        {
            "writer": events["writer"],
            "hour": ints(events["at_ms"]) // HOUR_MS,
            "events": (number != 0).astype(np.int64),
            "number": number,
            "last_event_at_ms": events["at_ms"],
            "stored_bytes": pc.if_else(is_stored, events["size_bytes"], pa.scalar(None, pa.int64())),
        }
    )
    counts = rows.group_by(["writer", "hour"]).aggregate(list(_SUMMARY))
    counted = counts.rename_columns({"_".join(asked): name for asked, name in _SUMMARY.items()})
    is_start = pc.and_(pc.equal(events["kind"], JournalKind.NODE_STARTED.value), pc.is_valid(events["node"]))
    starts = pa.table(
        {
            "writer": events["writer"],
            "hour": rows["hour"],
            "node": events["node"],
            "started_event": events["event_id"],
        }
    ).filter(is_start)
    return pa.concat_tables([counted, starts, HOURS.empty_table()], promote_options="default").select(HOURS.names)

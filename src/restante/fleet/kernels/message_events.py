"""Events of messages on their way to kernels/message_lifecycles, which needs all events of a message in one task.

Where a Python task finds them, they go through Spark's shuffle as Arrow data, many events a row: Java then has no work
with single ones.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from restante.fleet.kernels.arrivals_schema import ZERO_MARK, Flags, halves
from restante.fleet.kernels.message_lifecycles import ARRIVED_AGAIN, KINDS, MESSAGE_EVENTS, NOTHING
from restante.model.journal import STATE_AFTER, JournalKind
from restante.model.states import Verdict

COLUMNS: Final = tuple(MESSAGE_EVENTS.names)
"""What is looked at of an event of the journal."""
PARTS: Final = "place int, rows binary"
"""Events for the task of that number."""
ROWS_AT_ONCE: Final = 500_000

_KINDS: Final = pa.array([kind.value for kind in KINDS], pa.string())
_ARRIVED, _CONFIRMED = (KINDS.index(kind) for kind in (JournalKind.ARRIVED, JournalKind.DELIVERY_CONFIRMED))
# One more place, which is that of kinds that are none of ours.
_CHANGES_STATE: Final[Flags] = np.array([*(kind in STATE_AFTER for kind in KINDS), False])
_IS_SEALED: Final[Flags] = _CHANGES_STATE | np.array([*(kind is JournalKind.REENCRYPTED for kind in KINDS), False])


def in_parts(batches: Iterable[Any], parts: int) -> Iterator[Any]:
    """Events as rows of PARTS, all of one message with the same `place` below `parts`."""
    for events in _together(batches):
        words = halves(pc.fill_null(events["message_id"], ZERO_MARK))
        place = (words[:, 0] ^ words[:, 1]) % np.uint64(parts)
        order = np.argsort(place, kind="stable")
        in_order = events.combine_chunks().take(pa.array(order))
        bounds = np.searchsorted(place[order], np.arange(parts + 1, dtype=np.uint64))
        for part in np.flatnonzero(np.diff(bounds)).tolist():
            raw = _as_bytes(in_order.slice(bounds[part], bounds[part + 1] - bounds[part]))
            yield pa.RecordBatch.from_pydict({"place": pa.array([part], pa.int32()), "rows": pa.array([raw])})


def of_parts(batches: Iterable[Any]) -> Any:
    """The events of all these rows of PARTS."""
    parts = [ipc.open_stream(raw.as_buffer()).read_all() for batch in batches for raw in batch.column("rows")]
    return pa.concat_tables(parts) if parts else MESSAGE_EVENTS.empty_table()


def message_events(rows: Any) -> Any:
    """Events of messages as MESSAGE_EVENTS. What only a sender's event can say is left out of the others."""
    rows = rows.select(COLUMNS).combine_chunks()
    kind = np.asarray(pc.fill_null(pc.index_in(rows["kind"], value_set=_KINDS), len(KINDS)))
    came_again = (kind == _ARRIVED) & np.asarray(pc.fill_null(pc.equal(rows["code"], Verdict.DUPLICATE.value), False))
    number = np.where(came_again, ARRIVED_AGAIN, np.where(kind == len(KINDS), NOTHING, kind))
    told = {
        "code": _CHANGES_STATE,
        "message_kind": _CHANGES_STATE,
        "priority": _CHANGES_STATE,
        "payload_hash": _IS_SEALED,
        "size_bytes": _IS_SEALED,
        "ttl_s": _IS_SEALED,
        "node": np.arange(len(KINDS) + 1) == _CONFIRMED,
    }
    columns = {name: rows[name] for name in COLUMNS} | {
        "message_id": pc.fill_null(rows["message_id"], ZERO_MARK),
        "kind": pa.array(number.astype(np.int8)),
        **{name: _where(tells[kind], rows[name]) for name, tells in told.items()},
    }
    return pa.table(columns).cast(MESSAGE_EVENTS)


def _where(flags: Flags, column: Any) -> Any:
    return pc.if_else(pa.array(flags), column, pa.scalar(None, column.type))


def _together(batches: Iterable[Any]) -> Iterator[Any]:
    """Tables of about ROWS_AT_ONCE."""
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= ROWS_AT_ONCE:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if sum(map(len, waiting)):
        yield pa.Table.from_batches(waiting)


def _as_bytes(rows: Any) -> Any:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return sink.getvalue().to_pybytes()

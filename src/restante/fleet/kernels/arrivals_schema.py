"""What goes into the arrivals kernel and what comes out: schemas, the small numbers that stand for words, and views of
Arrow columns as numpy arrays.

Words are numbers on the way through a kernel; transforms/arrivals puts the words back.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from restante.core.inbox import Phase
from restante.model.states import Verdict

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Small = npt.NDArray[np.int8]
Flags = npt.NDArray[np.bool_]
Gaps = Sequence[tuple[int, int, bool]]
"""First and last number skipped, and whether they were asked for again."""

ARRIVED: Final = 0
TIME_PASSED: Final = 1
CONTROL_ARRIVED: Final = 2
EVENTS: Final = ("arrived", "time_passed", "control_arrived")
"""What an event of a recipient is to its session; the place in this tuple is the number in a table."""

VERDICTS: Final = (Verdict.NEW, Verdict.DUPLICATE, Verdict.COLLISION, Verdict.REPLAY)
NEW, DUPLICATE, COLLISION, REPLAY = range(4)
REFUSED: Final = 4
"""An unreadable message has no verdict (SPEC 8.7); this number stands for that."""
NOTHING: Final = -1

RELEASED: Final = 0
LATE: Final = 1
HELD: Final = 2
PLACEHOLDER: Final = 3
PLACEMENTS: Final = ("released", "late", "held", "placeholder")
"""What became of the arrival itself. Placeholder: its number was used and nothing is released."""

PHASES: Final = (Phase.FLOWING, Phase.WAITING)

NO_SEQUENCE: Final = -1
NO_TIME: Final = -1
MARK_BYTES: Final = 16

SESSION_EVENTS: Final = pa.schema(
    [
        ("event_id", pa.binary()),
        ("session_tag", pa.binary()),
        ("event", pa.int8()),
        ("at_ms", pa.int64()),
        ("sequence", pa.int64()),
        ("message_id", pa.binary()),
        ("payload", pa.binary()),
        ("recorded", pa.int8()),
    ]
)
"""No nulls: a number that is not known is -1, bytes that do not apply are zeros, every binary has 16 bytes. `recorded`
is the verdict that the recipient journaled."""

GAPS: Final = pa.list_(pa.struct([("first", pa.int64()), ("last", pa.int64()), ("retransmit_requested", pa.bool_())]))
OUTCOMES: Final = pa.schema(
    [
        ("verdict", pa.int8()),
        ("placement", pa.int8()),
        ("expected", pa.int64()),
        ("released", pa.int64()),
        ("gaps", GAPS),
    ]
)
CLASSIFIED: Final = pa.schema(
    [*(SESSION_EVENTS.field(name) for name in SESSION_EVENTS.names if name != "payload"), *OUTCOMES]
)

SESSION: Final = 0
WAITING: Final = 1
MISSING: Final = 2
SEEN: Final = 3
STATE: Final = pa.schema(
    [
        ("entry", pa.int8()),
        ("session_tag", pa.binary()),
        ("writer", pa.int64()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("at_ms", pa.int64()),
        ("message_id", pa.binary()),
        ("payload", pa.binary()),
        ("flag", pa.int8()),
    ]
)
"""What a session is between two batches, as rows:

- SESSION: first = expected, at_ms = its latest event, flag = phase;
- WAITING: first = the number, at_ms = when it came, flag = 1 when it is a placeholder;
- MISSING: first to last, at_ms = when they were skipped;
- SEEN: message_id and payload mark, at_ms = when last seen.

`writer` is the beginning of the recipient's id, there to know whose clock `at_ms` is."""

EMPTY_STATE: Final[Any] = STATE.empty_table()
ZERO_MARK: Final = bytes(MARK_BYTES)


def ints(column: Any) -> Any:
    """A column without nulls as a numpy array, shared where it is one piece."""
    return column.to_numpy()


def halves(column: Any) -> Words:
    """A column of 16-byte values as an array of two words each, in the machine's own order of bytes."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if not len(array):
        return np.empty((0, 2), dtype=np.uint64)
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    start = int(offsets[0])
    if int(offsets[-1]) - start != MARK_BYTES * len(array):
        raise ValueError("a kernel's binary columns must have 16 bytes in every row")
    raw = np.frombuffer(array.buffers()[2], dtype=np.uint8, count=MARK_BYTES * len(array), offset=start)
    return raw.view(np.uint64).reshape(-1, 2)


def binaries(words: Words) -> Any:
    """The opposite of `halves`."""
    flat = np.ascontiguousarray(words)
    offsets = np.arange(0, MARK_BYTES * len(flat) + 1, MARK_BYTES, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), len(flat), [None, pa.py_buffer(offsets), pa.py_buffer(flat)])


def gap_lists(gaps: dict[int, Gaps], rows: int) -> Any:
    """One list a row: null but for the few rows that have gaps."""
    at = np.array(sorted(gaps), dtype=np.int64)
    sizes = np.zeros(rows, dtype=np.int32)
    sizes[at] = [len(gaps[place]) for place in at.tolist()]
    offsets = np.concatenate([np.zeros(1, dtype=np.int32), np.cumsum(sizes, dtype=np.int32)])
    flat = [gap for place in at.tolist() for gap in gaps[place]]
    values = pa.StructArray.from_arrays(
        [
            pa.array([gap[0] for gap in flat], pa.int64()),
            pa.array([gap[1] for gap in flat], pa.int64()),
            pa.array([gap[2] for gap in flat], pa.bool_()),
        ],
        ["first", "last", "retransmit_requested"],
    )
    lists = pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(sizes == 0))
    return lists.cast(GAPS)

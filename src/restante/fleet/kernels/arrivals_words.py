"""Between journal words and the numbers of the arrivals kernel, and back to the words of the table `arrivals`."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.fleet.kernels.arrivals_schema import (
    ARRIVED,
    CONTROL_ARRIVED,
    EVENTS,
    GAPS,
    NO_SEQUENCE,
    PLACEMENTS,
    TIME_PASSED,
    VERDICTS,
)
from restante.model.error_codes import Code
from restante.model.journal import JournalKind

EVENT_OF_KIND: Final = {
    JournalKind.ARRIVED: ARRIVED,
    JournalKind.GAP_SKIPPED: TIME_PASSED,
}
"""The kinds of journal events that change an incoming session, and the kernel's number for each."""
RECORDED: Final = (*VERDICTS, Code.SESSION_INVALID)
"""Verdicts by number; the last is REFUSED, an unreadable message."""
UNUSABLE: Final = "arrived: must have a session tag, a message id and a payload hash"

ARRIVALS: Final = pa.schema(
    [
        ("event_id", pa.binary()),
        ("session_tag", pa.binary()),
        ("at_ms", pa.int64()),
        ("event", pa.string()),
        ("sequence", pa.int64()),
        ("message_id", pa.binary()),
        ("verdict", pa.string()),
        ("recipient_verdict", pa.string()),
        ("placement", pa.string()),
        ("next_expected", pa.int64()),
        ("released", pa.int64()),
        ("gaps", GAPS),
    ]
)
"""`next_expected`: the lowest sequence number not passed after this; `released`: how many messages it released. `gaps`:
the numbers skipped at this moment, and whether the recipient requested them again."""


def decode_arrivals(classified: Any) -> Any:
    """The rows of the table `arrivals` for the kernel's outcomes (a table CLASSIFIED)."""
    is_arrival = pc.is_in(classified["event"], value_set=pa.array([ARRIVED, CONTROL_ARRIVED], pa.int8()))
    sequence = classified["sequence"]
    columns = {name: classified[name] for name in ("event_id", "session_tag", "at_ms", "released", "gaps")}
    columns |= {
        "event": _words(classified["event"], EVENTS),
        "sequence": pc.if_else(pc.equal(sequence, NO_SEQUENCE), pa.scalar(None, pa.int64()), sequence),
        "message_id": pc.if_else(is_arrival, classified["message_id"], pa.scalar(None, pa.binary())),
        "verdict": _words(classified["verdict"], RECORDED),
        "recipient_verdict": pc.if_else(
            is_arrival, _words(classified["recorded"], RECORDED), pa.scalar(None, pa.string())
        ),
        "placement": _words(classified["placement"], PLACEMENTS),
        "next_expected": classified["expected"],
    }
    return pa.table([columns[name] for name in ARRIVALS.names], schema=ARRIVALS)


def _words(numbers: Any, words: Sequence[str | None]) -> Any:
    """The word at each number; null below zero and beyond the last."""
    places = numbers.to_numpy()
    is_none = (places < 0) | (places >= len(words))
    spelled = pa.array([None if word is None else str(word) for word in words], pa.string())
    return spelled.take(pa.array(np.where(is_none, 0, places), mask=is_none))

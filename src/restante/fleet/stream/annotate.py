"""Annotate incoming rows with the first rule they break and the session event they represent.

Backfill and stream both use it: what a row means is decided once, in Arrow, by the task that has the rows.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.fleet.kernels.arrivals_schema import ARRIVED, CONTROL_ARRIVED, MARK_BYTES, Flags
from restante.fleet.kernels.arrivals_words import EVENT_OF_KIND, RECORDED
from restante.fleet.kernels.row_rules import row_faults
from restante.fleet.stream.rows import ANNOTATIONS, INCOMING, is_unusable
from restante.model.kinds import Kind

_KINDS: Final = pa.array([kind.value for kind in EVENT_OF_KIND], pa.string())
_EVENTS: Final = pa.array(list(EVENT_OF_KIND.values()), pa.int8())


def annotate_rows(rows: Any) -> Any:
    """Annotate rows with the journal's columns and `source_file`; the result is INCOMING."""
    annotated = with_annotations(rows).append_column("reason", row_faults(rows))
    return annotated.select(INCOMING.names).cast(INCOMING)


def with_annotations(rows: Any) -> Any:
    """Append the columns ANNOTATIONS: what each row means for an incoming session."""
    event = _EVENTS.take(pc.index_in(rows["kind"], value_set=_KINDS).combine_chunks())
    is_control = pc.and_(pc.equal(event, ARRIVED), pc.equal(rows["message_kind"].combine_chunks(), Kind.CONTROL.value))
    event = pc.if_else(pc.fill_null(is_control, False), pa.scalar(CONTROL_ARRIVED, pa.int8()), event)
    code = rows["code"].combine_chunks().dictionary_encode()
    is_told = event.is_valid().to_numpy(False) & _where(_has_size(rows["session_tag"])) & ~_where(is_unusable(rows))
    recorded = _numbers(code, RECORDED, otherwise=len(RECORDED)).astype(np.int8)
    mask = pa.array(is_told)
    columns = [
        pc.if_else(mask, event, pa.scalar(None, pa.int8())),
        pa.array(recorded, mask=~is_told),
    ]
    for field, column in zip(ANNOTATIONS, columns, strict=True):
        rows = rows.append_column(field, column)
    return rows


def _where(is_so: Any) -> Flags:
    flags: Flags = np.asarray(pc.fill_null(is_so, False))
    return flags


def _has_size(tags: Any) -> Any:
    return pc.equal(pc.binary_length(tags), MARK_BYTES)


def _numbers(code: Any, words: Sequence[str], *, otherwise: int) -> Any:
    """Of each code its place among `words`."""
    places = pc.fill_null(pc.index_in(code.dictionary, value_set=pa.array(words, pa.string())), otherwise)
    return pc.fill_null(places.take(code.indices), otherwise).to_numpy(False)

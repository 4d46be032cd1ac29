"""Annotate incoming rows with the first rule they break and the session event they represent.

Backfill and stream both use it: what a row means is decided once, in Arrow, by the task that has the rows.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.core.inbox_events import ResetReason
from restante.fleet.kernels.arrivals_schema import MARK_BYTES, SESSION_ENDED, SESSION_FAILED, Flags
from restante.fleet.kernels.arrivals_words import DERIVED_RESET, EVENT_OF_KIND, RECORDED, RESETS
from restante.fleet.kernels.row_rules import row_faults
from restante.fleet.stream.rows import ANNOTATIONS, INCOMING, is_unusable

_KINDS: Final = pa.array([kind.value for kind in EVENT_OF_KIND], pa.string())
_EVENTS: Final = pa.array(list(EVENT_OF_KIND.values()), pa.int8())


def annotate_rows(rows: Any) -> Any:
    """Annotate rows with the journal's columns and `source_file`; the result is INCOMING."""
    annotated = with_annotations(rows).append_column("reason", row_faults(rows))
    return annotated.select(INCOMING.names).cast(INCOMING)


def with_annotations(rows: Any) -> Any:
    """Append the columns ANNOTATIONS: what each row means for an incoming session."""
    event = _EVENTS.take(pc.index_in(rows["kind"], value_set=_KINDS).combine_chunks())
    code = rows["code"].combine_chunks().dictionary_encode()
    ended_tag = rows["previous_session_tag"].combine_chunks()
    is_end = pc.fill_null(pc.equal(event, SESSION_ENDED), False)
    tags = pc.if_else(
        pc.and_(is_end, pc.fill_null(_has_size(ended_tag), False)), ended_tag, pa.scalar(None, pa.binary())
    )
    is_ended, is_failed = (_where(pc.equal(event, number)) for number in (SESSION_ENDED, SESSION_FAILED))
    has_tag = np.where(is_ended, tags.is_valid().to_numpy(False), _where(_has_size(rows["session_tag"])))
    is_told = event.is_valid().to_numpy(False) & has_tag & ~_where(is_unusable(rows))
    is_told &= ~is_failed | _where(pc.not_equal(_words(code), DERIVED_RESET))
    reason = _numbers(code, RESETS, otherwise=ResetReason.UNREADABLE - 1) + 1
    recorded = np.where(is_failed, reason, _numbers(code, RECORDED, otherwise=len(RECORDED))).astype(np.int8)
    mask = pa.array(is_told)
    columns = [
        pc.if_else(mask, tags, pa.scalar(None, pa.binary())),
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


def _words(code: Any) -> Any:
    return code.dictionary.take(code.indices)


def _numbers(code: Any, words: Sequence[str], *, otherwise: int) -> Any:
    """Of each code its place among `words`."""
    places = pc.fill_null(pc.index_in(code.dictionary, value_set=pa.array(words, pa.string())), otherwise)
    return pc.fill_null(places.take(code.indices), otherwise).to_numpy(False)

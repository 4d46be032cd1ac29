"""What has come in, described: what is wrong with each row, and what it tells of an incoming session.

The same as transforms/validate and transforms/arrivals say of a backfill's rows, from the same tables of words and
rules, but for Arrow columns in the task that has the rows anyway: Spark then carries four columns less, and does not
compare words row by row.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.core.inbox_events import ResetReason
from restante.fleet.kernels.arrivals_schema import MARK_BYTES, SESSION_ENDED, SESSION_FAILED, Flags
from restante.fleet.kernels.row_rules import row_faults
from restante.fleet.stream.rows import INCOMING, is_unusable
from restante.fleet.transforms.arrivals import EVENT_OF_KIND, RECORDED, RESETS, TOLD_BY_US

_KINDS: Final = pa.array([kind.value for kind in EVENT_OF_KIND], pa.string())
_EVENTS: Final = pa.array(list(EVENT_OF_KIND.values()), pa.int8())
_HEX_DIGITS: Final = 2 * MARK_BYTES


def described(rows: Any) -> Any:
    """Rows with the journal's columns and `source_file`, as INCOMING."""
    reasons = row_faults(rows)
    event = _EVENTS.take(pc.index_in(rows["kind"], value_set=_KINDS).combine_chunks())
    code = rows["code"].combine_chunks().dictionary_encode()
    tags = _ended_tags(event, code)
    is_ended, is_failed = (_where(pc.equal(event, number)) for number in (SESSION_ENDED, SESSION_FAILED))
    has_tag = np.where(is_ended, tags.is_valid().to_numpy(False), _where(_has_size(rows["session_tag"])))
    is_told = event.is_valid().to_numpy(False) & has_tag & ~_where(is_unusable(rows))
    is_told &= ~is_failed | _where(pc.not_equal(_words(code), TOLD_BY_US))
    reason = _numbers(code, RESETS, otherwise=ResetReason.UNREADABLE - 1) + 1
    recorded = np.where(is_failed, reason, _numbers(code, RECORDED, otherwise=len(RECORDED))).astype(np.int8)
    mask = pa.array(is_told)
    told = {
        "reason": reasons,
        "told_tag": pc.if_else(mask, tags, pa.scalar(None, pa.binary())),
        "told_event": pc.if_else(mask, event, pa.scalar(None, pa.int8())),
        "told_recorded": pa.array(recorded, mask=~is_told),
    }
    return pa.table([told[name] if name in told else rows[name] for name in INCOMING.names], schema=INCOMING)


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


def _ended_tags(event: Any, code: Any) -> Any:
    """A session that continues another is told of by its own tag; the one that ended is named by the code."""
    named = code.indices.filter(pc.equal(event, SESSION_ENDED)).unique().drop_null()
    tags: list[bytes | None] = [None] * len(code.dictionary)
    for place in named.to_pylist():
        tags[place] = _from_hex(code.dictionary[place].as_py())
    ended = pc.if_else(pc.equal(event, SESSION_ENDED), code.indices, pa.scalar(None, pa.int32()))
    return pa.array(tags, pa.binary()).take(ended)


def _from_hex(text: str) -> bytes | None:
    """As Spark's `unhex`, which takes an odd number of digits for one with a zero before it."""
    digits = text.rjust(len(text) + len(text) % 2, "0")
    is_tag = len(digits) == _HEX_DIGITS and digits.isascii() and digits.isalnum()
    try:
        return bytes.fromhex(digits) if is_tag else None
    except ValueError:
        return None

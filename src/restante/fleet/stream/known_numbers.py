"""Which events of a writer have come, as ranges of event ids: one a writer as long as nothing is missing.

An event id is the first 8 bytes of its writer's id and the number, big-endian: ids sort like numbers.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from restante.fleet.kernels.arrivals_schema import Flags, Words, halves
from restante.fleet.stream.state_tables import RANGES

Ids = npt.NDArray[np.bytes_]
NO_RANGES: Final[Any] = RANGES.empty_table()


def ids_of(column: Any) -> Ids:
    """Event ids as values that numpy can compare: all have 16 bytes, so the zeros at an end that numpy drops are no
    matter."""
    return np.ascontiguousarray(halves(column.cast(pa.binary()))).view("S16").reshape(-1)


def numbers_of(column: Any) -> Words:
    """The numbers in event ids."""
    return halves(column.cast(pa.binary()))[:, 1].byteswap()


def is_known(ranges: Any, ids: Ids) -> Flags:
    if not len(ranges):
        return np.zeros(len(ids), dtype=np.bool_)
    first, last = ids_of(ranges["first"]), ids_of(ranges["last"])
    place = np.searchsorted(first, ids, side="right") - 1
    known: Flags = (place >= 0) & (ids <= last[np.maximum(place, 0)])
    return known


def with_numbers(ranges: Any, new: Any) -> Any:
    """The ranges with `new` in them: a column of ids that are in none of them yet."""
    if not len(new):
        return ranges
    words = np.concatenate([halves(ranges[name].cast(pa.binary())) for name in ("first", "last")])
    fresh = halves(new.cast(pa.binary()))
    first = np.concatenate([words[: len(ranges)], fresh]).byteswap()
    last = np.concatenate([words[len(ranges) :], fresh]).byteswap()
    in_order = np.lexsort((first[:, 1], first[:, 0]))
    first, last = first[in_order], last[in_order]
    begins = np.ones(len(first), dtype=np.bool_)
    # Nothing comes before the number 0, so it begins a range whatever is below it.
    begins[1:] = (first[1:, 0] != first[:-1, 0]) | (first[1:, 1] - 1 != last[:-1, 1]) | (first[1:, 1] == 0)
    ends = np.append(begins[1:], True)
    return pa.table([_fixed(first[begins]), _fixed(last[ends])], schema=RANGES)


def _fixed(words: Words) -> Any:
    raw = np.ascontiguousarray(words.byteswap())
    return pa.Array.from_buffers(pa.binary(16), len(raw), [None, pa.py_buffer(raw)])

"""Writes many rows with few statements: many rows in one INSERT, many keys in one UPDATE or DELETE.

Half the time of a small statement is overhead. APSW also keeps prepared statements in a ring that each use advances: a
hundred small statements in a row evict all others, which must then be parsed again. Only the text of a statement
decides; statements of any other form are run row by row.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Final, TypeVar

Item = TypeVar("Item")
Column = bytes | str | int | float | None
"""A value that SQLite can store."""

WIDTHS: Final = (32, 8)
"""Rows per statement, tried in this order."""

_PLAIN_INSERT: Final = re.compile(r"(INSERT INTO \w+(?: \([\w, ]+\))? VALUES )(\([?NUL, ]+\));?")
_BY_KEY: Final = re.compile(r"((?:UPDATE \w+ SET \w+ = \?(?:, \w+ = \?)*|DELETE FROM \w+) WHERE \w+) = \?;?")


def together(statement: str, rows: Sequence[tuple[Column, ...]]) -> Iterator[tuple[str, tuple[Column, ...]]]:
    """Return statements and values with the same effect as `statement` run for each row in turn."""
    if _wide_insert(statement, WIDTHS[-1]):
        for batch in _batches(rows):
            if len(batch) == 1:
                yield statement, batch[0]
            else:
                yield _wide_insert(statement, len(batch)) or statement, tuple(chain.from_iterable(batch))
    elif _wide_by_key(statement, WIDTHS[-1]):
        for values, keys in _by_values(rows).items():
            for some in _batches(keys):
                wide = statement if len(some) == 1 else _wide_by_key(statement, len(some)) or statement
                yield wide, (*values, *some)
    else:
        for row in rows:
            yield statement, row


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    first = 0
    for width in WIDTHS:
        while first + width <= len(items):
            yield items[first : first + width]
            first += width
    for last in range(first, len(items)):
        yield items[last : last + 1]


def _by_values(rows: Sequence[tuple[Column, ...]]) -> dict[tuple[Column, ...], list[Column]]:
    """Group the keys by their values. Of several rows for one key only the last counts."""
    last = {row[-1]: row[:-1] for row in rows}
    keys: dict[tuple[Column, ...], list[Column]] = {}
    for key, values in last.items():
        keys.setdefault(values, []).append(key)
    return keys


@cache
def _wide_insert(statement: str, width: int) -> str | None:
    found = _PLAIN_INSERT.fullmatch(statement)
    return found and found[1] + ",".join([found[2]] * width)


@cache
def _wide_by_key(statement: str, width: int) -> str | None:
    found = _BY_KEY.fullmatch(statement)
    return found and f"{found[1]} IN ({','.join('?' * width)})"

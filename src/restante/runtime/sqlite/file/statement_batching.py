"""Rows of one statement written by fewer statements: many rows in one INSERT, many keys in one UPDATE or DELETE.

Half the time of a small statement is not spent on its row. Besides, APSW keeps its prepared statements in a ring that
each use moves on by one: a hundred small ones in a row push all others out, which then have to be parsed again.
Decides by the text of a statement only; a statement of any other form is left as it is.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Final, TypeVar

Item = TypeVar("Item")
Column = bytes | str | int | float | None
"""What SQLite can hold."""

WIDTHS: Final = (32, 8)
"""How many rows go into one statement, as long as there are so many."""

_PLAIN_INSERT: Final = re.compile(r"(INSERT INTO \w+(?: \([\w, ]+\))? VALUES )(\([?NUL, ]+\));?")
_BY_KEY: Final = re.compile(r"((?:UPDATE \w+ SET \w+ = \?(?:, \w+ = \?)*|DELETE FROM \w+) WHERE \w+) = \?;?")


def together(statement: str, rows: Sequence[tuple[Column, ...]]) -> Iterator[tuple[str, tuple[Column, ...]]]:
    """Statements and their values which leave behind what `statement` would, run for each row in turn."""
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
    """Which keys get the same values. Of several rows for one key the last counts, for it sets what the others set."""
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

"""Fewer files for the rows of a bucket: which of its files are merged in a batch, so that they are few and a row is
copied seldom.

While rows of a day come, FAN files of one size become one of the next: each row is copied once a level. A day without
new rows is closed: its files become as few as its rows allow, whatever the number of batches that brought them.
"""

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from restante.fleet.stream.bucket_files import BucketWriter, FileRef, sort_by_event

FAN: Final = 8
"""Files of one level that are merged into one of the next: a row is copied once per level, and few files remain. Of a
closed day, a file is rewritten when the smaller ones together have this share of its rows, so that late rows are
gathered first: each row is copied a number of times that grows with the logarithm of the day's rows."""
MERGED_ROWS_AT_MOST: Final = 1_000_000  # of a table, what one task may hold in memory besides its own rows


def compact(
    writer: BucketWriter, what: str, refs: tuple[FileRef, ...], *, open_days: frozenset[str] | None = None
) -> tuple[FileRef, ...]:
    """Merge small files of one day, where there are many: in each batch those of some buckets, not of all at once.

    `open_days` are those with new rows; if they are given, it is this bucket's turn to merge its closed days.
    """

    def merge(old: Sequence[FileRef], level: int) -> tuple[FileRef, ...]:
        merged = pa.concat_tables([writer.read_table(ref) for ref in old])
        return writer.write_table(what, sort_by_event(merged), level=level)

    days: dict[str | None, tuple[FileRef, ...]] = {}
    for ref in refs:
        days[ref.day] = (*days.get(ref.day, ()), ref)
    for day, files in days.items():
        days[day] = merged_by_level(files, merge, rows_at_most=MERGED_ROWS_AT_MOST, more=writer.bucket % FAN)
    rows_left = MERGED_ROWS_AT_MOST
    for day in sorted((day for day in days if day is not None), key=lambda day: -len(days[day])):
        if open_days is None or day in open_days:
            continue
        group = worth_merging(days[day], rows_at_most=rows_left)
        if group:
            rows_left -= sum(ref.rows for ref in group)
            merged = merge(group, max(ref.level for ref in group) + 1)
            days[day] = (*merged, *(ref for ref in days[day] if ref not in group))
    return tuple(ref for files in days.values() for ref in files)


def worth_merging(refs: Sequence[FileRef], *, rows_at_most: int) -> tuple[FileRef, ...]:
    """The most files of a closed day that become one: the smallest ones, and a larger one where those are worth it."""
    found: tuple[FileRef, ...] = ()
    by_size = sorted(refs, key=lambda ref: ref.rows)
    rows = 0
    for place, ref in enumerate(by_size):
        if rows + ref.rows > rows_at_most:
            break
        if place and ref.rows <= FAN * rows:
            found = tuple(by_size[: place + 1])
        rows += ref.rows
    return found


def merged_by_level(
    refs: tuple[FileRef, ...],
    merge: Callable[[Sequence[FileRef], int], tuple[FileRef, ...]],
    *,
    rows_at_most: int | None = None,
    more: int = 0,
) -> tuple[FileRef, ...]:
    """Where FAN neighbours of one level, and `more`, have come together, `merge` makes FAN one file of the next."""
    found = list(refs)
    while True:
        place = _full_level(found, rows_at_most, FAN + more)
        if place is None:
            return tuple(found)
        old = found[place : place + FAN]
        found[place : place + FAN] = merge(old, old[0].level + 1)


def _full_level(refs: Sequence[FileRef], rows_at_most: int | None, together: int) -> int | None:
    for place in range(len(refs) - together + 1):
        group = refs[place : place + together]
        is_small = rows_at_most is None or sum(ref.rows for ref in group[:FAN]) <= rows_at_most
        if is_small and len({ref.level for ref in group}) == 1:
            return place
    return None

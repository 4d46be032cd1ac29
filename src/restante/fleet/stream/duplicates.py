"""Classifies rows as new events, duplicates of an event, or conflicting with one (SPEC 13.1, 13.2).

Of rows with the same event id, equal ones are one event; if any two differ, all of them go to the quarantine, also one
that was an event until now. Where signed files have the event, only rows of signed files count for that; others are
copies of it or go to the quarantine. An event that was deleted is none to compare with: that a signed file had its
number is enough. So an event id is in one of four states: an event of a signed file, an event of an
unsigned one, contradicted by unsigned files alone, which ends when a signed one has it, or by signed ones.

Rows are held against everything that ever came: what is known by its number is looked up in the stream's own event
files, of which only the parts that can hold it are read.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.fleet.kernels.arrivals_schema import Flags, Ints
from restante.fleet.kernels.arrivals_words import UNUSABLE
from restante.fleet.stream.bucket_files import Bucket, BucketWriter, FileRef, rewrite_without
from restante.fleet.stream.known_numbers import Ids, ids_of, is_known
from restante.fleet.stream.rows import (
    ANNOTATED,
    EVENTS,
    QUARANTINE,
    REPEATS,
    is_unusable,
    same_content,
    taken,
    with_reason,
)
from restante.fleet.transforms.validate import CONFLICT


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFiles:
    """The files of a batch by name: those that were read in part before, and those that an enrolled key signed.

    `find_signed` returns which of some files of earlier batches were signed. `find_claimed` returns which of some event
    ids are in other signed files of earlier batches. It is called with ids whose event retention may have deleted.
    """

    reread: frozenset[str] = frozenset()
    signed: frozenset[str] = frozenset()
    find_signed: Callable[[frozenset[str]], frozenset[str]] = frozenset().intersection
    find_claimed: Callable[[Iterable[bytes], frozenset[str]], frozenset[bytes]] = lambda _ids, _without: frozenset()

    def signed_before(self, names: Any) -> Flags:
        """Whether each of these files was signed when it was read. What was read in part never had the right hash."""
        different = frozenset(names.unique().to_pylist()) - self.reread
        return _is_among(names, self.find_signed(different) if different else different)

    def claimed_before(self, ids: Any) -> Flags:
        """Whether a signed file that is none of these has each of these ids."""
        found = self.find_claimed(ids.to_pylist(), self.signed | self.reread)
        flags: Flags = pc.is_in(ids, value_set=pa.array(sorted(found), pa.binary())).to_numpy()
        return flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """What became of rows that are sound, each for itself."""

    fresh: Any
    """New events: ANNOTATED, in order of their ids."""
    repeats: Any
    conflicting: Any
    """Rows for the quarantine."""
    new_ids: Any
    """The ids that were not known: those of the new events and of the conflicts among them."""
    retracted: Ids
    """Events until now, contradicted by a row that has come."""
    refiled: Any
    """Events that go by the file of a copy that came: it is signed and theirs is not, or they cannot be used and its
    name is lower. EVENTS."""
    overruled: Any
    """Rows of unsigned files for the quarantine that differ from the event of a signed one."""
    released: Ids
    """Contradicted by unsigned files until now, and events of a signed one from now on."""


def classify_duplicates(writer: BucketWriter, bucket: Bucket, sound: Any, ranges: Any, files: BatchFiles) -> Copies:
    """`sound` is in order (stream/rows); `ranges` are the known numbers."""
    ids = ids_of(sound["event_id"])
    starts = np.ones(len(ids), dtype=np.bool_)
    starts[1:] = ids[1:] != ids[:-1]
    first = np.flatnonzero(starts)
    group = np.cumsum(starts) - 1
    known = is_known(ranges, ids[first])
    is_signed = _is_among(sound["source_file"], files.signed)
    old = find_events(writer, bucket.events, ids[first[known]]) if known.any() else EVENTS.empty_table()
    of_group = _places(ids[first], ids_of(old["event_id"]))
    has_old = of_group >= 0
    was_signed = np.zeros(len(first), dtype=np.bool_)
    was_signed[has_old] = files.signed_before(old["source_file"])[of_group[has_old]]
    is_overtaken = has_old & is_signed[first] & ~was_signed
    stays = has_old & ~is_overtaken
    differs = _differs(sound, first[group]) if len(ids) > len(first) else np.zeros(len(ids), dtype=np.bool_)
    copies = np.flatnonzero(stays[group])
    differs[copies] = ~same_content(taken(sound, copies), taken(old, of_group[group[copies]]))
    counts = is_signed | ~(is_signed[first] | was_signed)[group]
    in_conflict = np.zeros(len(first), dtype=np.bool_)
    in_conflict[group[differs & counts]] = True
    is_replaced = np.zeros(len(first), dtype=np.bool_)
    over = np.flatnonzero(is_overtaken)
    is_replaced[over] = ~same_content(taken(sound, first[over]), taken(old, of_group[over]))
    was_refused = known & ~has_old
    is_released = was_refused & is_signed[first] & ~in_conflict
    contradicted = QUARANTINE.empty_table()
    if is_released.any():
        contradicted, by_signed = _contradicted(writer, bucket, ids[first[is_released]], files)
        is_released &= ~np.isin(ids[first], by_signed)
        free = np.flatnonzero(is_released)
        is_released[free] = ~files.claimed_before(sound["event_id"].take(pa.array(first[free])))
    in_conflict |= was_refused & ~is_released
    fresh = starts & (~in_conflict & (~known | is_released | is_replaced))[group]
    repeated = ~in_conflict[group] & ~differs & ~fresh
    refiled, moved, groups = _refiled(
        sound,
        old,
        of_group,
        first,
        stays=stays & ~in_conflict & (is_signed[first] == was_signed),
        overtaken=is_overtaken & ~in_conflict & ~is_replaced,
    )
    repeated[first[groups]] = False
    if files.reread:
        copies = np.flatnonzero(has_old[group])
        names, old_names = taken(sound, copies)["source_file"], taken(old, of_group[group[copies]])["source_file"]
        is_itself = pc.and_(pc.is_in(names, value_set=pa.array(sorted(files.reread))), pc.equal(names, old_names))
        repeated[copies[is_itself.to_numpy()]] = False
    freed = taken(contradicted, np.isin(ids_of(contradicted["event_id"]), ids[first[is_released]]))
    is_copy = same_content(freed, taken(sound, first[_places(ids_of(freed["event_id"]), ids[first])]))
    return Copies(
        fresh=taken(sound, fresh).select(ANNOTATED.names),
        repeats=pa.concat_tables(
            [taken(sound, repeated).select(REPEATS.names), moved, taken(freed, is_copy).select(REPEATS.names)]
        ),
        conflicting=with_reason(taken(sound, in_conflict[group]), CONFLICT),
        new_ids=sound["event_id"].take(pa.array(first[~known])),
        retracted=ids[first[has_old & (in_conflict | is_replaced)]],
        refiled=refiled,
        overruled=pa.concat_tables(
            [with_reason(taken(sound, differs & ~in_conflict[group]), CONFLICT), taken(freed, ~is_copy)]
        ),
        released=ids[first[is_released]],
    )


def _is_among(names: Any, files: frozenset[str]) -> Flags:
    flags: Flags = pc.is_in(names, value_set=pa.array(sorted(files), pa.string())).to_numpy()
    return flags


def _differs(sound: Any, first: Ints) -> Flags:
    """Whether each row differs from the first with its id. Most are alone, and are not looked at."""
    differs = np.zeros(len(first), dtype=np.bool_)
    further = np.flatnonzero(first != np.arange(len(first)))
    differs[further] = ~same_content(taken(sound, further), taken(sound, first[further]))
    return differs


def _contradicted(writer: BucketWriter, bucket: Bucket, ids: Ids, files: BatchFiles) -> tuple[Any, Ids]:
    """The quarantined rows that contradict each other under one of `ids`, and ids for which a signed file does."""
    tables = (writer.read_table(ref).select(QUARANTINE.names) for ref in bucket.quarantine)
    rows = pa.concat_tables(
        [QUARANTINE.empty_table(), *(table.filter(is_contradicted(table, ids)) for table in tables)]
    )
    return rows, ids_of(rows["event_id"])[files.signed_before(rows["source_file"])]


def is_contradicted(table: Any, ids: Ids) -> Any:
    """Whether each row of the quarantine is there because others with its id, one of `ids`, differ."""
    named = pa.array(np.isin(_any_ids(table["event_id"]), ids))
    return pc.fill_null(pc.and_(named, pc.equal(table["reason"], CONFLICT)), False)


def _places(wanted: Ids, have: Ids) -> Ints:
    """Where each of `wanted` is in `have`; -1 where it is not."""
    places = np.full(len(wanted), -1, dtype=np.int64)
    if len(have):
        by_id = np.argsort(have, kind="stable")
        at = np.minimum(np.searchsorted(have[by_id], wanted), len(have) - 1)
        hit = have[by_id[at]] == wanted
        places[hit] = by_id[at[hit]]
    return places


def _refiled(
    sound: Any, old: Any, of_group: Ints, first: Ints, *, stays: Flags, overtaken: Flags
) -> tuple[Any, Any, Ints]:
    """An event goes by a signed file if one has it, and the quarantine names the lowest file that has an unusable
    arrival: it may be one that has come only now.

    Such events with their new file, the repeats that they leave under the old one, and the groups they are of.
    """
    groups = np.flatnonzero(stays | overtaken)
    events = taken(old, of_group[groups])
    names = taken(sound, first[groups])["source_file"]
    is_signed_now = pc.and_(pa.array(overtaken[groups]), pc.not_equal(names, events["source_file"]))
    is_lower = pc.and_(is_unusable(events), pc.less(names, events["source_file"]))
    moves = pc.or_(is_signed_now, is_lower)
    moved = events.filter(moves)
    place = EVENTS.get_field_index("source_file")
    renamed = moved.set_column(place, EVENTS.field(place), names.filter(moves))
    return renamed, moved.select(REPEATS.names), groups[moves.to_numpy()]


def find_events(writer: BucketWriter, refs: Iterable[FileRef], ids: Ids) -> Any:
    """The events with these ids; `ids` is in order."""
    found = [EVENTS.empty_table()]
    for ref in refs:
        if not may_hold(ref, ids):
            continue
        with writer.open_table(ref) as file:
            column = file.schema_arrow.get_field_index("event_id")
            for number in range(file.num_row_groups):
                stats = file.metadata.row_group(number).column(column).statistics
                if stats is not None and stats.has_min_max and not _has_between(ids, stats.min, stats.max):
                    continue
                have = ids_of(file.read_row_group(number, ["event_id"])["event_id"])
                hit = np.flatnonzero(np.isin(have, ids))
                if len(hit):
                    found.append(file.read_row_group(number).take(pa.array(hit)).select(EVENTS.names))
    return pa.concat_tables(found)


def may_hold(ref: FileRef, ids: Ids) -> bool:
    """Whether one of `ids`, which are in order, is in the range of a file."""
    return _has_between(ids, bytes.fromhex(ref.first), bytes.fromhex(ref.last))


def _has_between(ids: Ids, first: bytes, last: bytes) -> bool:
    bounds = np.array([first, last], dtype="S16")
    at = int(np.searchsorted(ids, bounds[0]))
    return at < len(ids) and bool(ids[at : at + 1] <= bounds[1])


def retract(writer: BucketWriter, bucket: Bucket, ids: Ids) -> tuple[Bucket, Any, Any]:
    """The bucket without these events; the events; and what the quarantine gets in their place, copies included."""

    def is_one(table: Any) -> Any:
        return pa.array(np.isin(_any_ids(table["event_id"]), ids))

    def concerned(ref: FileRef) -> bool:
        return may_hold(ref, ids)

    events, gone = rewrite_without(writer, "events", bucket.events, is_one, concerned)
    repeats, copies = rewrite_without(writer, "repeats", bucket.repeats, is_one, concerned)
    quarantine = without_unusable(writer, bucket, ids)
    was = pa.concat_tables([EVENTS.empty_table(), *gone])
    again = pa.concat_tables([REPEATS.empty_table(), *copies])
    content = was.take(pa.array(_places(ids_of(again["event_id"]), ids_of(was["event_id"]))))
    place = EVENTS.get_field_index("source_file")
    named = content.set_column(place, EVENTS.field(place), again["source_file"])
    refused = pa.concat_tables([with_reason(was, CONFLICT), with_reason(named, CONFLICT)])
    return replace(bucket, events=events, repeats=repeats, quarantine=quarantine), was, refused


def without_unusable(writer: BucketWriter, bucket: Bucket, ids: Ids) -> tuple[FileRef, ...]:
    """The quarantine without the rows that say that these events cannot be used."""

    def is_one(table: Any) -> Any:
        named = pa.array(np.isin(_any_ids(table["event_id"]), ids))
        return pc.and_(named, pc.equal(table["reason"], UNUSABLE))

    files, _ = rewrite_without(writer, "quarantine", bucket.quarantine, is_one, lambda _ref: True)
    return files


def _any_ids(column: Any) -> Ids:
    """Return the ids of the rows; a missing or malformed one becomes empty."""
    has_size = pc.equal(pc.fill_null(pc.binary_length(column), 0), 16)
    return np.array(pc.if_else(has_size, column, pa.scalar(bytes(16))).to_pylist(), dtype="S16")

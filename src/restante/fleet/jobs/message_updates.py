"""Update the tables that have a row a message, or a row a copy of one, by what is new.

The rows that events are about are found by searching one column of all files (lake/search). Files that have any are
written again without them; the rows as they are now go to new files. Rows of messages and sealed bytes with events
of deleted days stay as they are.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from restante.fleet.jobs.changes import Change
from restante.fleet.jobs.publication import Publication
from restante.fleet.kernels.message_events import COLUMNS, PARTS, in_parts
from restante.fleet.lake.arrow_files import write_rows
from restante.fleet.lake.layout import DAY
from restante.fleet.lake.search import (
    FILE,
    Search,
    from_matching_rows,
    matching_rows,
    merge_plan,
    one_of,
    rewritten,
)
from restante.fleet.tables.definitions import TABLES
from restante.fleet.tables.journal_schema import JOURNAL
from restante.fleet.tables.table import Table
from restante.fleet.transforms.messages import DAY_MS, lifecycles_of_parts, messages, utc_day
from restante.fleet.transforms.replicas import KINDS, copies_at_nodes, with_owners
from restante.fleet.transforms.service_levels import hour_of
from restante.model.journal import STATE_AFTER

_MESSAGE_EVENTS: Final = StructType([JOURNAL[name] for name in COLUMNS])
_NODE_EVENTS: Final = StructType(
    [JOURNAL[name] for name in ("at_ms", "kind", "writer", "payload_hash", "size_bytes", "code", "ttl_s")]
)
_CHANGES_STATE: Final = pa.array([kind.value for kind in STATE_AFTER], pa.string())
_AT_NODES: Final = pa.array([kind.value for kind in KINDS], pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedMessages:
    """The messages that events are about, as they were and as they are now.

    `ids` are theirs, `event_days` those of all their events. `days` and `hours_ms` are those of acceptance, before and
    now; `hashes` what they are or were sealed as.
    """

    ids: Any
    event_days: frozenset[str]
    old: DataFrame
    new: DataFrame
    days: frozenset[str]
    hours_ms: Any
    hashes: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedReplicas:
    """Sealed bytes whose rows can have changed, and these rows as they are now."""

    hashes: Any
    new: DataFrame


def update_messages(work: Publication, table: Table, change: Change) -> ChangedMessages:
    ids = work.broadcast(change.messages)
    search = one_of("message_id", ids)
    old = _rows_now(work, table, search)
    if work.retained_from_ms is not None:
        is_closed = sf.col("first_event_at_ms") < work.retained_from_ms
        ids = work.broadcast(_without(change.messages, old.filter(is_closed), "message_id"))
        search, old = one_of("message_id", ids), old.filter(~is_closed)
    found = old.select(FILE, *_span("first_event_at_ms", "last_event_at_ms")).distinct().collect()
    days = change.days | work.event_days(_spans(found))
    new = work.keep(_lives(work, days, _about_messages(ids)))
    changed_days = _replace_rows(work, table, search, new, {row[FILE] for row in found})
    columns = ("payload_hash", "other_hashes", hour_of(sf.col("accepted_at_ms")).alias("hour_ms"))
    both = old.select(*columns).unionByName(new.select(*columns)).toArrow()
    return ChangedMessages(
        ids=ids.value,
        event_days=days,
        old=work.in_few_tasks(old.drop(FILE)),
        new=work.in_few_tasks(new),
        days=changed_days,
        hours_ms=pc.drop_null(both["hour_ms"].unique()),
        hashes=_unique(both["payload_hash"], pc.list_flatten(both["other_hashes"])),
    )


def update_replicas(
    work: Publication, table: Table, change: Change, changed: Callable[[], ChangedMessages]
) -> ChangedReplicas:
    """Build again the copies that nodes wrote about; give all others of the changed messages their message again.

    What nodes wrote is read while `messages` is still being updated.
    """
    old = _rows_now(work, table, one_of("payload_hash", work.broadcast(change.hashes)))
    stored = change.hashes
    if work.retained_from is not None:
        stored = _without(stored, old.filter(sf.col(DAY) < work.retained_from), "payload_hash")
    first_ms = sf.unix_date("day").cast("bigint") * sf.lit(DAY_MS)
    found = old.withColumn("first_ms", first_ms).select(FILE, *_span("first_ms", "last_event_at_ms"))
    written = found.distinct().collect()
    days = change.days | work.event_days(_spans(written))
    events = _events(work, days, _at_nodes(work.broadcast(stored)), _NODE_EVENTS)
    copies = work.keep(copies_at_nodes(events, work.tables["writer_hours"]))
    copies.count()  # now, not when the messages are there
    hashes = _unique(change.hashes, changed().hashes)
    others = hashes.filter(pc.invert(pc.is_in(hashes, value_set=stored)))
    unchanged = _rows_now(work, table, one_of("payload_hash", work.broadcast(others)))
    touched = {row[FILE] for row in (*written, *unchanged.select(FILE).distinct().collect())}
    both = copies.unionByName(unchanged.select(*copies.columns))
    new = work.keep(with_owners(both, owners_of(work, hashes, "message_id", "payload_hash", "other_hashes")))
    _replace_rows(work, table, one_of("payload_hash", work.broadcast(hashes)), new, touched)
    return ChangedReplicas(hashes=hashes, new=new)


def _without(ids: Any, closed: DataFrame, name: str) -> Any:
    """`ids` without those of rows that follow from deleted events."""
    found = closed.select(name).distinct().toArrow()[name].combine_chunks().cast(pa.binary())
    return ids.filter(pc.invert(pc.is_in(ids, value_set=found)))


def owners_of(work: Publication, hashes: Any, *columns: str) -> DataFrame:
    """The messages that are or were sealed as any of these: some columns of them, or all."""
    table, ids = TABLES["messages"], work.broadcast(hashes)
    files = work.files(table)

    def owns(rows: Any) -> Any:
        lists = rows["other_hashes"].combine_chunks()
        owner = np.asarray(pc.is_in(rows["payload_hash"], value_set=ids.value)).copy()
        is_one = np.asarray(pc.is_in(lists.flatten(), value_set=ids.value))
        owner[np.asarray(pc.list_parent_indices(lists))[is_one]] = True
        return pa.array(owner)

    search = Search(ids, ("payload_hash", "other_hashes"), owns)
    schema = StructType([table.schema[name] for name in columns]) if columns else table.schema
    return matching_rows(work.spark, files.address, sorted(files.live()), schema, search).drop(FILE)


def events_of_messages(work: Publication, ids: Any, days: frozenset[str]) -> DataFrame:
    return _events(work, days, _about_messages(work.broadcast(ids)), JOURNAL)


def _lives(work: Publication, days: frozenset[str], search: Search) -> DataFrame:
    """Rows of `messages` from the events of these days."""
    tasks = work.shuffle_tasks
    parts = from_matching_rows(
        work.spark,
        work.lake.table("events"),
        _event_files(work, days),
        _MESSAGE_EVENTS,
        search,
        work=lambda batches: in_parts(batches, tasks),
        into=PARTS,
    )
    return messages(lifecycles_of_parts(parts, tasks))


def _rows_now(work: Publication, table: Table, search: Search) -> DataFrame:
    files = work.files(table)
    return work.keep(matching_rows(work.spark, files.address, sorted(files.live()), table.schema, search))


def _replace_rows(work: Publication, table: Table, search: Search, new: DataFrame, touched: set[str]) -> frozenset[str]:
    """Put `new` in the place of what is searched for. Return the days that had or have any of it."""
    files = work.files(table)
    live = files.live()
    added = write_rows(new, files.address, partition=table.partition)
    groups = merge_plan(live, touched)
    kept = rewritten(work.spark, files.address, groups, to_arrow_schema(table.schema), search)
    work.commit(table, [*added, *kept], chain.from_iterable(groups))
    return frozenset(file.day for file in (*added, *(live[path] for path in touched)) if file.day is not None)


def _events(work: Publication, days: frozenset[str], search: Search, columns: StructType) -> DataFrame:
    """Events of these days."""
    address = work.lake.table("events")
    return matching_rows(work.spark, address, _event_files(work, days), columns, search).drop(FILE)


def _event_files(work: Publication, days: frozenset[str]) -> list[str]:
    return sorted(path for path, file in work.live.items() if file.day in days)


def _about_messages(ids: Any) -> Search:
    """Events of messages; null is that of events that change a state and name no message."""
    if not ids.value.null_count:
        return one_of("message_id", ids)

    def is_about(rows: Any) -> Any:
        named = pc.or_(pc.is_valid(rows["message_id"]), pc.is_in(rows["kind"], value_set=_CHANGES_STATE))
        return pc.and_(pc.is_in(rows["message_id"], value_set=ids.value), named)

    return Search(ids, ("message_id", "kind"), is_about)


def _at_nodes(hashes: Any) -> Search:
    def is_about(rows: Any) -> Any:
        at_node = pc.is_in(rows["kind"], value_set=_AT_NODES)
        return pc.and_(at_node, pc.is_in(rows["payload_hash"], value_set=hashes.value))

    return Search(hashes, ("payload_hash", "kind"), is_about)


def _span(first_ms: str, last_ms: str) -> tuple[Column, Column]:
    return utc_day(sf.col(first_ms)).alias("first"), utc_day(sf.col(last_ms)).alias("last")


def _spans(rows: Iterable[Row]) -> set[tuple[str, str]]:
    return {(str(row["first"]), str(row["last"])) for row in rows}


def _unique(*columns: Any) -> Any:
    chunks = (column.chunks if isinstance(column, pa.ChunkedArray) else [column] for column in columns)
    return pc.drop_null(pa.chunked_array([*chain.from_iterable(chunks)], pa.binary()).unique())

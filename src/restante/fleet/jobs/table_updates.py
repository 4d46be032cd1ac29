"""Update the derived tables by what is new: build the rows that changed events can change, and keep all others.

Which rows these are follows from a table's scope (tables/table.Scope). Spark builds them with the transforms of a
backfill; of small tables the driver puts them beside the others, in Arrow. The tables with a row a message are updated
in jobs/message_updates.
"""

from collections.abc import Iterable
from functools import cached_property, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from restante.fleet.jobs.changes import Change, read_events
from restante.fleet.jobs.message_updates import (
    ChangedMessages,
    ChangedReplicas,
    events_of_messages,
    owners_of,
    update_messages,
    update_replicas,
)
from restante.fleet.jobs.publication import Publication
from restante.fleet.kernels.event_hours import HOURS
from restante.fleet.lake.layout import DAY
from restante.fleet.lake.search import FAN
from restante.fleet.stream.state_tables import KINDS
from restante.fleet.tables.definitions import TABLES
from restante.fleet.tables.journal_schema import JOURNAL_COLUMNS
from restante.fleet.tables.table import Scope, Table
from restante.fleet.transforms.conservation import days_to_search, with_deleted_days
from restante.fleet.transforms.messages import utc_day
from restante.fleet.transforms.node_identities import node_writers
from restante.fleet.transforms.service_levels import HOUR_MS, hour_of
from restante.fleet.transforms.withholding import claimed
from restante.fleet.transforms.writer_activity import merged_hours
from restante.model.journal import JournalKind
from restante.model.states import State


class TableUpdates:
    """Updates one table after the other, in the order of DERIVED."""

    def __init__(self, work: Publication, change: Change) -> None:
        self._work = work
        self._change = change
        self._found: ChangedMessages | None = None
        self._replicas: ChangedReplicas | None = None
        self._has_other_nodes = False

    def update(self, table: Table) -> None:
        update_rows = {
            Scope.WHOLE: self._build_again,
            Scope.EVENT: self._add_events,
            Scope.HOUR: self._update_hours,
            Scope.WRITER: self._update_by_writer,
            Scope.MESSAGE: self._update_by_message,
            Scope.COUNT: self._add_up,
            Scope.MESSAGE_HOUR: self._update_by_hour,
            Scope.PAYLOAD: self._update_replicas,
            Scope.COPY: self._update_copies,
            Scope.ABSENCE: self._update_withholding,
        }[table.scope]
        self._work.describe(table)
        update_rows(table)

    def _build_again(self, table: Table) -> None:
        self._work.put_all(table, self._work.build(table).toArrow())

    def _add_events(self, table: Table) -> None:
        gone, live = self._change.gone, self._work.files(table).live()
        if not len(gone) and table.kinds.isdisjoint(self._change.kinds):
            self._work.commit(table, [], [])
            return
        # What came may have gone since, and what went may have come again from a signed segment.
        events = self._events(self._change.days) if len(gone) else self._came
        new = self._work.build(table, events=events).toArrow()
        if not len(gone) and len(live) < FAN:
            self._work.put(table, [new], removed=())
            return
        old = self._work.stored(table)
        changed = pa.concat_arrays([gone, *new["event_id"].cast(pa.binary()).chunks])
        self._work.put_all(table, old.filter(_is_not_in(old["event_id"], changed)), new)

    def _update_hours(self, table: Table) -> None:
        work, days = self._work, self._change.days
        before, paths = self._now(table), self._paths(table, days)
        if len(self._change.gone):
            hours = work.build(table, events=self._events(days))
        else:
            came = work.frame(self._change.hours, from_arrow_schema(HOURS))
            hours = merged_hours(work.read(table, paths).drop(DAY).unionByName(came).coalesce(1))
        work.put(table, [hours.toArrow()], removed=paths)
        if JournalKind.NODE_STARTED in self._change.kinds:
            self._has_other_nodes = _has_other_nodes(before, self._now(table))

    def _update_by_writer(self, table: Table) -> None:
        """Build the rows of the writers that changed, from events of the days that the hours tell to search.

        What is missing among the events of deleted days stays as it was.
        """
        writers = self._work.frame(pa.table({"writer": self._change.writers}), "writer binary")
        hours = self._work.tables["writer_hours"].join(sf.broadcast(writers), on="writer", how="left_semi")
        old = self._work.stored(table)
        is_kept = _is_not_in(old["writer"], self._change.writers)
        if self._work.retained_from is not None:
            hours = with_deleted_days(hours, self._work.retained_from)
            is_kept = pc.or_(is_kept, _ends_before(old, _deleted_numbers(hours, self._work.retained_from)))
        days = frozenset(str(row[DAY]) for row in days_to_search(hours).collect())
        new = self._work.build(table, events=self._events(days), writer_hours=hours).toArrow()
        if self._work.retained_from is not None:
            new = _with_known_events(new, old)
        self._work.put_all(table, old.filter(is_kept), new)

    def _update_by_message(self, table: Table) -> None:
        if table.name == "messages":
            self._found = update_messages(self._work, table, self._change)
            return
        old, found = self._work.stored(table), self._messages
        events = self._events_of(found, table.states) if table.states else None
        new = self._work.build(table, events=events, messages=found.new).toArrow()
        self._work.put_all(table, old.filter(_is_not_in(old["message_id"], found.ids)), new)

    def _events_of(self, found: ChangedMessages, states: frozenset[State]) -> DataFrame:
        """The events of the changed messages that are in one of these states now."""
        rows = found.new.filter(sf.col("state").isin(*states)).select("message_id").toArrow()
        ids = pc.drop_null(rows["message_id"]).combine_chunks()
        events = events_of_messages(self._work, ids, found.event_days)
        return self._work.frame(events.toArrow(), events.schema)

    def _add_up(self, table: Table) -> None:
        """Take off what the changed messages added before, put on what they add now."""
        work, found = self._work, self._messages
        paths = self._paths(table, found.days)
        before, now = (work.build(table, messages=rows) for rows in (found.old, found.new))
        taken_off = before.withColumns({name: -sf.col(name) for name in table.sums})
        counts = (
            work.read(table, paths)
            .unionByName(now)
            .unionByName(taken_off)
            .coalesce(1)  # few rows, without a shuffle
            .groupBy(*table.key)
            .agg(*(sf.sum(name).alias(name) for name in table.sums))
            .filter(_any(sf.col(name) != 0 for name in table.sums))
        )
        work.put(table, [table.finish(counts).toArrow()], removed=paths)

    def _update_by_hour(self, table: Table) -> None:
        work, found = self._work, self._messages
        hours = found.hours_ms.to_pylist()
        if not hours:
            work.commit(table, [], [])
            return
        messages = TABLES["messages"]
        rows = work.read(messages, self._paths(messages, found.days))
        accepted_at_ms = sf.col("accepted_at_ms")
        in_span = accepted_at_ms.between(min(hours), max(hours) + HOUR_MS)  # for Parquet, which knows no hours
        is_changed = in_span & hour_of(accepted_at_ms).isin(hours)
        new = work.build(table, messages=rows.filter(is_changed)).toArrow()
        old = work.stored(table)
        work.put_all(table, old.filter(_is_not_in(old["hour_ms"], found.hours_ms)), new)

    def _update_replicas(self, table: Table) -> None:
        self._work.under_way["writer_hours"].result()
        if self._has_other_nodes:
            self._build_replicas(table)
        else:
            self._replicas = update_replicas(self._work, table, self._change, lambda: self._messages)

    def _build_replicas(self, table: Table) -> None:
        """Build all rows but those of sealed bytes that have events of deleted days."""
        rows = self._work.build(table, events=self._events())
        if self._work.retained_from is not None:
            closed = self._now(table).filter(sf.col(DAY) < self._work.retained_from)
            hashes = closed.select("payload_hash").distinct()
            rows = rows.join(hashes, on="payload_hash", how="left_anti").select(*closed.columns).unionByName(closed)
        self._work.write(table, rows)

    def _update_copies(self, table: Table) -> None:
        """Keep what is not about changed sealed bytes, add what is, and leave out messages that ended."""
        work = self._work
        work.under_way["replicas"].result()
        changed = self._replicas
        if changed is None:
            self._build_again(table)
            return
        old = work.stored(table)
        kept = work.frame(old.filter(_is_not_in(old["payload_hash"], changed.hashes)), table.schema)
        copies = kept.unionByName(changed.new.select(*old.column_names))
        self._work.put_all(table, work.build(table, replicas=copies).toArrow())

    def _update_withholding(self, table: Table) -> None:
        """Judge again the messages that changed, and those that changed absences are about."""
        work, absences = self._work, self._work.tables["absences"]
        if not any(file.rows for file in work.files(TABLES["absences"]).live().values()):
            work.commit(table, [], self._paths(table))
            return
        missed = owners_of(work, self._change.absent)
        if work.retained_from_ms is not None:
            missed = missed.filter(sf.col("first_event_at_ms") >= work.retained_from_ms)
        missed = work.keep(missed)
        candidates = self._messages.new.unionByName(missed).dropDuplicates(["message_id"])
        about = claimed(candidates, absences).select("message_id").distinct()
        messages = work.keep(candidates.join(about, on="message_id", how="left_semi").select(*candidates.columns))
        signed = messages.select("message_id", sf.inline("confirmed")).select("message_id", utc_day(sf.col("at_ms")))
        rows = signed.distinct().collect()
        ids = pa.array({bytes(row[0]) for row in rows}, pa.binary())
        events = events_of_messages(work, ids, frozenset(str(row[1]) for row in rows))
        new = work.build(table, events=events, messages=messages).toArrow()
        old = work.stored(table)
        judged = pc.or_(
            pc.is_in(old["message_id"], value_set=self._messages.ids),
            pc.is_in(old["message_id"], value_set=missed.select("message_id").toArrow()["message_id"].combine_chunks()),
        )
        self._work.put_all(table, old.filter(pc.invert(judged)), new)

    @property
    def _messages(self) -> ChangedMessages:
        self._work.under_way["messages"].result()
        if self._found is None:
            raise AssertionError("messages are updated before what is made from them")
        return self._found

    @cached_property
    def _came(self) -> DataFrame:
        return read_events(self._work.spark, self._work.lake, self._change.files.came).select(*JOURNAL_COLUMNS)

    def _events(self, days: frozenset[str] | None = None) -> DataFrame:
        """The events of these days, or all."""
        folder = KINDS["events"].folder
        names = (f"{folder}/{path}" for path, file in self._work.live.items() if days is None or file.day in days)
        return read_events(self._work.spark, self._work.lake, names).select(*JOURNAL_COLUMNS)

    def _now(self, table: Table) -> DataFrame:
        return self._work.read(table, self._work.files(table).live())

    def _paths(self, table: Table, days: frozenset[str] = frozenset()) -> list[str]:
        """The live files of a table: of some days if it is divided by day, else all."""
        live = self._work.files(table).live()
        return sorted(path for path, file in live.items() if not table.partition or file.day in days)


def _is_not_in(column: Any, ids: Any) -> Any:
    return pc.invert(pc.is_in(column, value_set=ids))


def _deleted_numbers(hours: DataFrame, retained_from: str) -> dict[bytes, int]:
    """The highest number of each writer that is of a deleted day."""
    rows = hours.filter(sf.col(DAY) < retained_from).select("writer", "highest").collect()
    return {bytes(row["writer"]): row["highest"] for row in rows}


def _ends_before(missing: Any, numbers: dict[bytes, int]) -> Any:
    pairs = zip(missing["writer"].to_pylist(), missing["missing_to"].to_pylist(), strict=True)
    return pa.array([last <= numbers.get(writer, 0) for writer, last in pairs], pa.bool_())


def _with_known_events(missing: Any, before: Any) -> Any:
    """Rows whose event before the gap was deleted keep what was known of it."""
    names = ("last_event", "last_event_at_ms", "last_message_id")
    known = {(row["writer"], row["missing_from"]): row for row in before.to_pylist()}
    rows = missing.to_pylist()
    for row in rows:
        was = known.get((row["writer"], row["missing_from"]))
        if row["last_event"] is None and was is not None:
            row |= {name: was[name] for name in names}
    return pa.Table.from_pylist(rows, schema=missing.schema)


def _any(conditions: Iterable[Column]) -> Column:
    return reduce(lambda one, other: one | other, conditions)


def _has_other_nodes(before: DataFrame, now: DataFrame) -> bool:
    """Whether a writer that had events already turned out to be another node than it was."""
    were = before.select("writer").distinct().join(node_writers(before), on="writer", how="left")
    are = node_writers(now).withColumnRenamed("node", "is_node")
    return not were.join(are, on="writer", how="left").filter("not (node <=> is_node)").isEmpty()

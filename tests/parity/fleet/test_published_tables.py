"""Every table of a lake is published; Spark, DuckDB, Polars and the lake's own SQL read the same rows from each."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from restante.fleet.jobs.backfill import backfill
from restante.fleet.jobs.fleet_report import make_fleet_report
from restante.fleet.jobs.publication import open_derived, read_derived
from restante.fleet.jobs.report_input import look_at, source_of
from restante.fleet.lake.file_systems import LocalFolder
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.measures import read_measures
from restante.fleet.lake.query import query, summaries
from restante.fleet.lake.reading import read_live
from restante.fleet.lake.segment_discovery import found_in
from restante.fleet.lake.segments import Segment
from restante.fleet.lake.upkeep import compact, forget, retain
from restante.fleet.stream.state_tables import KINDS
from restante.fleet.tables.definitions import TABLES
from restante.model.errors import Malformed, RestanteError
from restante.model.fleet_alerts import AlertKind, alerts
from restante.model.fleet_report import FleetReport
from restante.model.ids import SessionTag
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from restante.model.provenance import SegmentClaim
from restante.policy.settings import Settings
from support.fleet.journal_files import Journal, message, node_id, records, sealed, write_segment, writer
from support.spec.clauses import clause

NOON_MS = 1_767_614_400_000
DAY_MS = 86_400_000
SETTINGS = Settings()
EMPTY = {
    *("unaccounted", "likely_affected", "absences", "withholding"),  # nothing is wrong enough for these
    *("clock_offsets", "clock_skew"),  # no recipient journals a release
    *("in_flight", "copies_in_flight"),  # every message has ended
}
SENDER, NODE, RECIPIENT = writer(1), writer(3), writer(2)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Deliveries over three days at one node, a message that died, an event that never came, a row that is none."""
    made = Lake(str(tmp_path_factory.mktemp("published") / "lake"))
    ship(made.local_segments)
    found = found_in(made.segments)
    folder = LocalFolder(made.local_segments)
    signed = [
        replace(segment, claim=claim_of(segment), mark=folder.mark(segment.path.name)) for segment in found.segments
    ]
    backfill(spark, made, SETTINGS, signed, found.bad, listing=found.listing, now_ms=NOON_MS + 9 * DAY_MS)
    return made


def claim_of(segment: Segment) -> SegmentClaim:
    """As if an enrolled key had signed it."""
    name = segment.path.name
    return SegmentClaim(segment=name, writer=name, first=1, last=segment.rows, digest=name, previous=None, key="k")


def ship(put: Path) -> None:
    put.mkdir(parents=True)
    sender, node, recipient = Journal(SENDER), Journal(NODE), Journal(RECIPIENT)
    node.write(JournalKind.NODE_STARTED, None, NOON_MS, node=node_id(1))
    for number in range(9):
        at_ms = NOON_MS + number * DAY_MS // 3
        sender.write(JournalKind.ACCEPTED, message(number), at_ms, message_kind=Kind.TEXT, payload_hash=sealed(number))
        sender.write(JournalKind.ATTEMPTED, message(number), at_ms + 1, attempt=1)
        sender.write(JournalKind.DELIVERY_CONFIRMED, message(number), at_ms + 5, node=node_id(1))
        node.write(JournalKind.STORED, None, at_ms + 4, payload_hash=sealed(number), size_bytes=9, ttl_s=86_400)
        recipient.write(
            JournalKind.ARRIVED,
            message(number),
            at_ms + 10,
            session_tag=SessionTag(bytes(16)),
            sequence=number,
            payload_hash=sealed(number),
            code="new",
        )
        kind = JournalKind.DEAD_LETTERED if number == 4 else JournalKind.DELIVERED
        sender.write(kind, message(number), at_ms + 20, code="E003" if number == 4 else None)
    recipient.write(JournalKind.GAP_SKIPPED, None, NOON_MS, session_tag=SessionTag(bytes(16)), sequence=3)
    recipient.write(JournalKind.SECURITY, None, NOON_MS, code="replay")
    recipient.write(JournalKind.SESSION_CHANGED, None, NOON_MS, session_tag=SessionTag(bytes(16)))
    for journal in (sender, node, recipient):
        rows = records(journal.rows)
        kept = [*rows[:5], *rows[6:]] if journal is sender else rows
        write_segment(put / f"{journal.writer.hex()}.parquet", kept)
    write_segment(put / "odd.parquet", [{**records(node.rows)[0], "kind": "sneezed", "writer": writer(7)}])


def plain(rows: Iterable[Any]) -> Counter[tuple[tuple[str, str], ...]]:
    """Rows that can be compared, whichever engine they are from."""
    return Counter(tuple(sorted((name, _text(value)) for name, value in row.items())) for row in rows)


def _text(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, dict):
        return str(sorted((name, _text(one)) for name, one in value.items()))
    if isinstance(value, list):
        return str([_text(one) for one in value])
    if isinstance(value, float | Decimal):
        return f"{float(value):.9g}"
    return str(value)


@clause("13.3")
@pytest.mark.parametrize("name", TABLES)
def test_spark_duckdb_polars_and_sql_read_the_same_rows_of_every_published_table(
    spark: SparkSession, lake: Lake, name: str
) -> None:
    path = lake.table(name)
    table = TABLES[name]
    frame = (
        read_live(spark, lake, name) if name in KINDS else read_derived(spark, lake, table, open_derived(lake, table))
    )
    by_spark = plain(row.asDict(recursive=True) for row in frame.collect())
    dataset = DeltaTable(path).to_pyarrow_dataset()
    by_duckdb = plain(duckdb.from_arrow(dataset).to_arrow_table().to_pylist())
    by_polars = plain(pl.scan_delta(path).collect().to_dicts())
    by_sql = plain(query(lake, f'select * from "{name}"').to_pylist())  # noqa: S608 - a name of ours
    assert by_spark == by_duckdb == by_polars == by_sql
    assert bool(by_spark) is (name not in EMPTY)


def reported(spark: SparkSession, lake: Lake, *, with_tables: bool) -> FleetReport:
    source = source_of(spark, look_at(lake.root))
    assert source.tables is not None
    return make_fleet_report(
        spark,
        source.segments,
        source.bad,
        now_ms=NOON_MS + 9 * DAY_MS,
        retention=SETTINGS.dead_letters,
        rows=source.rows,
        tables=source.tables if with_tables else None,
    )


@clause("13.4")
def test_a_report_from_the_published_tables_is_that_of_the_events(spark: SparkSession, lake: Lake) -> None:
    found = reported(spark, lake, with_tables=True)
    assert found == reported(spark, lake, with_tables=False)
    assert found.security == (("replay", 1), ("session_changed", 1))


def test_a_report_as_of_a_day_counts_only_events_until_then(spark: SparkSession, lake: Lake) -> None:
    source = source_of(spark, look_at(lake.root))
    past = make_fleet_report(
        spark,
        source.segments,
        source.bad,
        now_ms=NOON_MS + DAY_MS // 2 - 1,
        retention=SETTINGS.dead_letters,
        rows=source.rows,
        tables=source.tables,
        is_past=True,
    )
    assert [(one.day, one.accepted, one.delivered) for one in past.conservation.days] == [(date(2026, 1, 5), 2, 2)]


def test_a_query_that_is_none_and_a_lake_without_tables_are_named(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="the query failed"):
        query(lake, "select nothing from nowhere")
    with pytest.raises(RestanteError, match="has no tables"):
        summaries(Lake(str(tmp_path)))


@clause("13.4", "13.5")
def test_alerts_are_read_from_the_published_tables(lake: Lake) -> None:
    measures = read_measures(lake, now_ms=NOON_MS + 2 * DAY_MS)
    assert measures.missing_events == ((SENDER.hex(), 1),)
    assert (measures.accepted, measures.delivered, measures.ended) == (9, 8, 9)
    found = {(alert.kind, alert.subject) for alert in alerts(measures)}
    assert found >= {(AlertKind.MISSING_EVENTS, SENDER.hex()), (AlertKind.ERROR_BUDGET, "delivery rate")}


@clause("13.3")
def test_a_writer_is_erased_from_every_byte_below_the_lake_and_older_days_go(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path / "lake"))
    ship(lake.local_segments)
    found = found_in(lake.segments)
    backfill(spark, lake, SETTINGS, found.segments, found.bad, now_ms=NOON_MS)
    compact(lake)
    assert {one.table: one.rows_deleted for one in forget(lake, SENDER)}["events"] == 35
    for path in Path(lake.root).rglob("*"):
        raw = path.read_bytes() if path.is_file() else b""
        assert bytes(SENDER) not in raw, path
        assert SENDER.hex().encode() not in raw, path
    assert query(lake, "select count(*) as n from events").to_pylist() == [{"n": 22}]
    retain(lake, days=1, today="2026-01-08")
    assert query(lake, "select min(day) as day from arrivals").to_pylist() == [{"day": date(2026, 1, 7)}]

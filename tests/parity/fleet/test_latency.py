"""Percentiles against numbers worked out by hand: rank p * (n - 1), straight between neighbours."""

from datetime import date

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from restante.fleet.transforms.latency import latency, latency_days
from restante.fleet.transforms.rounded_times import rounded
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from support.fleet.dataframes import tables_of
from support.fleet.journal_files import Journal, message, writer
from support.spec.clauses import clause

NOON_MS = 1_767_614_400_000
YEAR_MS = 365 * 86_400_000
DAY = date(2026, 1, 5)

TABLE = "day date, message_kind string, delivery_latency_ms long, release_latency_ms long, inconsistency string"


def test_percentiles_are_exact_for_each_kind_and_for_all(spark: SparkSession) -> None:
    rows = [
        ("text", 40, None, None),
        ("text", 10, -3, None),
        ("text", 30, None, None),
        ("text", 20, 7, None),
        ("media", 100, None, None),
        (None, None, None, None),
        ("text", 1_000_000, 1_000_000, "changed_after_end"),
    ]
    found = (
        latency(latency_days(spark.createDataFrame([(DAY, *row) for row in rows], TABLE)))
        .orderBy("span", "is_total", "message_kind")
        .collect()
    )
    columns = ("span", "message_kind", "is_total", "messages", "max_ms")
    assert [tuple(row[name] for name in columns) for row in found] == [
        ("accepted_to_delivered", "media", False, 1, 100),
        ("accepted_to_delivered", "text", False, 4, 40),
        ("accepted_to_delivered", None, True, 5, 100),
        ("accepted_to_released", "text", False, 2, 7),
        ("accepted_to_released", None, True, 2, 7),
    ]
    percentiles = [round(row[name], 6) for row in found for name in ("p50_ms", "p90_ms", "p99_ms")]
    assert percentiles == [100, 100, 100, 25, 37, 39.7, 30, 76, 97.6, 2, 6, 6.9, 2, 6, 6.9]


@clause("13.3")
def test_rounded_times_are_exact_below_half_a_second_and_within_half_a_percent_above(spark: SparkSession) -> None:
    edges = [2**bits + step for bits in range(36) for step in (-1, 0, 1)]
    times = sorted({sign * edge for edge in edges for sign in (1, -1)} | set(range(-600, 600)))
    found = spark.createDataFrame([(time,) for time in times], "ms long").select(
        "ms", rounded(sf.col("ms")).alias("to")
    )
    for row in found.collect():
        error = abs(row["ms"] - row["to"])
        assert error == 0 if abs(row["ms"]) < 512 else error * 256 < abs(row["ms"])
        assert abs(row["to"]) <= abs(row["ms"])


def test_nothing_delivered_gives_no_rows(spark: SparkSession) -> None:
    assert latency(latency_days(spark.createDataFrame([(DAY, "text", None, None, None)], TABLE))).collect() == []


@clause("13.4")
def test_a_writer_whose_clock_is_years_off_is_named_and_left_out_of_latencies(spark: SparkSession) -> None:
    """A sender writes to three recipients, one of whom lives ten years ago."""
    sender = Journal(writer(1))
    recipients = [Journal(writer(number)) for number in (2, 3, 4)]
    for number in range(6):
        recipient, at_ms = recipients[number % 3], NOON_MS + number * 1_000
        sender.write(JournalKind.ACCEPTED, message(number), at_ms, message_kind=Kind.TEXT)
        off_ms = -10 * YEAR_MS if recipient is recipients[2] else 0
        recipient.write(JournalKind.RELEASED, message(number), at_ms + off_ms + 200)
    with tables_of(spark, sender, *recipients, now_ms=NOON_MS) as tables:
        [row] = tables["clock_skew"].collect()
        assert (bytes(row["writer"]), row["messages"], row["impossible"]) == (writer(4), 2, 2)
        assert row["offset_ms"] == -10 * YEAR_MS + 200
        [total] = tables["latency"].filter("is_total").collect()
        assert (total["messages"], total["p50_ms"]) == (4, 200)

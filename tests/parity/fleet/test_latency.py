"""Percentiles against numbers worked out by hand: rank p * (n - 1), straight between neighbours."""

from pyspark.sql import SparkSession

from restante.fleet.transforms.latency import latency

TABLE = "message_kind string, delivery_latency_ms long, release_latency_ms long, inconsistency string"


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
    found = latency(spark.createDataFrame(rows, TABLE)).orderBy("span", "is_total", "message_kind").collect()
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


def test_nothing_delivered_gives_no_rows(spark: SparkSession) -> None:
    assert latency(spark.createDataFrame([("text", None, None, None)], TABLE)).collect() == []

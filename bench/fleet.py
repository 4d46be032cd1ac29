"""The table of arrivals, Parquet to Parquet, on two cores: ours against Spark SQL windows, DuckDB and Polars.

`python -m bench.fleet [--rows N] [--full]`. All four read the same segments (100 arrivals a session, 1 % repeats, 2 %
out of order) and write the same table; that it is the same is checked, row for row. The peers' queries know only what
this data needs: no gaps given up, no numbers used twice, no resets. Ours is the kernel of the product, which knows all.
"""

import argparse
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

CORES = 2
os.environ["POLARS_MAX_THREADS"] = str(CORES)  # read when polars is imported

import duckdb  # noqa: E402 - after the line above
import polars as pl  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

from bench.measure import Measured, ratio_line, take_turns  # noqa: E402
from restante.fleet.jobs.backfill import backfill  # noqa: E402
from restante.fleet.jobs.generate import generate  # noqa: E402
from restante.fleet.lake import Lake  # noqa: E402
from restante.fleet.lake_tables import WRITE_OPTIONS  # noqa: E402
from restante.fleet.segments import find_segments, read_segments  # noqa: E402
from restante.fleet.session import open_session  # noqa: E402
from restante.fleet.transforms.arrivals import arrivals, partitions_for  # noqa: E402
from restante.fleet.transforms.synthetic import Scenario  # noqa: E402
from restante.policy.settings import Settings  # noqa: E402

SETTINGS = Settings()
ROWS_PER_SESSION = 100
MANY_ROWS = 5_000_000  # from here on, one round tells enough
COLUMNS = "event_id, session_tag, at_ms, sequence, message_id, verdict, recorded, placement, expected, released"
DIFFERENCE = "select count(*) from (({one}) except all ({other}))"
BARS = {"DuckDB": 0.7, "Polars": 0.35, "Spark SQL windows": 1.8}

WINDOWS = """
with copies as (
  select event_id, session_tag, at_ms, sequence, message_id, payload_hash, code,
    row_number() over (partition by session_tag, message_id order by event_id) as copy,
    first_value(payload_hash) over (partition by session_tag, message_id order by event_id) as first_payload
  from {facts} where kind = 'arrived'),
leaders as (
  select event_id, session_tag, max(event_id) over (partition by session_tag order by sequence) as released_by
  from copies where copy = 1),
counts as (select released_by as event_id, count(*) as released from leaders group by released_by)
select copies.event_id, copies.session_tag, at_ms, sequence, message_id,
  case when copy = 1 then 'new' when payload_hash = first_payload then 'duplicate' else 'collision' end as verdict,
  code as recorded,
  case when released_by = copies.event_id then 'released' when released_by is not null then 'held' end as placement,
  sum(coalesce(released, 0)) over (partition by copies.session_tag order by copies.event_id) as expected,
  coalesce(released, 0) as released
from copies
  left join leaders on leaders.event_id = copies.event_id
  left join counts on counts.event_id = copies.event_id
"""


def ours(spark: SparkSession, lake: Lake, rows: int, out: Path) -> None:
    segments, _ = find_segments(lake.local_segments)
    partitions = partitions_for(rows, at_least=CORES)
    table = arrivals(read_segments(spark, segments), partitions=partitions, order=SETTINGS.order, dedup=SETTINGS.dedup)
    table.write.options(**WRITE_OPTIONS).parquet(str(out))


def by_spark_windows(spark: SparkSession, lake: Lake, out: Path) -> None:
    spark.read.parquet(lake.segments).createOrReplaceTempView("facts")
    spark.sql(WINDOWS.format(facts="facts")).write.option("compression", "zstd").parquet(str(out))


def by_duckdb(lake: Lake, out: Path) -> None:
    out.mkdir()
    with duckdb.connect() as connection:
        connection.execute(f"set threads = {CORES}")
        query = WINDOWS.format(facts=f"read_parquet('{lake.segments}/*.parquet')")
        connection.execute(f"copy ({query}) to '{out}/table.parquet' (format parquet, compression zstd)")


def by_polars(lake: Lake, out: Path) -> None:
    out.mkdir()
    number = pl.col("event_id").bin.tail(8).bin.reinterpret(dtype=pl.UInt64, endianness="big")
    names = ["event_id", "session_tag", "at_ms", "sequence", "message_id", "payload_hash", "code"]
    copies = (
        pl.scan_parquet(f"{lake.segments}/*.parquet")
        .filter(pl.col("kind") == "arrived")
        .select(*names, number.alias("number"))
        .sort("session_tag", "number")
        .with_columns(
            (pl.col("number") == pl.col("number").first().over("session_tag", "message_id")).alias("is_first"),
            pl.col("payload_hash").first().over("session_tag", "message_id").alias("first_payload"),
        )
    )
    leaders = (
        copies.filter("is_first")
        .select("session_tag", "number", "sequence")
        .sort("session_tag", "sequence")
        .with_columns(pl.col("number").cum_max().over("session_tag").alias("released_by"))
        .select("session_tag", "number", "released_by")
    )
    counts = leaders.group_by("session_tag", "released_by").len("released")
    word = (
        pl.when("is_first")
        .then(pl.lit("new"))
        .when(pl.col("payload_hash") == pl.col("first_payload"))
        .then(pl.lit("duplicate"))
        .otherwise(pl.lit("collision"))
    )
    place = (
        pl.when(pl.col("released_by") == pl.col("number"))
        .then(pl.lit("released"))
        .when(pl.col("released_by").is_not_null())
        .then(pl.lit("held"))
    )
    released = pl.col("released").fill_null(0).cast(pl.Int64)
    (
        copies.join(leaders, on=["session_tag", "number"], how="left", maintain_order="left")
        .join(
            counts,
            left_on=["session_tag", "number"],
            right_on=["session_tag", "released_by"],
            how="left",
            maintain_order="left",
        )
        .select(
            "event_id",
            "session_tag",
            "at_ms",
            "sequence",
            "message_id",
            word.alias("verdict"),
            pl.col("code").alias("recorded"),
            place.alias("placement"),
            released.cum_sum().over("session_tag").alias("expected"),
            released.alias("released"),
        )
        .sink_parquet(out / "table.parquet", compression="zstd")
    )


def check_equal(outs: dict[str, Path]) -> None:
    """Every peer's table has the rows of ours and no others."""
    with duckdb.connect() as connection:
        mine = _rows_in(outs["ours"])
        for name, out in outs.items():
            theirs = _rows_in(out)
            for one, other in ((mine, theirs), (theirs, mine)):
                found = connection.execute(DIFFERENCE.format(one=one, other=other)).fetchone()
                assert found == (0,), f"{name} gives another table: {found} rows differ"


def _rows_in(out: Path) -> str:
    return f"from read_parquet('{out}/*.parquet') select {COLUMNS}"


def measure(spark: SparkSession, lake: Lake, home: Path, rows: int) -> dict[str, Measured]:
    outs = {name: home / name.replace(" ", "-") for name in ("ours", *BARS)}

    def contender(name: str, work: Callable[[Path], None]) -> Callable[[], int]:
        def run() -> int:
            shutil.rmtree(outs[name], ignore_errors=True)
            work(outs[name])
            return rows

        return run

    contenders = {
        "ours": contender("ours", lambda out: ours(spark, lake, rows, out)),
        "DuckDB": contender("DuckDB", lambda out: by_duckdb(lake, out)),
        "Polars": contender("Polars", lambda out: by_polars(lake, out)),
        "Spark SQL windows": contender("Spark SQL windows", lambda out: by_spark_windows(spark, lake, out)),
    }
    if rows < MANY_ROWS:
        contenders["ours"]()  # Java is slow until it is warm; with many rows that does not matter
    found = take_turns(contenders, rounds=3 if rows < MANY_ROWS else 1)
    check_equal(outs)
    return found


def report(spark: SparkSession, rows: int, home: Path) -> None:
    lake = Lake(str(home / "lake"))
    messages = round(rows / 1.01)
    scenario = Scenario(messages=messages, sessions=max(1, messages // ROWS_PER_SESSION))
    generate(spark, lake, scenario, only_arrivals=True)
    segments, bad = find_segments(lake.local_segments)
    exactly = sum(segment.rows for segment in segments)
    print(f"{exactly:,} arrivals, {scenario.sessions:,} sessions, {CORES} cores, load {os.getloadavg()[0]:.1f}")
    found = measure(spark, lake, home, exactly)
    for name, bar in BARS.items():
        ratio = found["ours"].per_second / found[name].per_second
        print(f"{ratio_line(found['ours'], found[name])}   bar {bar}: {'met' if ratio >= bar else 'MISSED'}")
    start = time.perf_counter()
    backfill(spark, lake, SETTINGS, segments, bad)
    took_s = time.perf_counter() - start
    print(f"  whole backfill, validate to arrivals {exactly / took_s:>9,.0f}/s in {took_s:,.0f} s")
    print(f"  load {os.getloadavg()[0]:.1f}; largest process {_peak_mb():,} MB")


def _peak_mb() -> int:
    usage = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return max(usage) // 1_024


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The fleet's arrivals against DuckDB, Polars and Spark SQL.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--full", action="store_true", help="1, 10 and 100 million rows")
    given = parser.parse_args(arguments)
    for rows in (1_000_000, 10_000_000, 100_000_000) if given.full else (given.rows,):
        with (
            tempfile.TemporaryDirectory(prefix="restante-bench-") as made,
            open_session(app_name="restante bench", master=f"local[{CORES}]") as spark,
        ):
            report(spark, rows, Path(made))


if __name__ == "__main__":
    main()

"""The table of arrivals by others: DuckDB, Polars and Spark's own windows, each with a query written for it.

They know only what the benchmark's data needs: no gaps given up, no numbers used twice, no state kept for later; the
columns for these are there, and empty. Of several ways to ask, the fastest on the data of `bench/fleet.py` is here; all
were checked to give equal rows. `python -m bench.fleet_baselines duckdb|polars SEGMENTS CORES` runs one of them for
each directory that it reads from its input, and prints its seconds and its memory.
"""

import json
import sys
import time
from pathlib import Path

import duckdb
import polars as pl
from pyspark.sql import SparkSession

from bench.process_memory import PeakMemory

_COLUMNS = """event_id, session_tag, at_ms, event, sequence, message_id, verdict, recipient_verdict, placement,
  next_expected::bigint as next_expected, released::bigint as released, gaps"""
_DUCKDB_GAPS = "struct(first bigint, last bigint, retransmit_requested boolean)[]"
_SPARK_GAPS = "array<struct<first: bigint, last: bigint, retransmit_requested: boolean>>"
_POLARS_GAPS = pl.List(pl.Struct({"first": pl.Int64, "last": pl.Int64, "retransmit_requested": pl.Boolean}))
_SUM = "with rows as (from ({table})) select count(*), sum(hash(rows)::hugeint) from rows"
_MISSING = "select count(*) from (({one}) except all ({other}))"

_FACTS = """select event_id, session_tag, at_ms, sequence, message_id, payload_hash, code,
  message_kind is not distinct from 'control' as is_control
  from {source} where kind = 'arrived'"""
_WORDS = """case when is_control then 'control_arrived' else 'arrived' end as event, sequence, message_id,
  case when is_first then 'new' when payload_hash = first_payload then 'duplicate' else 'collision' end as verdict,
  code as recipient_verdict,
  case when is_first and is_control then 'placeholder' when released_by = event_id then 'released'
    when released_by is not null then 'held' end as placement"""

GROUPS_AND_WINDOWS = """
with facts as ({facts}),
repeats as (
  select session_tag, message_id, min(event_id) as first_id, arg_min(payload_hash, event_id) as first_payload
  from facts group by all having count(*) > 1),
copies as (
  select facts.*, first_id is null or first_id = event_id as is_first, first_payload
  from facts left join repeats using (session_tag, message_id)),
placed as (
  select *, case when is_first then max(event_id) over (partition by session_tag, is_first order by sequence) end
    as released_by
  from copies),
counts as (
  select released_by as event_id, count(*) as several, count(*) filter (not is_control) as shown from placed
  where released_by is not null group by released_by having count(*) > 1),
r as (
  select placed.*, case when released_by = placed.event_id then coalesce(several, 1) else 0 end as passed,
    case when released_by = placed.event_id then coalesce(shown, (not is_control)::bigint) else 0 end as released
  from placed left join counts on counts.event_id = placed.event_id)
select event_id, session_tag, at_ms, {words},
  sum(passed) over (partition by session_tag order by event_id) as next_expected, released,
  cast(null as {gaps}) as gaps
from r
"""

WINDOWS_ALONE = """
with facts as ({facts} distribute by session_tag),
copies as (
  select *, row_number() over same = 1 as is_first, first_value(payload_hash) over same as first_payload
  from facts window same as (partition by session_tag, message_id order by event_id)),
placed as (
  select *, case when is_first then max(event_id) over (partition by session_tag, is_first order by sequence) end
    as released_by
  from copies),
r as (
  select *, case when released_by = event_id then count(*) over together else 0 end as passed,
    case when released_by = event_id then count_if(not is_control) over together else 0 end as released
  from placed window together as (partition by session_tag, released_by))
select event_id, session_tag, at_ms, {words},
  sum(passed) over (partition by session_tag order by event_id) as next_expected, released,
  cast(null as {gaps}) as gaps
from r
"""


def by_duckdb(segments: str, out: Path, *, cores: int) -> None:
    out.mkdir()
    facts = _FACTS.format(source=f"read_parquet('{segments}/*.parquet')")
    query = GROUPS_AND_WINDOWS.format(facts=facts, words=_WORDS, gaps=_DUCKDB_GAPS)
    with duckdb.connect() as connection:
        connection.execute(f"set threads = {cores}")
        connection.execute("set preserve_insertion_order = false")
        connection.execute(f"copy ({query}) to '{out}/table.parquet' (format parquet, compression zstd)")


def by_spark_windows(spark: SparkSession, segments: str, out: Path) -> None:
    spark.read.parquet(segments).createOrReplaceTempView("facts_of_segments")
    facts = _FACTS.format(source="facts_of_segments")
    query = WINDOWS_ALONE.format(facts=facts, words=_WORDS, gaps=_SPARK_GAPS)
    spark.sql(query).write.option("compression", "zstd").parquet(str(out))


def by_polars(segments: str, out: Path) -> None:
    """Ids are compared as whole numbers. How many threads: POLARS_MAX_THREADS, read when polars is imported."""
    out.mkdir()
    copies = _copies(segments)
    # Rows of a later session are higher than all of an earlier one: one running maximum serves all.
    leaders = (
        copies.filter("is_first")
        .select("row", "session", "sequence", "is_control")
        .sort("session", "sequence")
        .select("row", "is_control", released_by=pl.col("row").cum_max())
    )
    counts = (
        leaders.group_by("released_by")
        .agg(pl.len().alias("several"), pl.col("is_control").not_().sum().alias("shown"))
        .rename({"released_by": "row"})
    )
    verdict = (
        pl.when("is_first")
        .then(pl.lit("new"))
        .when(pl.col("payload_hash") == pl.col("first_payload"))
        .then(pl.lit("duplicate"))
        .otherwise(pl.lit("collision"))
    )
    placement = (
        pl.when(pl.col("is_first") & pl.col("is_control"))
        .then(pl.lit("placeholder"))
        .when(pl.col("released_by") == pl.col("row"))
        .then(pl.lit("released"))
        .when(pl.col("released_by").is_not_null())
        .then(pl.lit("held"))
    )
    event = pl.when("is_control").then(pl.lit("control_arrived")).otherwise(pl.lit("arrived"))
    passed, released = (pl.col(name).fill_null(0).cast(pl.Int64) for name in ("several", "shown"))
    (
        copies.join(leaders.drop("is_control"), on="row", how="left", maintain_order="left")
        .join(counts, on="row", how="left", maintain_order="left")
        .select(
            "event_id",
            "session_tag",
            "at_ms",
            event.alias("event"),
            "sequence",
            "message_id",
            verdict.alias("verdict"),
            pl.col("code").alias("recipient_verdict"),
            placement.alias("placement"),
            passed.cum_sum().over("session").alias("next_expected"),
            released.alias("released"),
            pl.lit(None, dtype=_POLARS_GAPS).alias("gaps"),
        )
        .sink_parquet(out / "table.parquet", compression="zstd")
    )


def _copies(segments: str) -> pl.LazyFrame:
    """The arrivals by session and number, each with whether it is the first of its message."""
    names = ["event_id", "session_tag", "at_ms", "sequence", "message_id", "payload_hash", "code"]
    words = {"number": ("event_id", 8), "tag_0": ("session_tag", 0), "tag_1": ("session_tag", 8)}
    words |= {"message_0": ("message_id", 0), "message_1": ("message_id", 8)}
    rows = (
        pl.scan_parquet(f"{segments}/*.parquet")
        .filter(pl.col("kind") == "arrived")
        .select(
            *names,
            is_control=pl.col("message_kind").eq_missing("control"),
            **{name: _word(*place) for name, place in words.items()},
        )
        .sort("tag_0", "tag_1", "number")
        .with_columns(session=pl.struct("tag_0", "tag_1").rle_id())
        .with_row_index("row")
    )
    message = ["session", "message_0", "message_1"]
    repeats = (
        rows.group_by(message)
        .agg(
            pl.len().alias("copies"),
            pl.col("row").min().alias("first"),
            pl.col("payload_hash").sort_by("row").first().alias("first_payload"),
        )
        .filter(pl.col("copies") > 1)
        .drop("copies")
    )
    return rows.join(repeats, on=message, how="left", maintain_order="left").with_columns(
        is_first=pl.col("first").is_null() | (pl.col("first") == pl.col("row"))
    )


def _word(column: str, offset: int) -> pl.Expr:
    return pl.col(column).bin.slice(offset, 8).bin.reinterpret(dtype=pl.UInt64, endianness="big")


def differing_rows(one: Path, other: Path, *, cores: int) -> int:
    """How many rows one table has that the other lacks, and the other way round.

    Tables with as many rows and the same sum of hashes of them are the same; only others are compared row by row.
    """
    tables = [f"select {_COLUMNS} from read_parquet('{table}/*.parquet')" for table in (one, other)]  # noqa: S608 - ours
    with duckdb.connect() as connection:
        connection.execute(f"set threads = {cores}")
        sums = [connection.execute(_SUM.format(table=table)).fetchone() for table in tables]
        if sums[0] == sums[1]:
            return 0
        counts = (
            connection.execute(_MISSING.format(one=first, other=second)).fetchone()
            for first, second in (tables, reversed(tables))
        )
        return sum(found[0] for found in counts if found is not None)


def main(peer: str, segments: str, cores: str) -> None:
    for line in sys.stdin:
        out = Path(line.rstrip("\n"))
        with PeakMemory() as memory:
            began = time.perf_counter()
            if peer == "duckdb":
                by_duckdb(segments, out, cores=int(cores))
            else:
                by_polars(segments, out)
            seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "peak_mb": memory.peak_mb}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

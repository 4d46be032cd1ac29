"""One lake with everything that can be wrong with segments: its tables are those of a lake where nothing is wrong."""

from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import Row, SparkSession

from restante.fleet.jobs.backfill import Backfilled, backfill
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.reading import read_live
from restante.fleet.lake.segments import find_segments
from restante.model.ids import PayloadHash, SessionTag
from restante.model.journal import JournalKind
from restante.policy.settings import Settings
from restante.wire.segment_manifest import Manifest, encode_manifest, manifest_name
from support.fleet.journal_files import SEGMENT, Journal, Record, message, records, write_segment, writer
from support.spec.clauses import clause

NOON_MS = 1_767_614_400_000
HOUR_MS = 3_600_000
ARRIVALS = 40


def recipient(number: int, *, clock_off_ms: int) -> list[Record]:
    """A session's arrivals, some out of order, by a clock that is off; half-way somebody sets it right."""
    journal = Journal(writer(number))
    order = [sequence ^ (sequence % 4 >= 2) for sequence in range(ARRIVALS)]  # 2 after 3, 6 after 7
    for place, sequence in enumerate(order):
        off_ms = clock_off_ms if place < ARRIVALS // 2 else 0
        journal.write(
            JournalKind.ARRIVED,
            message(1_000 * number + sequence),
            NOON_MS + off_ms + place,
            session_tag=SessionTag(bytes([number]) * 16),
            sequence=sequence,
            payload_hash=PayloadHash(number.to_bytes(2, "big") * 15 + sequence.to_bytes(2, "big")),
            code="new",
        )
    return records(journal.rows)


@dataclass(frozen=True, slots=True)
class Tables:
    done: Backfilled
    events: list[Row]
    files: list[str]
    arrivals: list[Row]
    quarantine: set[tuple[str, str]]


def filled(spark: SparkSession, lake: Lake) -> Tables:
    done = backfill(spark, lake, Settings(), *find_segments(lake.local_segments), is_published=False)
    found, arrivals = (read_live(spark, lake, name).orderBy("event_id") for name in ("events", "arrivals"))
    files = [row["source_file"] for row in found.select("source_file").collect()]
    odd = read_live(spark, lake, "quarantine").select("source_file", "reason").collect()
    events = found.drop("source_file").collect()
    return Tables(done, events, files, arrivals.collect(), {(row["source_file"], row["reason"]) for row in odd})


def lake_in(directory: Path) -> Lake:
    made = Lake(str(directory))
    made.local_segments.mkdir(parents=True)
    return made


def spoil(put: Path, rows: list[Record]) -> dict[str, str]:
    """Copies of facts that are in good files, too, each wrong in its own way; what each is to be named for."""
    table = pa.Table.from_pylist(rows, schema=SEGMENT)
    whole = write_segment(put / "whole.parquet", rows, write_page_checksum=True)
    raw = whole.read_bytes()
    (put / "cut.parquet").write_bytes(raw[:-9])
    (put / "nothing.parquet").touch()
    at = parquet.read_metadata(whole).row_group(0).column(0)
    flipped = bytearray(raw)
    flipped[at.data_page_offset + at.total_compressed_size // 2] ^= 1
    (put / "flipped.parquet").write_bytes(flipped)
    newer = table.replace_schema_metadata({"restante.schema_version": "2"})
    parquet.write_table(newer, put / "newer.parquet")
    parquet.write_table(table.set_column(1, "at_ms", table["at_ms"].cast(pa.string())), put / "texts.parquet")
    parquet.write_table(table.drop_columns(["writer"]), put / "less.parquet")
    (put / "promised.parquet").write_bytes(raw)
    manifest = Manifest(
        segment="promised.parquet",
        writer="00" * 16,
        first=1,
        last=99,
        rows=99,
        size_bytes=len(raw),
        schema_version=1,
        sha256="0" * 64,
    )
    (put / manifest_name("promised.parquet")).write_bytes(encode_manifest(manifest))
    other_bytes = replace(manifest, segment="swapped.parquet", rows=len(rows), last=len(rows))
    (put / "swapped.parquet").write_bytes(raw)
    (put / manifest_name("swapped.parquet")).write_bytes(encode_manifest(other_bytes))
    return {
        "cut.parquet": "not a whole Parquet file",
        "nothing.parquet": "not a whole Parquet file",
        "flipped.parquet": f"damaged: 0 of {len(rows)} rows could be read",
        "newer.parquet": "schema version 2, and this reads version 1",
        "texts.parquet": "at_ms: the column must be int64",
        "less.parquet": "writer: the column is missing",
        "promised.parquet": f"{len(rows)} rows, and its manifest says 99",
        "swapped.parquet": "its hash is not the one its manifest says",
    }


@clause("13.2", "13.9")
def test_nothing_is_lost_nothing_doubled_and_each_oddity_named_with_file_and_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    people = [recipient(1, clock_off_ms=-HOUR_MS), recipient(2, clock_off_ms=HOUR_MS)]
    facts = [row for rows in people for row in rows]
    clean, odd = lake_in(tmp_path / "clean"), lake_in(tmp_path / "odd")
    write_segment(clean.local_segments / "all.parquet", facts)
    put = odd.local_segments
    for number, rows in enumerate(people):
        write_segment(put / f"z-{number}.parquet", rows[:15])  # the first facts come last by name, and twice
        write_segment(put / f"a-{number}.parquet", rows[25:])
        write_segment(put / f"m-{number}.parquet", rows[10:30])
    write_segment(put / "empty.parquet", [])
    write_segment(put / "unknown.parquet", [{**facts[0], "kind": "sneezed"}, {**facts[1], "at_ms": -1}])
    named = spoil(put, people[0])
    expected, got = filled(spark, clean), filled(spark, odd)
    assert got.events == expected.events
    # Of the good files that have an event, the first by name is said to be its source.
    assert got.files[:ARRIVALS] == ["whole.parquet"] * 10 + ["m-0.parquet"] * 15 + ["a-0.parquet"] * 15
    assert got.files[ARRIVALS:] == ["z-1.parquet"] * 10 + ["m-1.parquet"] * 15 + ["a-1.parquet"] * 15
    assert got.arrivals == expected.arrivals
    assert len(got.events) == 2 * ARRIVALS
    assert {(row["verdict"], row["recipient_verdict"]) for row in got.arrivals} == {("new", "new")}
    assert got.quarantine == set(named.items()) | {
        ("unknown.parquet", "kind: must be a known word"),
        ("unknown.parquet", "at_ms: must be in 0..253402300799999"),
    }
    assert {file.name: file.reason for file in got.done.bad_files} == named
    assert got.done.input_rows == got.done.events + got.done.duplicates + got.done.quarantined
    assert (got.done.events, got.done.quarantined) == (2 * ARRIVALS, 2)

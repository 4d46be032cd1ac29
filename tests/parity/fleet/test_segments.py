"""Which files of a directory are segments, and what Spark reads of them."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from restante.fleet.lake import segment_bounds
from restante.fleet.lake.segments import Segment, find_segments, read_segments
from restante.model.conservation_report import BadSegment
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.model.journal import JournalKind
from support.fleet.journal_files import SEGMENT, Journal, Record, message, records, write_segment, writer
from support.spec.clauses import clause


@pytest.fixture(scope="module")
def facts() -> list[Record]:
    journal = Journal(writer(1))
    for number in range(3):
        journal.write(JournalKind.ACCEPTED, message(number), 1_767_571_200_000)
    return records(journal.rows)


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RestanteError, match="nowhere is not a directory") as caught:
        find_segments(tmp_path / "nowhere")
    assert caught.value.code is Code.NOT_FOUND


def test_a_directory_without_segments_is_named(tmp_path: Path, facts: list[Record]) -> None:
    write_segment(tmp_path / ".draft.parquet", facts)
    write_segment(tmp_path / "a.parquet.partial", facts)
    with pytest.raises(RestanteError, match=r"holds no journal segments \(\*\.parquet\)") as caught:
        find_segments(tmp_path)
    assert caught.value.code is Code.NOT_FOUND


def test_a_file_that_is_no_whole_segment_is_named_with_the_reason(tmp_path: Path, facts: list[Record]) -> None:
    whole = write_segment(tmp_path / "whole.parquet", facts)
    (tmp_path / "cut.parquet").write_bytes(whole.read_bytes()[:-1])
    (tmp_path / "empty.parquet").touch()
    (tmp_path / "folder.parquet").mkdir()
    table = pa.Table.from_pylist(facts, schema=SEGMENT)
    parquet.write_table(table.drop_columns(["kind"]), tmp_path / "less.parquet")
    moments = table["at_ms"].cast(pa.timestamp("ms"))
    parquet.write_table(table.set_column(1, "at_ms", moments), tmp_path / "moments.parquet")
    narrow = table["at_ms"].cast(pa.int64()).cast(pa.float64())
    parquet.write_table(table.set_column(1, "at_ms", narrow), tmp_path / "floats.parquet")
    good, bad = find_segments(tmp_path)
    assert good == [Segment(path=whole, rows=3)]
    assert bad == [
        BadSegment(name="cut.parquet", reason="not a whole Parquet file"),
        BadSegment(name="empty.parquet", reason="not a whole Parquet file"),
        BadSegment(name="floats.parquet", reason="at_ms: the column must be int64"),
        BadSegment(name="folder.parquet", reason="not a whole Parquet file"),
        BadSegment(name="less.parquet", reason="kind: the column is missing"),
        BadSegment(name="moments.parquet", reason="at_ms: the column must be int64"),
    ]


@clause("13.3")
def test_a_newer_column_is_not_read_and_an_optional_one_that_is_missing_is_null(
    spark: SparkSession, tmp_path: Path, facts: list[Record]
) -> None:
    table = pa.Table.from_pylist(facts, schema=SEGMENT)
    parquet.write_table(table.append_column("newer", table["kind"]), tmp_path / "more.parquet")
    parquet.write_table(table.drop_columns(["message_id"]), tmp_path / "less.parquet")
    good, bad = find_segments(tmp_path)
    assert bad == []
    rows = read_segments(spark, good).collect()
    assert Counter((row["source_file"], row["message_id"] is None) for row in rows) == {
        ("more.parquet", False): 3,
        ("less.parquet", True): 3,
    }


def test_a_file_that_is_or_unpacks_too_large_is_named_before_spark_reads_it(
    tmp_path: Path, facts: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_segment(tmp_path / "a.parquet", facts)
    for name in ("MAX_SEGMENT_BYTES", "MAX_SEGMENT_ROWS", "MAX_UNPACKED_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(segment_bounds, name, 2)
            good, [bad] = find_segments(tmp_path)
        assert good == []
        assert bad.reason.endswith("a segment has at most 2")


def test_names_that_look_like_patterns_are_read_as_they_are(
    spark: SparkSession, tmp_path: Path, facts: list[Record]
) -> None:
    directory = tmp_path / "odd [1] {a,b} 100% *?"
    directory.mkdir()
    names = ["a.parquet", "b c+d.parquet", "e%20[f].parquet", "g,h*.parquet"]
    for name in names:
        write_segment(directory / name, facts)
    good, bad = find_segments(directory)
    assert bad == []
    found = Counter(row["source_file"] for row in read_segments(spark, good).collect())
    assert found == dict.fromkeys(names, 3)


def test_fixed_width_columns_are_read_like_others(spark: SparkSession, tmp_path: Path, facts: list[Record]) -> None:
    fixed = {pa.binary(): pa.binary(16)}
    fields = [field.with_type(fixed.get(field.type, field.type)) for field in SEGMENT]
    schema = pa.schema(
        [field.with_type(pa.binary(32)) if field.name in {"payload_hash", "node"} else field for field in fields]
    )
    parquet.write_table(pa.Table.from_pylist(facts, schema=schema), tmp_path / "fixed.parquet")
    good, _ = find_segments(tmp_path)
    rows = read_segments(spark, good).collect()
    assert sorted(row["message_id"] for row in rows) == [message(0), message(1), message(2)]


def test_no_segments_are_no_rows(spark: SparkSession) -> None:
    assert read_segments(spark, []).collect() == []

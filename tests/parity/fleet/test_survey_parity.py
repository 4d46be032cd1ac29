"""A survey makes judging cheap and changes nothing: every row gets the verdict that comparing all rows gives."""

from collections import Counter
from pathlib import Path

import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from restante.fleet.jobs.segment_survey import survey_segments
from restante.fleet.lake.segments import find_segments, read_segments
from restante.fleet.transforms import prescan as surveys
from restante.fleet.transforms.prescan import rows_by_file, survey, tallies, validate_prescanned
from restante.fleet.transforms.validate import RowVerdict, validate_rows
from restante.model.journal import JournalKind
from support.fleet.journal_files import Journal, Record, message, records, write_segment, writer
from support.spec.clauses import clause

AT_MS = 1_767_614_400_000


def facts(number: int, many: int) -> list[Record]:
    journal = Journal(writer(number))
    for place in range(many):
        journal.write(JournalKind.ACCEPTED, message(100 * number + place), AT_MS + place)
    return records(journal.rows)


def rows_of(spark: SparkSession, directory: Path) -> DataFrame:
    return read_segments(spark, find_segments(directory)[0])


def verdicts(judged: DataFrame) -> Counter[tuple[object, ...]]:
    rows = judged.select("source_file", "event_id", "kind", "verdict", "reason").collect()
    return Counter((row[0], bytes(row[1]), row[2], row[3], row[4]) for row in rows)


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    write_segment(tmp_path / "a.parquet", facts(1, 5) + facts(2, 3)[:1])
    write_segment(tmp_path / "b.parquet", facts(2, 3)[1:])
    return tmp_path


@pytest.fixture
def odd(clean: Path) -> Path:
    """One fact in three files, one in two versions, and two rows that are no facts, one of them under a true id."""
    one, two, three = facts(1, 3)
    write_segment(clean / "again.parquet", [one, {**two, "kind": "expired"}, {**three, "kind": "sneezed"}])
    write_segment(clean / "more.parquet", [one, {**facts(3, 1)[0], "at_ms": -1}, *facts(4, 2)])
    return clean


def test_tasks_that_read_local_segments_themselves_find_what_spark_reads(spark: SparkSession, odd: Path) -> None:
    """A column that may be null is missing in one file; another file is damaged in its last rows."""
    narrow = parquet.read_table(odd / "b.parquet")
    parquet.write_table(narrow.drop_columns(["node", "code"]), odd / "b.parquet")
    segments = find_segments(odd)[0]
    rows = read_segments(spark, segments)
    assert survey_segments(spark, segments, rows) == survey(rows)
    long = write_segment(odd / "long.parquet", facts(9, 300), row_group_size=100, write_page_checksum=True)
    with parquet.ParquetFile(long) as file:
        column = file.metadata.row_group(2).column(0)
    at = column.dictionary_page_offset + column.total_compressed_size // 2
    whole = long.read_bytes()
    long.write_bytes(whole[:at] + bytes(8) + whole[at + 8 :])
    segments = find_segments(odd)[0]
    rows = read_segments(spark, segments)
    found = survey_segments(spark, segments, rows)
    assert (found, found.rows_by_file()["long.parquet"]) == (survey(rows), 200)


@clause("13.1", "13.2")
def test_rows_of_which_none_came_twice_are_all_events(spark: SparkSession, clean: Path) -> None:
    rows = rows_of(spark, clean)
    known = survey(rows)
    assert (known.is_clean, known.events_at_most, known.unusable) == (True, 8, 0)
    judged = validate_prescanned(rows, known)
    assert verdicts(judged) == verdicts(validate_rows(rows))
    assert {tally.verdict for tally in tallies(judged, known)} == {RowVerdict.EVENT}
    assert rows_by_file(tallies(judged, known)) == {"a.parquet": 6, "b.parquet": 2}


@clause("13.1", "13.2")
def test_only_what_came_twice_is_compared_and_the_verdicts_are_the_same(spark: SparkSession, odd: Path) -> None:
    rows = rows_of(spark, odd)
    known = survey(rows)
    assert known.repeated is not None
    assert len(known.repeated) == 1
    judged = validate_prescanned(rows, known)
    assert verdicts(judged) == verdicts(validate_rows(rows))
    counts = Counter[str]()
    for tally in tallies(judged, known):
        counts[tally.verdict] += tally.rows
    assert counts == Counter(row["verdict"] for row in validate_rows(rows).collect())


def test_numbers_too_scattered_to_tell_are_compared_row_by_row(
    spark: SparkSession, odd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveys, "MOST_RUNS", 0)
    rows = rows_of(spark, odd)
    known = survey(rows)
    assert (known.repeated, known.is_clean) == (None, False)
    assert verdicts(validate_prescanned(rows, known)) == verdicts(validate_rows(rows))


def test_faults_without_copies_are_told_from_the_survey_alone(spark: SparkSession, clean: Path) -> None:
    write_segment(clean / "c.parquet", [{**facts(5, 1)[0], "kind": "sneezed"}, *facts(6, 1)])
    rows = rows_of(spark, clean)
    known = survey(rows)
    assert known.repeated == ()
    judged = validate_prescanned(rows, known)
    assert verdicts(judged) == verdicts(validate_rows(rows))
    refused = [tally for tally in tallies(judged, known) if tally.verdict == RowVerdict.QUARANTINED]
    assert [(tally.source_file, tally.reason, tally.rows) for tally in refused] == [
        ("c.parquet", "kind: must be a known word", 1)
    ]

"""A stream checks signatures, and reads a segment again once its key is enrolled (SPEC 13.1)."""

import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from restante.core.fleet.enrolment import ENROLMENT_FILE, sign_enrolment
from restante.crypto.identity import Identity
from restante.fleet.jobs.backfill import backfill
from restante.fleet.jobs.report_input import look_at, source_of
from restante.fleet.jobs.stream import Streamed, StreamOptions, start_stream
from restante.fleet.lake.enrolment_file import accept_key, read_enrolment, remove_key
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.reading import read_live
from restante.fleet.lake.segments import find_segments
from restante.model.errors import RestanteError
from restante.model.journal import JournalKind
from restante.model.provenance import Certainty, provenance_of
from restante.policy.settings import Settings
from support.fleet.journal_files import Journal, Record, message, records, write_segment, writer
from support.fleet.signed_segments import KEY, STRANGER, ship_chain
from support.spec.clauses import clause

NOON_MS = 1_767_614_400_000
OPERATOR = Identity(b"o" * 32)
OPERATOR_KEY = bytes(OPERATOR.address)


def update(spark: SparkSession, lake: Lake, operator_key: bytes | None = OPERATOR_KEY) -> Streamed:
    options = StreamOptions(once=True, buckets=1, is_published=False, operator_key=operator_key)
    return start_stream(spark, lake, Settings(), options).await_end(threading.Event())


@clause("13.1")
def test_a_segment_of_an_unknown_key_counts_for_nothing_until_the_key_is_enrolled(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path))
    lake.local_segments.mkdir()
    accept_key(lake.root, KEY.public.hex(), OPERATOR)
    for number, key in ((1, KEY), (2, STRANGER)):
        journal = Journal(writer(number))
        for each in range(4):
            journal.write(JournalKind.ACCEPTED, message(10 * number + each), NOON_MS + each)
        ship_chain(lake.local_segments, journal.rows, sizes=2, key=key)
    first = update(spark, lake)
    assert first.counts.events == 4
    assert {one.reason for one in first.bad_files} == {f"signed by an unknown key: {STRANGER.public.hex()}"}
    assert update(spark, lake).n == first.n  # nothing changed, nothing is tried again
    accept_key(lake.root, STRANGER.public.hex(), OPERATOR)
    second = update(spark, lake)
    assert (second.counts.events, second.bad_files) == (8, ())
    segments = source_of(spark, look_at(lake.root, OPERATOR_KEY)).segments
    assert provenance_of(one.claim for one in segments).certainty is Certainty.VERIFIED
    unchecked = source_of(spark, look_at(lake.root)).segments
    assert provenance_of(one.claim for one in unchecked).certainty is Certainty.UNVERIFIED


@clause("13.1")
def test_a_stream_reads_nothing_by_an_older_list_of_keys(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.local_segments.mkdir()
    accept_key(lake.root, STRANGER.public.hex(), OPERATOR)
    old = (tmp_path / ENROLMENT_FILE).read_bytes()
    accept_key(lake.root, KEY.public.hex(), OPERATOR)
    remove_key(lake.root, STRANGER.public.hex(), OPERATOR)
    new = (tmp_path / ENROLMENT_FILE).read_bytes()
    journals = [Journal(writer(number)) for number in (1, 2)]
    for number, journal in enumerate(journals):
        journal.write(JournalKind.ACCEPTED, message(number), NOON_MS)
    ship_chain(lake.local_segments, journals[0].rows, sizes=1)
    assert update(spark, lake).counts.events == 1
    (tmp_path / ENROLMENT_FILE).write_bytes(old)
    ship_chain(lake.local_segments, journals[1].rows, sizes=1, key=STRANGER)
    with pytest.raises(RestanteError, match="is an older list, number 1: number 3 was here before"):
        update(spark, lake)
    (tmp_path / ENROLMENT_FILE).write_bytes(new)
    done = update(spark, lake)
    assert done.counts.events == 1
    assert [one.reason for one in done.bad_files] == [f"signed by an unknown key: {STRANGER.public.hex()}"]


@clause("13.1")
def test_the_lists_of_another_operator_have_numbers_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    """A new operator's key begins with list 1."""
    lake, successor = Lake(str(tmp_path)), Identity(b"n" * 32)
    lake.local_segments.mkdir()
    for key in (STRANGER, KEY):
        accept_key(lake.root, key.public.hex(), OPERATOR)
    journals = [Journal(writer(number)) for number in range(3)]
    for number, journal in enumerate(journals):
        journal.write(JournalKind.ACCEPTED, message(number), NOON_MS)
    ship_chain(lake.local_segments, journals[0].rows, sizes=1)
    assert update(spark, lake).counts.events == 1
    (tmp_path / ENROLMENT_FILE).unlink()
    accept_key(lake.root, KEY.public.hex(), successor)
    old = (tmp_path / ENROLMENT_FILE).read_bytes()
    ship_chain(lake.local_segments, journals[1].rows, sizes=1)
    assert update(spark, lake, bytes(successor.address)).counts.events == 2
    accept_key(lake.root, STRANGER.public.hex(), successor)
    ship_chain(lake.local_segments, journals[2].rows, sizes=1)
    assert update(spark, lake, bytes(successor.address)).counts.events == 3
    (tmp_path / ENROLMENT_FILE).write_bytes(old)
    write_segment(lake.local_segments / "more.parquet", records(journals[2].rows))
    with pytest.raises(RestanteError, match="is an older list, number 1: number 2 was here before"):
        update(spark, lake, bytes(successor.address))


@clause("13.1")
def test_an_operators_key_that_comes_back_is_still_known_by_its_last_list(spark: SparkSession, tmp_path: Path) -> None:
    """Another key, or none, was configured meanwhile."""
    lake, other = Lake(str(tmp_path)), Identity(b"n" * 32)
    lake.local_segments.mkdir()
    accept_key(lake.root, STRANGER.public.hex(), OPERATOR)
    old = (tmp_path / ENROLMENT_FILE).read_bytes()
    accept_key(lake.root, KEY.public.hex(), OPERATOR)
    new = remove_key(lake.root, STRANGER.public.hex(), OPERATOR)
    journals = [Journal(writer(number)) for number in range(4)]
    for number, journal in enumerate(journals):
        journal.write(JournalKind.ACCEPTED, message(number), NOON_MS)
    ship_chain(lake.local_segments, journals[0].rows, sizes=1)
    assert update(spark, lake).counts.events == 1
    (tmp_path / ENROLMENT_FILE).write_bytes(sign_enrolment(new.keys, other, 1))
    for journal, operator_key in ((journals[1], bytes(other.address)), (journals[2], None)):
        ship_chain(lake.local_segments, journal.rows, sizes=1)
        update(spark, lake, operator_key)
    (tmp_path / ENROLMENT_FILE).write_bytes(old)
    ship_chain(lake.local_segments, journals[3].rows, sizes=1, key=STRANGER)
    with pytest.raises(RestanteError, match="is an older list, number 1: number 3 was here before"):
        update(spark, lake)


def verdicts_of(spark: SparkSession, lake: Lake) -> list[tuple[bytes, str, str, str | None]]:
    source = source_of(spark, look_at(lake.root, OPERATOR_KEY))
    with source.rows as (validated, _):
        rows = validated.select("event_id", "source_file", "verdict", "reason").collect()
    return sorted((bytes(row[0]), row[1], row[2], row[3]) for row in rows)


@clause("13.1", "13.7")
def test_unsigned_files_hide_no_signed_event_whether_they_come_before_or_after(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A copy and a contradiction of each signed event, in files whose names are lower and higher."""
    lake = Lake(str(tmp_path))
    lake.local_segments.mkdir()
    accept_key(lake.root, KEY.public.hex(), OPERATOR)
    journal = Journal(writer(1))
    for each in range(6):
        journal.write(JournalKind.ACCEPTED, message(each), NOON_MS + each)
    true = records(journal.rows)
    forged = [{**row, "at_ms": NOON_MS + 999} for row in true]

    def leave(name: str, rows: Sequence[Record]) -> None:
        write_segment(lake.local_segments / f"{name}.parquet", rows)

    leave("0-copy", true[:2])
    leave("0-forged", forged[2:4])
    leave("0-split", true[4:5])
    leave("0-split-forged", forged[4:5])
    update(spark, lake)
    [signed] = ship_chain(lake.local_segments, journal.rows, sizes=6)
    update(spark, lake)
    leave("z-copy", true[2:4])
    leave("z-forged", forged[:2])
    update(spark, lake)
    streamed = verdicts_of(spark, lake)
    events = [file for _, file, verdict, _ in streamed if verdict == "event"]
    assert events == [signed.name] * 6
    assert {file for _, file, verdict, _ in streamed if verdict == "quarantined"} == {
        "0-forged.parquet",
        "0-split-forged.parquet",
        "z-forged.parquet",
    }
    again = Lake(str(tmp_path / "again"))
    shutil.copytree(lake.segments, again.segments)
    accept_key(again.root, KEY.public.hex(), OPERATOR)
    assert verdicts_of(spark, again) == streamed
    found = find_segments(again.local_segments, enrolment=read_enrolment(again.root, OPERATOR_KEY))
    backfill(spark, again, Settings(), *found, is_published=False)
    backfilled = read_live(spark, again, "events").select("event_id", "source_file").collect()
    assert sorted((bytes(row[0]), row[1]) for row in backfilled) == [one[:2] for one in streamed if one[2] == "event"]

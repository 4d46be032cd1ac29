"""Planted faults in a lake of signed segments: each is found and named, and nothing else is accused."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from restante.core.fleet.enrolment import ENROLMENT_FILE, Enrolment, sign_enrolment
from restante.crypto.identity import Identity
from restante.fleet.kernels.row_rules import OTHER_WRITER, row_faults
from restante.fleet.lake.enrolment_file import accept_key, enrolment_stamp, read_enrolment, remove_key
from restante.fleet.lake.segments import HASH_DIFFERS, find_segments
from restante.fleet.lake.signers import signers_of
from restante.model.conservation_report import BadSegment
from restante.model.errors import RestanteError
from restante.model.ids import WriterId
from restante.model.journal import JournalKind
from restante.model.provenance import Certainty, MissingSegment, provenance_of
from restante.wire.segment_manifest import decode_manifest, encode_manifest, manifest_name
from support.fleet.journal_files import SEGMENT, Journal, message, records, write_segment, writer
from support.fleet.signed_segments import KEY, STRANGER, ship_chain, ship_signed
from support.spec.clauses import clause

NOON_MS = 1_767_614_400_000
ENROLLED = Enrolment(frozenset({KEY.public.hex()}))
OPERATOR = Identity(b"o" * 32)


def journal_of(number: int, events: int = 6) -> Journal:
    journal = Journal(writer(number))
    for each in range(events):
        journal.write(JournalKind.ACCEPTED, message(100 * number + each), NOON_MS + each)
    return journal


@clause("13.1")
def test_segments_of_an_enrolled_key_are_verified_and_those_of_another_count_for_nothing(tmp_path: Path) -> None:
    ship_chain(tmp_path, journal_of(1).rows, sizes=2)
    [foreign] = ship_chain(tmp_path, journal_of(2).rows, sizes=6, key=STRANGER)
    write_segment(tmp_path / "unsigned.parquet", records(journal_of(3).rows))
    good, bad = find_segments(tmp_path, enrolment=ENROLLED)
    assert bad == [BadSegment(name=foreign.name, reason=f"signed by an unknown key: {STRANGER.public.hex()}")]
    found = provenance_of(segment.claim for segment in good)
    assert (found.certainty, found.verified, found.unverified) == (Certainty.PARTLY_VERIFIED, 3, 1)
    unchecked, none = find_segments(tmp_path)
    assert none == []
    assert {segment.claim for segment in unchecked} == {None}


@clause("13.1")
def test_an_altered_segment_and_an_altered_manifest_are_named(tmp_path: Path) -> None:
    altered, redated, *_ = ship_chain(tmp_path, journal_of(1).rows, sizes=2)
    raw = bytearray(altered.read_bytes())
    raw[20] ^= 1  # in the first page: the footer stays whole
    altered.write_bytes(raw)
    beside = redated.with_name(manifest_name(redated.name))
    said = decode_manifest(beside.read_bytes())
    beside.write_bytes(encode_manifest(replace(said, previous="00" * 32)))
    good, bad = find_segments(tmp_path, enrolment=ENROLLED)
    assert len(good) == 1
    assert [(one.name, one.reason) for one in bad] == [
        (altered.name, HASH_DIFFERS),
        (redated.name, "its manifest was altered: the signature is wrong"),
    ]


@clause("13.1")
def test_a_segment_that_was_taken_away_with_its_manifest_is_missed(tmp_path: Path) -> None:
    _, gone, after = ship_chain(tmp_path, journal_of(1).rows, sizes=2)
    ship_chain(tmp_path, journal_of(2).rows, sizes=3)
    gone.with_name(manifest_name(gone.name)).unlink()
    gone.unlink()
    good, bad = find_segments(tmp_path, enrolment=ENROLLED)
    assert bad == []
    found = provenance_of(segment.claim for segment in good)
    assert found.missing == (MissingSegment(writer=writer(1).hex(), before=after.name),)


@clause("13.1")
def test_a_writer_whose_event_ids_are_those_of_another_is_contested_with_it(tmp_path: Path) -> None:
    """Event ids begin with eight bytes of the writer: who takes these of another can make its events contradictory."""
    twin = WriterId(writer(1)[:8] + b"-another")
    forged = Journal(twin)
    forged.write(JournalKind.ACCEPTED, message(7), NOON_MS)
    ship_chain(tmp_path, journal_of(1).rows, sizes=6)
    ship_chain(tmp_path, forged.rows, sizes=1, key=STRANGER)
    ship_chain(tmp_path, journal_of(2).rows, sizes=6)
    both = Enrolment(frozenset({KEY.public.hex(), STRANGER.public.hex()}))
    good, _ = find_segments(tmp_path, enrolment=both)
    found = provenance_of(segment.claim for segment in good)
    assert found.contested == tuple(sorted({writer(1).hex(), twin.hex()}))
    assert (found.verified, found.unverified) == (1, 2)


def test_an_enrolled_key_speaks_for_no_other_writer(tmp_path: Path) -> None:
    mine, other = journal_of(1), journal_of(2)
    path, _ = ship_signed(tmp_path, mine.rows)
    rows = [*mine.rows[:3], *other.rows[:3]]
    table = pa.Table.from_pylist(records(rows), schema=SEGMENT)
    named = table.append_column("source_file", pa.array([path.name] * len(rows)))
    assert row_faults(named).to_pylist() == [None] * 3 + [OTHER_WRITER] * 3
    mixed = table.append_column("source_file", pa.array([path.name, "a.parquet"] * 3))
    assert row_faults(mixed).to_pylist() == [None] * 4 + [OTHER_WRITER, None]


@clause("13.1")
def test_keys_are_enrolled_in_a_file_that_only_the_operator_can_change(tmp_path: Path) -> None:
    (tmp_path / "segments").mkdir()
    ship_chain(tmp_path / "segments", journal_of(1).rows, sizes=2)
    operator_key = bytes(OPERATOR.address)
    assert read_enrolment(str(tmp_path), None) is None
    assert read_enrolment(str(tmp_path), operator_key) == Enrolment()
    before = enrolment_stamp(str(tmp_path))
    accept_key(str(tmp_path), KEY.public.hex(), OPERATOR)
    assert accept_key(str(tmp_path), STRANGER.public.hex(), OPERATOR).keys == {KEY.public.hex(), STRANGER.public.hex()}
    assert enrolment_stamp(str(tmp_path)) != before
    assert signers_of(str(tmp_path)) == {KEY.public.hex(): 3}
    assert remove_key(str(tmp_path), STRANGER.public.hex(), OPERATOR).keys == {KEY.public.hex()}
    assert read_enrolment(str(tmp_path), operator_key) == ENROLLED
    with pytest.raises(RestanteError, match="is not enrolled"):
        remove_key(str(tmp_path), STRANGER.public.hex(), OPERATOR)
    (tmp_path / ENROLMENT_FILE).write_bytes(sign_enrolment({"00" * 32}, Identity(b"x" * 32)))
    with pytest.raises(RestanteError, match="not signed by the operator"):
        read_enrolment(str(tmp_path), operator_key)

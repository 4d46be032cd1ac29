"""A stream checks signatures, and reads a segment again once its key is enrolled (SPEC 13.1)."""

import threading
from pathlib import Path

from pyspark.sql import SparkSession

from restante.crypto.identity import Identity
from restante.fleet.jobs.report_input import look_at, source_of
from restante.fleet.jobs.stream import Streamed, StreamOptions, start_stream
from restante.fleet.lake.enrolment_file import accept_key
from restante.fleet.lake.layout import Lake
from restante.model.journal import JournalKind
from restante.model.provenance import Certainty, provenance_of
from restante.policy.settings import Settings
from support.fleet.journal_files import Journal, message, writer
from support.fleet.signed_segments import KEY, STRANGER, ship_chain
from support.spec.clauses import clause

NOON_MS = 1_767_614_400_000
OPERATOR = Identity(b"o" * 32)
OPERATOR_KEY = bytes(OPERATOR.address)


def update(spark: SparkSession, lake: Lake) -> Streamed:
    options = StreamOptions(once=True, buckets=1, is_published=False, operator_key=OPERATOR_KEY)
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

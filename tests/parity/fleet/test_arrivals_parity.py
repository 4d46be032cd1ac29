"""The table of arrivals says of any trace what the core says, and what the recipient's own machine wrote down."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from restante.crypto.identity import Identity
from restante.fleet.tables.journal_schema import JOURNAL
from restante.fleet.transforms.arrivals import arrivals
from restante.model.ids import SessionId, SessionTag
from restante.model.journal import JournalEvent, JournalKind
from restante.model.kinds import Kind
from restante.wire.journal_schema import to_record
from support.fleet.arrival_traces import DEDUP, LIMITS, NUMBER, TRACES, Told, TraceFact, by_the_core, moments
from support.fleet.journal_files import Journal, writer
from support.fleet.trace_journals import write_fact
from support.inbox.decrypted_messages import letter
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, open_client_file


def table_of(spark: SparkSession, rows: list[JournalEvent]) -> dict[bytes, Told]:
    events = spark.createDataFrame([tuple(to_record(row).values()) for row in rows], JOURNAL)
    found = arrivals(events, partitions=2, order=LIMITS, dedup=DEDUP).collect()
    return {
        bytes(row["event_id"]): Told(
            row["verdict"],
            row["placement"],
            row["next_expected"],
            row["released"],
            tuple((gap["first"], gap["last"], gap["retransmit_requested"]) for gap in row["gaps"] or ()),
        )
        for row in found
    }


@clause("9.1", "9.4", "9.5", "13.3", "13.7")
def test_the_table_of_any_trace_is_that_of_the_core(spark: SparkSession) -> None:
    rows: list[JournalEvent] = []
    expected: dict[bytes, Told] = {}

    @settings(max_examples=200, database=None)
    @given(TRACES)
    def collect(trace: list[TraceFact]) -> None:
        number = len(rows)
        journal = Journal(writer(number + 1))
        for fact, at_ms, told in zip(trace, moments(trace), by_the_core(trace), strict=True):
            tag = SessionTag(number.to_bytes(8, "big") + bytes([fact.session]) * 8)
            expected[write_fact(journal, fact, at_ms, tag)] = told
        journal.write(JournalKind.SESSION_CHANGED, None, 0, session_tag=SessionTag(bytes(16)))
        rows.extend(journal.rows)

    collect()
    assert table_of(spark, rows) == expected
    assert {told.verdict for told in expected.values()} == {None, "E009", *(word for word in NUMBER if word != "other")}


LETTERS = st.tuples(
    st.integers(0, 5),
    st.sampled_from([0, 0, 0, 1, 2, 1_005]),
    st.sampled_from([b"s" * 32, b"s" * 32, b"t" * 32]),
    st.sampled_from([b"one", b"one", b"two"]),
    st.sampled_from([0, 1_000, 300_000]),
    st.sampled_from([Kind.TEXT, Kind.TEXT, Kind.CONTROL]),
)


@clause("13.7")
def test_what_a_recipients_own_inbox_wrote_down_is_found_again(spark: SparkSession, tmp_path: Path) -> None:
    """Its journal goes in; verdicts, releases and gaps come out as it has them."""
    rows: list[JournalEvent] = []
    files = 0

    @settings(max_examples=25, database=None)
    @given(st.lists(LETTERS, max_size=12))
    def collect(letters: list[tuple[int, int, bytes, bytes, int, Kind]]) -> None:
        nonlocal files
        files += 1
        now_ms = NOW_MS
        owner = Identity(files.to_bytes(32, "big"))  # another secret, other tags
        file = open_client_file(tmp_path / f"{files}.db", owner=owner, seed=files)
        for number, ahead, session, sealed, after_ms, kind in letters:
            now_ms += after_ms
            name = SessionId(session)
            mixed = session + sealed + bytes([number]) + kind.encode()
            one = letter(number, sequence=number + ahead, session=name, sealed=mixed, kind=kind)
            file.inbox.receive(one, server_timestamp_ms=now_ms, now_ms=now_ms)
        rows.extend(file.journal.events(after=0, limit=1_000))
        file.database.close()

    collect()
    found = table_of(spark, rows)
    arrived = [row for row in rows if row.kind is JournalKind.ARRIVED]
    assert [found[row.event_id].verdict for row in arrived] == [row.code for row in arrived]
    assert sum(told.released for told in found.values()) == sum(row.kind is JournalKind.RELEASED for row in rows)
    skipped = sorted((row.sequence, row.last_sequence) for row in rows if row.kind is JournalKind.GAP_SKIPPED)
    assert sorted((gap[0], gap[1]) for told in found.values() for gap in told.gaps) == skipped

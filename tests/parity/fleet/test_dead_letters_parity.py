"""Dead letters as columns against the machine that makes them: category, deadlines and the daily retry."""

from typing import Any

from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from restante.core.outbox import step
from restante.core.outbox_events import (
    AppendJournalEvent,
    Cancelled,
    Event,
    Leased,
    ReceiptAcked,
    Recovered,
    StoreDeadLetter,
    TimePassed,
    TransmitFailed,
)
from restante.fleet.transforms.dead_letters import dead_letters
from restante.model.errors import LocalProtocolError
from restante.model.ids import MessageId
from restante.model.journal import JournalKind
from restante.model.kinds import KIND_RULES, Kind, Priority
from restante.model.outbox_entry import DeadLetter, OutboxEntry
from restante.model.states import Route, State
from restante.policy.dead_letters import DeadLetterRetention, next_auto_retry_ms
from restante.policy.failures import Failure
from restante.policy.settings import Settings
from restante.policy.ttl import transport_expiry_ms
from support.fleet.dataframes import facts_frame
from support.fleet.journal_files import Journal, message, writer
from support.spec.clauses import clause

START_MS = 1_767_225_600_000
DAY_MS = 86_400_000
RETENTION = DeadLetterRetention()
ATTEMPTS_BEFORE_THE_LAST = 14
LEASE = Leased(owner="a", until_ms=START_MS + 10**12)
OTHERS: list[Event] = [LEASE, ReceiptAcked(), TimePassed(), Cancelled(), Recovered(), Recovered(is_automatic=True)]


def one_try(failure: Failure) -> list[Event]:
    return [LEASE, TransmitFailed(owner="a", failure=failure)]


TRIES = st.sampled_from(Failure).map(one_try)
EVENTS: st.SearchStrategy[list[Event]] = TRIES | st.sampled_from(OTHERS).map(lambda event: [event])
STEPS = st.lists(st.tuples(EVENTS, st.sampled_from([0, 1, 7_200_000, DAY_MS - 1, DAY_MS, 5 * DAY_MS])), max_size=9)
ENTRIES = st.tuples(
    st.sampled_from([Kind.TEXT, Kind.DISAPPEARING]),
    st.sampled_from([3_600, 2 * 86_400, 30 * 86_400]),
    st.sampled_from([0, ATTEMPTS_BEFORE_THE_LAST]),
)


def entry(message_id: MessageId, kind: Kind, ttl_s: int, attempts: int) -> OutboxEntry:
    return OutboxEntry(
        message_id=message_id,
        route=Route.MESH,
        lane="somebody",
        kind=kind,
        payload=b"sealed",
        sealed_plaintext=b"sealed here",
        priority=Priority.NORMAL,
        created_at_ms=START_MS,
        queued_at_ms=START_MS,
        ttl_s=ttl_s,
        expires_at_ms=transport_expiry_ms(ttl_type=KIND_RULES[kind].ttl_type, created_at_ms=START_MS, ttl_s=ttl_s),
        next_attempt_at_ms=START_MS,
        attempts=attempts,
    )


class Life:
    """One message in the machine's hands; its facts go to a journal."""

    def __init__(self, first: OutboxEntry, journal: Journal) -> None:
        self.entry, self.journal = first, journal
        self.letter: DeadLetter | None = None
        self.now_ms = START_MS
        fields: dict[str, Any] = {"message_kind": first.kind, "priority": first.priority, "ttl_s": first.ttl_s}
        journal.write(JournalKind.ACCEPTED, first.message_id, START_MS, **fields)

    def meet(self, event: Event) -> None:
        due = self.entry._replace(next_attempt_at_ms=self.now_ms)
        try:
            self.entry, effects = step(due, event, now_ms=self.now_ms, settings=Settings())
        except LocalProtocolError:
            return
        for effect in effects:
            if isinstance(effect, AppendJournalEvent):
                fields = {"code": effect.code, "attempt": self.entry.attempts}
                self.journal.write(effect.kind, self.entry.message_id, self.now_ms, **fields)
            elif isinstance(effect, StoreDeadLetter):
                self.letter = effect.letter

    def expected(self) -> dict[str, Any] | None:
        letter = self.letter
        if letter is None or self.entry.state not in {State.DEAD, State.EXPIRED}:
            return None
        return {
            "category": letter.category.value,
            "code": letter.code or letter.reason if self.entry.state is State.DEAD else "E010",
            "attempts": letter.total_attempts,
            "moved_at_ms": letter.moved_at_ms,
            "expires_at_ms": letter.expires_at_ms,
            "message_expires_at_ms": letter.entry.expires_at_ms,
            "next_retry_at_ms": next_auto_retry_ms(
                RETENTION,
                category=letter.category,
                moved_at_ms=letter.moved_at_ms,
                last_retry_at_ms=None,
                letter_expires_at_ms=letter.expires_at_ms,
                message_expires_at_ms=letter.entry.expires_at_ms,
            ),
        }


REFUSED, TIMED_OUT, NOT_SEALED = map(one_try, (Failure.TOO_LARGE, Failure.NETWORK_TIMEOUT, Failure.ENCRYPTION_FAILED))


@clause("5.3")
def test_the_table_says_of_every_dead_letter_what_the_outbox_machine_says(spark: SparkSession) -> None:
    journal = Journal(writer(1))
    expected: dict[MessageId, dict[str, Any]] = {}
    lives = 0

    @hypothesis_settings(max_examples=250, database=None)
    @example((Kind.TEXT, 30 * 86_400, 0), [(REFUSED, 0)])
    @example((Kind.TEXT, 30 * 86_400, 0), [(NOT_SEALED, 0), (NOT_SEALED, 1)])
    @example((Kind.TEXT, 30 * 86_400, ATTEMPTS_BEFORE_THE_LAST), [(NOT_SEALED, 0)])
    @example(
        (Kind.TEXT, 30 * 86_400, ATTEMPTS_BEFORE_THE_LAST),
        [(TIMED_OUT, 0), ([Recovered(is_automatic=True)], DAY_MS), ([TimePassed()], DAY_MS)],
    )
    @example((Kind.TEXT, 86_400, ATTEMPTS_BEFORE_THE_LAST), [(TIMED_OUT, 0)])
    @given(ENTRIES, STEPS)
    def collect(kind_of_entry: tuple[Kind, int, int], steps: list[tuple[list[Event], int]]) -> None:
        nonlocal lives
        lives += 1
        life = Life(entry(message(lives), *kind_of_entry), journal)
        for events, delay_ms in steps:
            life.now_ms += delay_ms
            for event in events:
                life.meet(event)
        told = life.expected()
        if told is not None:
            expected[message(lives)] = told

    collect()
    rows = dead_letters(facts_frame(spark, journal.rows), RETENTION).collect()
    found = {bytes(row["message_id"]): row.asDict() for row in rows}
    assert len(found) == len(rows)
    told = {key: {name: row[name] for name in next(iter(expected.values()))} for key, row in found.items()}
    assert told == {key: row | {"code": str(row["code"])} for key, row in expected.items()}
    assert {row["category"] for row in told.values()} == {"retriable", "permanent", "expired"}
    assert any(row["next_retry_at_ms"] for row in told.values())


def test_a_discarded_letter_stays_in_the_table_and_is_never_retried(spark: SparkSession) -> None:
    journal = Journal(writer(1))
    for number in range(2):
        journal.write(JournalKind.ACCEPTED, message(number), START_MS, ttl_s=30 * 86_400)
        journal.write(JournalKind.DEAD_LETTERED, message(number), START_MS + 1, code="attempts_exhausted")
    journal.write(JournalKind.DISCARDED, message(0), START_MS + 2, code="retriable")
    rows = dead_letters(facts_frame(spark, journal.rows), RETENTION).orderBy("message_id").collect()
    assert [(row["discarded_at_ms"], row["next_retry_at_ms"]) for row in rows] == [
        (START_MS + 2, None),
        (None, START_MS + 1 + DAY_MS),
    ]

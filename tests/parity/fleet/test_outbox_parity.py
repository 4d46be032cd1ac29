"""What the outbox machine does to a message is what the message table says of it afterwards."""

from dataclasses import replace

from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from clauses import clause
from journal_files import Journal, message, writer
from message_rows import message_table
from restante.core.outbox import step
from restante.core.outbox_events import (
    Cancelled,
    CapacityExceeded,
    DeliveryAcked,
    Event,
    Leased,
    ReadAcked,
    ReceiptAcked,
    Record,
    Recovered,
    TimePassed,
    TransmitFailed,
    TransmitSucceeded,
)
from restante.model.errors import LocalProtocolError
from restante.model.ids import MessageId
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, Priority
from restante.model.records import OutboxEntry
from restante.model.states import Route, State
from restante.policy.failures import Failure
from restante.policy.settings import Settings

START_MS = 1_767_225_600_000

EVENTS = st.sampled_from(
    [
        Leased(owner="a", until_ms=START_MS + 10**9),
        Leased(owner="a", until_ms=START_MS + 10**9),
        TransmitSucceeded(),
        TransmitFailed(owner="a", failure=Failure.NETWORK_TIMEOUT),
        TransmitFailed(owner="a", failure=Failure.TOO_LARGE),
        DeliveryAcked(),
        ReceiptAcked(),
        ReadAcked(),
        TimePassed(),
        CapacityExceeded(),
        Cancelled(),
        Recovered(),
    ]
)
STEPS = st.lists(st.tuples(EVENTS, st.sampled_from([0, 1, 5_000, 7_200_000, 40 * 86_400_000])), max_size=12)


def entry(message_id: MessageId) -> OutboxEntry:
    return OutboxEntry(
        message_id=message_id,
        route=Route.RELAY,
        lane="relay",
        kind=Kind.TEXT,
        payload=b"sealed",
        sealed_plaintext=b"sealed here",
        priority=Priority.NORMAL,
        created_at_ms=START_MS,
        queued_at_ms=START_MS,
        ttl_s=30 * 86_400,
        expires_at_ms=START_MS + 30 * 86_400_000,
        next_attempt_at_ms=START_MS,
    )


def after(now: OutboxEntry, event: Event, now_ms: int, journal: Journal) -> OutboxEntry:
    """The entry after the machine's step, with the facts the step asks for written down."""
    try:
        then, effects = step(now, event, now_ms=now_ms, settings=Settings())
    except LocalProtocolError:
        return now
    for effect in effects:
        if isinstance(effect, Record):
            journal.write(effect.kind, now.message_id, now_ms, code=effect.code, latency_ms=effect.latency_ms)
    return then


@clause("1.4")
def test_the_final_states_are_those_of_the_outbox_machine(spark: SparkSession) -> None:
    journal = Journal(writer(1))
    ended: dict[MessageId, State] = {}

    @hypothesis_settings(max_examples=300, database=None)
    @example([(Leased(owner="a", until_ms=START_MS + 1), 0), (TransmitSucceeded(), 0)])
    @given(STEPS)
    def collect(steps: list[tuple[Event, int]]) -> None:
        now, now_ms = entry(message(len(ended))), START_MS
        journal.write(JournalKind.ACCEPTED, now.message_id, now_ms, message_kind=now.kind, priority=now.priority)
        for event, delay_ms in steps:
            now_ms += delay_ms
            # The next try is always due: how long it waits is none of the books' business.
            now = after(replace(now, next_attempt_at_ms=now_ms), event, now_ms, journal)
        ended[now.message_id] = now.state

    collect()
    found = message_table(spark, journal.rows)
    assert {message_id: row["state"] for message_id, row in found.items()} == ended
    assert {row["doubt"] for row in found.values()} == {None}
    assert set(ended.values()) == set(State)

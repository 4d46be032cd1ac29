"""What the outbox machine does to a message is what the message table says of it afterwards."""

from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from pyspark.sql import SparkSession

from restante.core.outbox_events import (
    Event,
    Leased,
    TransmitSucceeded,
)
from restante.model.ids import MessageId
from restante.model.journal import JournalKind
from restante.model.states import State
from support.fleet.journal_files import Journal, message, writer
from support.fleet.message_table import message_table
from support.outbox.traces import START_MS, STEPS, after, entry
from support.spec.clauses import clause


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
            now = after(now._replace(next_attempt_at_ms=now_ms), event, now_ms, journal)
        ended[now.message_id] = now.state

    collect()
    found = message_table(spark, journal.rows)
    assert {message_id: row["state"] for message_id, row in found.items()} == ended
    assert {row["inconsistency"] for row in found.values()} == {None}
    assert set(ended.values()) == set(State)

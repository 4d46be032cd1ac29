"""Conservation under any sequence of events: whatever happens, the journal and the tables tell the same story."""

import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from restante.core.outbox_events import (
    Cancelled,
    DeliveryAcked,
    Event,
    ReadAcked,
    ReceiptAcked,
    TransmitFailed,
    TransmitSucceeded,
)
from restante.model.ids import MessageId, event_number
from restante.model.kinds import Kind, Priority
from restante.model.states import Route
from restante.policy.capacity import OutboxLimits
from restante.policy.failures import Failure
from restante.policy.settings import Settings
from support.outbox.entries import accept, entry
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, assert_books_balance, facts, open_client_file, states_by_journal

HOUR_MS = 3_600_000
SMALL_LANES = Settings(outbox=OutboxLimits(max_pending_per_upstream_lane=2))
OWNER = "me"


class Interrupted(Exception):
    """Something went wrong in the middle."""


class Books(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self._open()
        self._accepted: list[MessageId] = []
        self._now_ms = NOW_MS

    def _open(self) -> None:
        self._file = open_client_file(Path(self._directory.name) / "client.db", settings=SMALL_LANES)
        self._file.database.run("PRAGMA synchronous = OFF")  # the machine does not crash here, and time is short

    def teardown(self) -> None:
        self._file.database.close()
        self._directory.cleanup()

    @rule(
        route=st.sampled_from(Route),
        kind=st.sampled_from([Kind.TEXT, Kind.CONTROL, Kind.DRAWING]),
        priority=st.sampled_from(Priority),
        life_ms=st.sampled_from([HOUR_MS, 24 * HOUR_MS, 30 * 24 * HOUR_MS]),
        falls=st.booleans(),
    )
    def accept(self, route: Route, kind: Kind, priority: Priority, life_ms: int, falls: bool) -> None:
        new = entry(
            len(self._accepted),
            route=route,
            kind=kind,
            priority=priority,
            created_at_ms=self._now_ms,
            queued_at_ms=self._now_ms,
            next_attempt_at_ms=self._now_ms,
            expires_at_ms=self._now_ms + life_ms,
        )
        with suppress(Interrupted), self._file.database.transaction():
            accept(self._file.outbox, new, now_ms=self._now_ms)
            if falls:
                raise Interrupted
            self._accepted.append(new.message_id)

    @rule()
    def lease(self) -> None:
        self._file.outbox.lease_next(owner=OWNER, now_ms=self._now_ms)

    @precondition(lambda self: self._accepted)
    @rule(
        event=st.sampled_from([TransmitSucceeded(), DeliveryAcked(), ReceiptAcked(), ReadAcked(), Cancelled()]),
        data=st.data(),
    )
    def hear(self, event: Event, data: st.DataObject) -> None:
        self._file.outbox.apply(data.draw(st.sampled_from(self._accepted)), event, now_ms=self._now_ms)

    @precondition(lambda self: self._accepted)
    @rule(failure=st.sampled_from(Failure), dice=st.floats(-1, 1), data=st.data())
    def fail(self, failure: Failure, dice: float, data: st.DataObject) -> None:
        after_ms = 1_000 if failure is Failure.RATE_LIMITED else None
        failed = TransmitFailed(owner=OWNER, failure=failure, retry_after_ms=after_ms, dice=dice)
        self._file.outbox.apply(data.draw(st.sampled_from(self._accepted)), failed, now_ms=self._now_ms)

    @rule(by_ms=st.sampled_from([1, 60_000, HOUR_MS, 24 * HOUR_MS]))
    def wait(self, by_ms: int) -> None:
        self._now_ms += by_ms

    @rule()
    def sweep(self) -> None:
        self._file.outbox.sweep(now_ms=self._now_ms)

    @rule()
    def reopen(self) -> None:
        self._file.database.close()
        self._open()

    @invariant()
    def every_accepted_message_is_accounted_for(self) -> None:
        assert states_by_journal(self._file.journal).keys() == set(self._accepted)
        assert_books_balance(self._file)

    @invariant()
    def the_facts_have_no_holes(self) -> None:
        numbers = [event_number(fact.event_id) for fact in facts(self._file.journal)]
        assert numbers == list(range(1, len(numbers) + 1))


@clause("1.4")
def test_every_accepted_message_is_in_one_state_and_the_journal_knows_which() -> None:
    run_state_machine_as_test(Books, settings=settings(max_examples=20, stateful_step_count=30, deadline=None))

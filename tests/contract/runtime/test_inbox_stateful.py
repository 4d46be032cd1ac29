"""The SQLite inbox against the pure model: the same arrivals, in any order and any batches, leave both the same."""

import copy
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import Phase as Stage
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from restante.core.decrypted_messages import DecryptedMessage
from restante.core.inbox_events import InboxEventType
from restante.model.ids import Address, SessionId
from restante.model.kinds import Kind, TtlType
from restante.policy.ack_batching import AckBatching
from restante.policy.reorder_limits import OrderLimits
from restante.policy.settings import Settings
from restante.runtime.sqlite.inbox.results import ReceiveResult
from restante.testing.deterministic import FakeClock
from restante.wire.acks import AckType
from support.inbox.decrypted_messages import ALICE, CAROL, letter
from support.inbox.reference_model import InboxModel
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, open_client_file

MINUTE_MS = 60_000
DAY_MS = 86_400_000
TIGHT = Settings(order=OrderLimits(max_gap=6))
SESSIONS = [SessionId(name * 32) for name in (b"a", b"b", b"c")]


@st.composite
def arriving_letters(draw: st.DrawFn) -> DecryptedMessage:
    """Equal sealed bytes always hold equal letters; all else may be any way."""
    drawn = (
        draw(st.integers(0, 20)),
        draw(st.none() | st.integers(0, 12)),
        draw(st.sampled_from([ALICE, ALICE, CAROL])),
        draw(st.sampled_from(SESSIONS)),
        draw(st.sampled_from([Kind.TEXT, Kind.TEXT, Kind.CONTROL, Kind.DISAPPEARING])),
        draw(st.sampled_from([None, None, None, b"something else"])),
        draw(st.sampled_from([3_600, 86_400])),
    )
    number, sequence, sender, session, kind, body, ttl_s = drawn
    return letter(
        number,
        sequence=sequence,
        sender=sender,
        session=session,
        kind=kind,
        body=body,
        sealed=repr((*drawn, draw(st.sampled_from([0, 0, 0, 1])))).encode(),
        ttl_s=ttl_s,
        ttl_type=TtlType.RELATIVE if kind is Kind.DISAPPEARING else TtlType.ABSOLUTE,
    )


letters = arriving_letters()


class Interrupted(Exception):
    """Something went wrong in the middle."""


class Mirrored(RuleBasedStateMachine):
    """Whatever is done to the file is done to the model."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self._clock = FakeClock(NOW_MS)
        self._model = InboxModel(settings=TIGHT)
        self._lives = 0
        self._control: list[bytes] = []
        self._asks: list[object] = []
        self._told: list[tuple[InboxEventType, str | None]] = []
        self._open()

    def _open(self) -> None:
        self._lives += 1
        self._file = open_client_file(Path(self._directory.name) / "client.db", settings=TIGHT, seed=self._lives)
        self._file.database.run("PRAGMA synchronous = OFF")  # power failures are another test's business

    def teardown(self) -> None:
        self._file.database.close()
        self._directory.cleanup()

    def _keep(self, arrival: ReceiveResult) -> None:
        self._control += [] if arrival.control is None else [arrival.control.body]
        self._asks += [((ask.sender, ask.session_id), ask.what) for ask in arrival.asks]

    @rule(arriving=st.lists(letters, min_size=1, max_size=8))
    def arrive(self, arriving: list[DecryptedMessage]) -> None:
        now_ms = self._clock.now_ms()
        expected = [self._model.receive(opened, now_ms=now_ms) for opened in arriving]
        with self._file.inbox.batch(now_ms=now_ms) as batch:
            arrivals = [batch.receive_decrypted(opened, server_timestamp_ms=0) for opened in arriving]
        # Acks of duplicates are delayed by chance: another test is about them.
        self._file.database.run("DELETE FROM pending_ack WHERE since_ms > :now_ms", now_ms=now_ms)
        for arrival in arrivals:
            self._keep(arrival)
        assert [arrival.verdict for arrival in arrivals] == expected

    @rule(first=st.integers(0, 10), count=st.integers(1, 6), session=st.sampled_from(SESSIONS))
    def arrive_in_order(self, first: int, count: int, session: SessionId) -> None:
        self.arrive([letter(number, session=session) for number in range(first, first + count)])

    @rule(arriving=st.lists(letters, min_size=1, max_size=8))
    def arrive_and_crash(self, arriving: list[DecryptedMessage]) -> None:
        """The batch was not committed: as if nothing had come."""
        before = copy.deepcopy(self._model)
        with suppress(Interrupted), self._file.inbox.batch(now_ms=self._clock.now_ms()) as batch:
            for opened in arriving:
                batch.receive_decrypted(opened, server_timestamp_ms=0)
            raise Interrupted
        self.reopen()
        assert self._model == before

    @rule()
    def reopen(self) -> None:
        self._told += [(change.notice, change.code) for change in self._file.inbox.take_changes()]
        self._file.database.close()
        self._open()

    @rule(by_ms=st.sampled_from([1, MINUTE_MS, 4 * MINUTE_MS, 5 * MINUTE_MS, DAY_MS, 29 * DAY_MS]))
    def wait(self, by_ms: int) -> None:
        self._clock.advance(by_ms)

    @rule()
    def pass_time(self) -> None:
        now_ms = self._clock.now_ms()
        self._model.pass_time(now_ms=now_ms)
        asks = self._file.inbox.pass_time(now_ms=now_ms)
        self._asks += [((ask.sender, ask.session_id), ask.what) for ask in asks]

    @rule(place=st.integers(1, 30), acknowledge=st.booleans())
    def mark_read(self, place: int, acknowledge: bool) -> None:
        now_ms = self._clock.now_ms()
        expected = self._model.mark_read(place, now_ms=now_ms, acknowledge=acknowledge)
        assert self._file.inbox.mark_read(place, now_ms=now_ms, acknowledge=acknowledge) is expected

    @rule()
    def sweep(self) -> None:
        now_ms = self._clock.now_ms()
        assert self._file.inbox.sweep(now_ms=now_ms) == self._model.sweep(now_ms=now_ms)

    @rule(sender=st.sampled_from([ALICE, CAROL]), type_=st.sampled_from([AckType.RECEIPT, AckType.READ]))
    def take_owed(self, sender: Address, type_: AckType) -> None:
        taken = self._file.inbox.take_owed(sender, limit=3, now_ms=self._clock.now_ms(), type_=type_)
        assert taken == self._model.take_owed(sender, type_, limit=3)

    @invariant()
    def the_application_sees_the_same(self) -> None:
        now_ms = self._clock.now_ms()
        entries = self._file.inbox.released(after=0, limit=10_000, now_ms=now_ms)
        assert [
            (place, entry.message_id, entry.plaintext, entry.is_late, entry.first_read_at_ms, entry.received_at_ms)
            for place, entry in entries
        ] == [
            (
                kept.place,
                kept.opened.message_id,
                kept.opened.body,
                kept.is_late,
                kept.first_read_at_ms,
                kept.received_at_ms,
            )
            for kept in self._model.shown(now_ms=now_ms)
        ]
        told = [*self._told, *((change.notice, change.code) for change in self._file.inbox.take_changes())]
        assert told == self._model.told
        self._told = told

    @invariant()
    def what_is_owed_asked_for_and_awaited_is_the_same(self) -> None:
        assert self._control == self._model.control
        assert self._asks == self._model.asks
        assert self._file.inbox.next_wake_ms() == self._model.next_wake_ms()
        batches = {
            (batch.type, batch.sender) for batch in self._file.inbox.owed(AckBatching(), now_ms=self._clock.now_ms())
        }
        assert batches == {debt[:2] for debt in self._model.owed}

    @invariant()
    def no_number_is_lost_between_the_tables(self) -> None:
        [(seen, counted)] = self._file.database.run("SELECT (SELECT count(*) FROM dedup), seen FROM inbox_total")
        assert seen == counted == len(self._model.seen)
        [(waiting,)] = self._file.database.run("SELECT count(*) FROM reorder_buffer")
        assert waiting == sum(len(session.waiting) for session in self._model.sessions.values())


@clause("9.1", "9.3", "9.4", "9.5", "9.7")
def test_the_file_does_what_the_model_does() -> None:
    run_state_machine_as_test(
        Mirrored,
        settings=settings(
            max_examples=60,
            stateful_step_count=30,
            deadline=None,
            phases=[Stage.explicit, Stage.reuse, Stage.generate, Stage.shrink],
        ),
    )

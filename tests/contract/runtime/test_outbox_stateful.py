"""The SQLite outbox against the pure model: the same operations, in any order, leave both the same."""

import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from operator import itemgetter
from pathlib import Path

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from restante.core.outbox_events import (
    Cancelled,
    CapacityExceeded,
    DeliveryAcked,
    Event,
    Leased,
    OutboxEventType,
    ReadAcked,
    ReceiptAcked,
    Recovered,
    TimePassed,
    TransmitFailed,
    TransmitSucceeded,
)
from restante.model.errors import RestanteError
from restante.model.ids import MessageId
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import DeadCategory, Route, State
from restante.policy.capacity import OutboxLimits
from restante.policy.failures import Failure
from restante.policy.retry import ChannelSchedule, RetrySchedule
from restante.policy.send_order import MAIL_ROUTES
from restante.policy.settings import Settings
from restante.runtime.sqlite.file.integrity import check_file
from restante.runtime.sqlite.outbox.new_entry import new_entry_of
from restante.testing.deterministic import FakeClock
from support.outbox.entries import entry
from support.outbox.reference_model import OutboxModel
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, open_client_file, states_by_journal, states_by_rows

SECOND_MS = 1_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MACHINES = 40
OWNERS = ("drain-1", "drain-2")
LANES = ("north", "south", "control:north")
TIGHT = Settings(
    retry=RetrySchedule(max_attempts=5),
    channel_retry=ChannelSchedule(max_attempts=2),
    outbox=OutboxLimits(max_payload_bytes=1_000_000, max_pending_per_upstream_lane=3, control_reserve=10),
)
EVENTS: tuple[Event, ...] = (
    TransmitSucceeded(),
    DeliveryAcked(),
    ReceiptAcked(),
    ReadAcked(),
    TimePassed(),
    CapacityExceeded(),
    Cancelled(),
    Recovered(),
    Recovered(is_automatic=True),
)

anyone = st.integers(0, 1_000)
drawings = st.tuples(
    st.sampled_from(Route),
    st.sampled_from(LANES),
    st.sampled_from([Kind.TEXT, Kind.CONTROL, Kind.DRAWING, Kind.DISAPPEARING]),
    st.sampled_from(Priority),
    st.sampled_from([HOUR_MS, DAY_MS, 3 * DAY_MS, 90 * DAY_MS]),
    st.sampled_from([10, 10, 10, 400_000]),
    st.integers(-2, 0),
)


class Interrupted(Exception):
    """Something went wrong in the middle."""


class Mirrored(RuleBasedStateMachine):
    """Whatever is done to the file is done to the model; what one refuses, the other must refuse alike."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self._clock = FakeClock(NOW_MS)
        self._model = OutboxModel(settings=TIGHT)
        self._numbers = 0
        self._open()

    def _open(self) -> None:
        self._file = open_client_file(Path(self._directory.name) / "client.db", settings=TIGHT)
        self._file.database.run("PRAGMA synchronous = OFF")  # crashes are another test's business, and time is short

    def teardown(self) -> None:
        self._file.database.close()
        self._directory.cleanup()

    def _new(self, drawn: tuple[Route, str, Kind, Priority, int, int, int]) -> OutboxEntry:
        route, lane, kind, priority, life_ms, size_bytes, age_ms = drawn
        self._numbers += 1
        now_ms = self._clock.now_ms()
        return entry(
            self._numbers,
            route=route,
            lane=lane,
            kind=kind,
            priority=priority,
            payload=self._numbers.to_bytes(size_bytes, "big"),
            created_at_ms=now_ms + age_ms,  # the caller may have looked at the clock a little earlier
            queued_at_ms=now_ms,
            next_attempt_at_ms=now_ms,
            ttl_s=life_ms // SECOND_MS,
            expires_at_ms=now_ms + life_ms,
        )

    def _both(self, on_disk: Callable[[], object], in_model: Callable[[], object]) -> None:
        """The same answer, or the same refusal."""
        answers = []
        for operation in (on_disk, in_model):
            try:
                answers.append(operation())
            except RestanteError as refusal:
                answers.append((type(refusal), refusal.code))
        assert answers[0] == answers[1]

    def _accept(self, entries: list[OutboxEntry]) -> None:
        now_ms = self._clock.now_ms()
        arrivals = [new_entry_of(new) for new in entries]
        ids = [new.message_id for new in entries]
        self._both(
            lambda: self._file.outbox.accept_all(arrivals, given=ids, now_ms=now_ms),
            lambda: self._model.accept_all(entries, now_ms=now_ms),
        )

    def _apply(self, message_id: MessageId, event: Event) -> None:
        now_ms = self._clock.now_ms()
        self._both(
            lambda: [type(effect) for effect in self._file.outbox.apply(message_id, event, now_ms=now_ms)],
            lambda: [type(effect) for effect in self._model.apply(message_id, event, now_ms=now_ms)],
        )

    @rule(drawn=drawings)
    def accept(self, drawn: tuple[Route, str, Kind, Priority, int, int, int]) -> None:
        new, now_ms = self._new(drawn), self._clock.now_ms()
        self._both(
            lambda: self._file.outbox.accept(new, now_ms=now_ms), lambda: self._model.accept_all([new], now_ms=now_ms)
        )

    @rule(drawn=st.lists(drawings, min_size=2, max_size=5))
    def accept_all(self, drawn: list[tuple[Route, str, Kind, Priority, int, int, int]]) -> None:
        self._accept([self._new(one) for one in drawn])

    @precondition(lambda self: self._model.states)
    @rule(drawn=drawings, which=anyone)
    def accept_again(self, drawn: tuple[Route, str, Kind, Priority, int, int, int], which: int) -> None:
        """All or none: what was discarded or forgotten may come again, nothing else."""
        known = list(self._model.states)
        self._accept([self._new(drawn), self._new(drawn)._replace(message_id=known[which % len(known)])])

    @rule(
        owner=st.sampled_from(OWNERS),
        routes=st.sampled_from([tuple(Route), (Route.RELAY, Route.UPSTREAM), (Route.MESH, Route.CHANNEL)]),
        down=st.lists(st.tuples(st.sampled_from(Route), st.sampled_from(LANES)), max_size=2),
        limit=st.sampled_from([1, 2, 10]),
    )
    def lease(self, owner: str, routes: tuple[Route, ...], down: list[tuple[Route, str]], limit: int) -> None:
        now_ms = self._clock.now_ms()
        leased = self._file.outbox.lease(
            owner=owner,
            routes=routes,
            is_connected=lambda route, lane: (route, lane) not in down,
            limit=limit,
            now_ms=now_ms,
        )
        expected = self._model.lease(owner=owner, routes=routes, lanes_down=down, limit=limit, now_ms=now_ms)
        assert leased == expected
        for one in leased:
            assert one.state is State.SENDING
            assert now_ms < one.expires_at_ms
            assert not self._overtaken(one)

    def _overtaken(self, leased: OutboxEntry) -> list[OutboxEntry]:
        """Earlier entries that this one must not leave before (SPEC 3.4): in a lane with one in flight all unsent
        ones, in a pipelined lane those that are still pending."""
        if leased.was_sent:
            return []
        same_lane = [
            one
            for one in self._file.outbox.entries(limit=1_000)
            if (one.route, one.lane) == (leased.route, leased.lane)
        ]
        earlier = [one for one in same_lane if one.queue_number < leased.queue_number and not one.was_sent]
        return [one for one in earlier if one.state is State.PENDING or one.route not in MAIL_ROUTES]

    @precondition(lambda self: self._model.states)
    @rule(event=st.sampled_from(EVENTS), which=anyone)
    def hear(self, event: Event, which: int) -> None:
        known = [*self._model.states, *self._model.alive, *self._model.letters]
        self._apply(known[which % len(known)], event)

    @precondition(lambda self: self._model.alive)
    @rule(which=anyone, owner=st.sampled_from(OWNERS))
    def claim(self, which: int, owner: str) -> None:
        """Of one certain entry, whatever its turn."""
        known = list(self._model.alive)
        until_ms = self._clock.now_ms() + MINUTE_MS
        self._apply(known[which % len(known)], Leased(owner=owner, until_ms=until_ms))

    @precondition(lambda self: any(one.state is State.SENDING for one in self._model.alive.values()))
    @rule(
        which=anyone,
        owner=st.sampled_from([*OWNERS, None]),
        failure=st.sampled_from([Failure.NETWORK_TIMEOUT, *Failure]),
        dice=st.sampled_from([-1.0, 0.0, 0.7]),
        succeeds=st.booleans(),
    )
    def answer(self, which: int, owner: str | None, failure: Failure, dice: float, succeeds: bool) -> None:
        """To what is being sent; from its owner, or late, from another."""
        sending = [one for one in self._model.alive.values() if one.lease is not None]
        one = sending[which % len(sending)]
        assert one.lease is not None
        told_ms = 5 * SECOND_MS if failure is Failure.RATE_LIMITED else None
        failed = TransmitFailed(owner=owner or one.lease.owner, failure=failure, retry_after_ms=told_ms, dice=dice)
        self._apply(one.message_id, TransmitSucceeded() if succeeds else failed)

    @precondition(lambda self: self._model.letters)
    @rule(which=anyone, is_automatic=st.booleans())
    def recover(self, which: int, is_automatic: bool) -> None:
        known = list(self._model.letters)
        self._apply(known[which % len(known)], Recovered(is_automatic=is_automatic))

    @precondition(lambda self: self._model.states)
    @rule(which=anyone)
    def discard(self, which: int) -> None:
        known = [*self._model.states, *self._model.letters]
        message_id = known[which % len(known)]
        discarded = self._file.outbox.discard(message_id, now_ms=self._clock.now_ms())
        assert discarded is self._model.discard(message_id)

    @rule()
    def sweep(self) -> None:
        now_ms = self._clock.now_ms()
        assert self._file.outbox.sweep(now_ms=now_ms) == self._model.sweep(now_ms=now_ms)

    @rule()
    def tidy(self) -> None:
        self._file.outbox.run_maintenance(now_ms=self._clock.now_ms())
        self._model.run_maintenance(now_ms=self._clock.now_ms())

    @rule(by_ms=st.sampled_from([-MINUTE_MS, -1, 1, SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS, 7 * DAY_MS, 29 * DAY_MS]))
    def wait(self, by_ms: int) -> None:
        """Forward, or a little back, as clocks do when they are set."""
        self._clock.advance(by_ms)

    @rule(early_ms=st.integers(0, 1))
    def wait_for_what_comes_next(self, early_ms: int) -> None:
        times = [
            self._file.outbox.next_wake_ms(now_ms=self._clock.now_ms()),
            self._file.outbox.dead_letters.next_deadline_ms(),
        ]
        self._clock.at_ms = max(self._clock.at_ms, min((at_ms for at_ms in times if at_ms), default=0) - early_ms)

    @precondition(lambda self: self._model.alive)
    @rule(which=anyone, event=st.sampled_from([ReceiptAcked(), Cancelled()]), drawn=drawings)
    def fall(self, which: int, event: Event, drawn: tuple[Route, str, Kind, Priority, int, int, int]) -> None:
        """What is undone leaves no trace."""
        known, now_ms = list(self._model.alive), self._clock.now_ms()
        with suppress(Interrupted, RestanteError), self._file.database.transaction():
            self._file.outbox.apply(known[which % len(known)], event, now_ms=now_ms)
            self._file.outbox.lease_next(owner=OWNERS[0], now_ms=now_ms)
            self._file.outbox.accept(self._new(drawn), now_ms=now_ms)
            raise Interrupted
        self._file.outbox.take_changes()

    @rule()
    def reopen(self) -> None:
        self.the_same_was_told()
        self._file.database.close()
        self._open()

    @invariant()
    def the_same_is_held(self) -> None:
        outbox, alive = self._file.outbox, self._model.alive
        assert {one: outbox.load(one) for one in alive} == alive
        assert [one.message_id for one in outbox.entries(limit=1_000)] == sorted(
            alive, key=lambda one: alive[one].queue_number
        )
        assert outbox.held() == self._model.held()
        assert outbox.counts() == Counter(one.state for one in alive.values())
        assert [check.findings for check in check_file(self._file.database) if check.findings] == []

    @invariant()
    def the_same_is_dead(self) -> None:
        kept = self._file.outbox.dead_letters.letters(limit=1_000)
        assert {letter.entry.message_id for letter in kept} == self._model.letters.keys()
        for letter in kept:
            expected = self._model.letters[letter.entry.message_id]
            assert (letter.reason, letter.code, letter.category) == (expected.reason, expected.code, expected.category)
            assert (letter.moved_at_ms, letter.expires_at_ms) == (expected.moved_at_ms, expected.expires_at_ms)
            assert letter.entry.attempts == expected.total_attempts
            is_tombstone = letter.category is DeadCategory.EXPIRED
            assert self._file.outbox.dead_letters.payload(letter) == (None if is_tombstone else expected.entry.payload)

    @invariant()
    def no_body_is_left_behind(self) -> None:
        whole = sum(letter.category is not DeadCategory.EXPIRED for letter in self._model.letters.values())
        assert self._file.database.run("SELECT count(*) FROM message_body") == [(len(self._model.alive) + whole,)]

    @invariant()
    def the_same_has_ended(self) -> None:
        for message_id in self._model.states:
            ended = self._file.outbox.ended.find(message_id)
            known = self._model.ended.get(message_id)
            assert (None if ended is None else (ended.state, ended.confirmation, ended.ended_at_ms)) == known

    @invariant()
    def the_same_was_told(self) -> None:
        """In the same order; of what sweeps did, each message's own."""
        changes = [(one.message_id, one.notice, one.code) for one in self._file.outbox.take_changes()]
        told = [one for one in changes if one[1] is not OutboxEventType.SECURITY]
        for part in self._model.swept:
            told[part] = sorted(told[part], key=itemgetter(0))
            self._model.told[part] = sorted(self._model.told[part], key=itemgetter(0))
        assert told == self._model.told
        self._model.told.clear()
        self._model.swept.clear()

    @invariant()
    def the_books_balance(self) -> None:
        assert states_by_journal(self._file.journal) == self._model.states
        rows = {one: entry.state for one, entry in self._model.alive.items()}
        rows |= {one: letter.entry.state for one, letter in self._model.letters.items()}
        assert states_by_rows(self._file.database) == rows


@clause("1.4", "3.3", "3.4", "3.5", "3.6", "3.13", "5.2", "5.3", "5.4")
def test_the_outbox_on_disk_is_the_outbox_of_the_model_after_anything() -> None:
    # Shrinking takes minutes: add Phase.shrink where a failure is to be understood.
    phases = (Phase.explicit, Phase.reuse, Phase.generate)
    run_state_machine_as_test(
        Mirrored, settings=settings(max_examples=MACHINES, stateful_step_count=40, deadline=None, phases=phases)
    )

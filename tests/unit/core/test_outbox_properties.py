"""core/outbox: what holds after any events in any order, at any times."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from restante.core.outbox import step
from restante.core.outbox_events import (
    AppendJournalEvent,
    Cancelled,
    CapacityExceeded,
    DeletePayload,
    DeliveryAcked,
    Effect,
    Event,
    Leased,
    ReadAcked,
    ReceiptAcked,
    Recovered,
    RetransmitRequested,
    StoreDeadLetter,
    TimePassed,
    TransmitFailed,
    TransmitSucceeded,
)
from restante.model.errors import LocalProtocolError
from restante.model.journal import STATE_AFTER, JournalKind
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import ENDED, IN_FLIGHT, Route, State
from restante.policy.failures import Failure
from restante.policy.retry import ChannelSchedule, RetrySchedule
from restante.policy.settings import Settings
from restante.testing.deterministic import SeededEntropy
from support.outbox.entry_states import DAY_MS, HOUR_MS, MINUTE_MS, NOW_MS, accepted, journaled_states, notices
from support.spec.clauses import clause

MAX_ATTEMPTS = 5
SETTINGS = Settings(retry=RetrySchedule(max_attempts=MAX_ATTEMPTS), channel_retry=ChannelSchedule(max_attempts=3))
TWO_STEPS = ([State.SENT, State.DELIVERED], [State.PENDING, State.DELIVERED])
"""The only changes that pass through a state on their way: accepted where that is the end, and a late receipt."""

JUMPS_MS = (0, 1, 900, MINUTE_MS, HOUR_MS, DAY_MS, 7 * DAY_MS)
OWNERS = ("drain-1", "drain-2")
LEASES = tuple(Leased(owner=owner, until_ms=MINUTE_MS) for owner in OWNERS)  # counted from the moment of the claim
TIMEOUTS = tuple(TransmitFailed(owner=owner, failure=Failure.NETWORK_TIMEOUT) for owner in OWNERS)
FAILURES = tuple(
    TransmitFailed(owner=owner, failure=failure, retry_after_ms=told_ms, dice=dice)
    for owner, failure, told_ms, dice in product(OWNERS, Failure, (None, HOUR_MS), (-1.0, 0.3))
)
OTHERS: tuple[Event, ...] = (
    TransmitSucceeded(),
    DeliveryAcked(),
    ReceiptAcked(),
    ReadAcked(),
    TimePassed(),
    CapacityExceeded(),
    Cancelled(),
    Recovered(),
    RetransmitRequested(),
)
LIKELY: Mapping[State, tuple[Event, ...]] = {
    State.PENDING: LEASES,
    State.SENDING: (*TIMEOUTS * 12, *FAILURES[::8], *OTHERS[:1] * 4, *OTHERS[4:5] * 4),
    State.SENT: (*LEASES, DeliveryAcked()),
    State.DEAD: (Recovered(),),
}
"""What keeps an entry going: chosen blindly, nearly every life would be over before its third try."""

anything = st.sampled_from((*LEASES, *TIMEOUTS, *OTHERS)) | st.sampled_from(FAILURES)
entries = st.builds(
    accepted,
    route=st.sampled_from(Route),
    kind=st.sampled_from([Kind.TEXT, Kind.MEDIA, Kind.CONTROL, Kind.DISAPPEARING, Kind.DRAWING]),
    priority=st.sampled_from(Priority),
    expires_at_ms=st.sampled_from([HOUR_MS, 5 * DAY_MS, 30 * DAY_MS, 90 * DAY_MS]).map(lambda life: NOW_MS + life),
)


@dataclass(frozen=True, kw_only=True)
class Taken:
    """One step that the machine allowed."""

    event: Event
    before: OutboxEntry
    now: OutboxEntry
    effects: tuple[Effect, ...]


@dataclass(kw_only=True)
class Life:
    entry: OutboxEntry
    now_ms: int = NOW_MS
    taken: list[Taken] = field(default_factory=list)

    def meet(self, event: Event) -> None:
        """One event; a refused one must leave no trace, and cannot, since entries are frozen."""
        if isinstance(event, Leased):
            event = Leased(owner=event.owner, until_ms=self.now_ms + event.until_ms)
        before = self.entry
        try:
            self.entry, effects = step(before, event, now_ms=self.now_ms, settings=SETTINGS)
        except LocalProtocolError:
            return
        self.taken.append(Taken(event=event, before=before, now=self.entry, effects=effects))


def long_life(entry: OutboxEntry, seed: int) -> Life:
    """Sixty events, mostly when the entry is due and mostly what is to be expected then."""
    life = Life(entry=entry)
    for jump, chance, choice in zip(*[iter(SeededEntropy(seed).draw(180))] * 3, strict=True):
        due_ms = life.entry.lease.until_ms if life.entry.lease else life.entry.next_attempt_at_ms
        if jump < 100:
            life.now_ms = max(life.now_ms, due_ms)
        elif jump < 150:
            life.now_ms += JUMPS_MS[jump % len(JUMPS_MS)]
        blind = FAILURES if chance < 5 else OTHERS if chance < 15 else LEASES
        events = blind if chance < 20 else LIKELY.get(life.entry.state, OTHERS)
        life.meet(events[choice % len(events)])
    return life


lives = st.builds(long_life, entries, st.integers(0, 2**64 - 1))


@clause("1.4")
@given(entries, st.lists(st.tuples(st.sampled_from(JUMPS_MS), anything), max_size=20))
def test_any_events_at_all_leave_entry_and_journal_in_the_same_state(
    entry: OutboxEntry, history: list[tuple[int, Event]]
) -> None:
    life = Life(entry=entry)
    for jump_ms, event in history:
        life.now_ms += jump_ms
        life.meet(event)
    journaled = [state for one in life.taken for state in journaled_states(one.effects)]
    assert life.entry.state is (journaled[-1] if journaled else State.PENDING)


@clause("1.4")
@settings(max_examples=400)
@given(lives)
def test_the_last_journaled_state_is_always_the_state_of_the_entry(life: Life) -> None:
    journaled = STATE_AFTER[JournalKind.ACCEPTED]
    for one in life.taken:
        path = journaled_states(one.effects)
        if one.now.state is one.before.state:
            assert path == []
        else:
            assert path == [one.now.state] or path in TWO_STEPS
        journaled = path[-1] if path else journaled
        assert journaled is one.now.state


@clause("1.4")
@given(lives)
def test_an_end_is_final_but_for_a_dead_letter_that_comes_back(life: Life) -> None:
    for one in life.taken:
        if one.before.state not in ENDED or one.now.state is one.before.state:
            continue
        assert one.before.state is State.DEAD
        if one.now.state in IN_FLIGHT:
            assert isinstance(one.event, Recovered)
        else:
            assert one.now.state is State.DELIVERED
            assert isinstance(one.event, ReceiptAcked | ReadAcked)


@clause("1.4")
@given(lives)
def test_nothing_is_dropped_without_a_reason(life: Life) -> None:
    for one in life.taken:
        for effect in one.effects:
            if isinstance(effect, AppendJournalEvent) and effect.kind in (
                JournalKind.EXPIRED,
                JournalKind.EVICTED,
                JournalKind.DEAD_LETTERED,
                JournalKind.RETRIED,
            ):
                assert effect.code
                assert notices(one.effects) or effect.code == "pruned"


@given(lives)
def test_tries_never_exceed_their_limit(life: Life) -> None:
    limit = 3 if life.entry.route is Route.CHANNEL else MAX_ATTEMPTS
    for one in life.taken:
        assert 0 <= one.now.attempts <= limit


@given(lives)
def test_what_is_confirmed_never_gets_less(life: Life) -> None:
    for one in life.taken:
        assert one.now.confirmation >= one.before.confirmation


@clause("3.5")
@given(lives)
def test_there_is_a_claim_exactly_while_sending_and_it_lapses(life: Life) -> None:
    for one in life.taken:
        assert (one.now.lease is not None) is (one.now.state is State.SENDING)
    if life.entry.lease is not None:
        life.now_ms = max(life.now_ms, life.entry.lease.until_ms)
        life.meet(TimePassed())
        assert life.entry.state is not State.SENDING


@given(lives)
def test_an_entry_is_forgotten_and_buried_exactly_when_it_ends(life: Life) -> None:
    for one in life.taken:
        has_ended = one.now.state in ENDED and one.now.state is not one.before.state
        assert one.effects.count(DeletePayload()) == has_ended
        letters = [effect.letter for effect in one.effects if isinstance(effect, StoreDeadLetter)]
        assert len(letters) == (has_ended and one.now.state in (State.DEAD, State.EXPIRED))
        for letter in letters:
            assert letter.entry.state is one.now.state
            assert (letter.entry.payload == b"") is (one.now.state is State.EXPIRED)


@given(lives)
def test_nothing_stays_in_flight_for_ever(life: Life) -> None:
    life.now_ms += 200 * DAY_MS
    life.meet(TimePassed())
    assert life.entry.state in ENDED

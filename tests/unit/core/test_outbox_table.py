"""core/outbox: every state meets every event as the module's transition table says, and the table says nothing more."""

from itertools import product
from typing import Final, get_args

import pytest

from restante.core.outbox import TABLE, step
from restante.core.outbox_events import (
    Cancelled,
    CapacityExceeded,
    DeliveryAcked,
    Event,
    Leased,
    ReadAcked,
    ReceiptAcked,
    RecipientReached,
    Recovered,
    RetransmitRequested,
    TimePassed,
    TransmitFailed,
    TransmitSucceeded,
)
from restante.model.errors import LocalProtocolError
from restante.model.kinds import Kind
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import ENDED, IN_FLIGHT, State
from restante.policy.failures import Failure
from support.outbox.entry_states import DAY_MS, NOW_MS, OWNER, SETTINGS, journaled_states, reached
from support.spec.clauses import clause

EVENTS: Final[tuple[Event, ...]] = (
    Leased(owner=OWNER, until_ms=NOW_MS + 60_000),
    TransmitSucceeded(),
    *(TransmitFailed(owner=OWNER, failure=failure) for failure in Failure),
    TransmitFailed(owner="another", failure=Failure.NETWORK_TIMEOUT),
    DeliveryAcked(),
    ReceiptAcked(),
    ReadAcked(),
    TimePassed(),
    TimePassed(connected_ms=4 * DAY_MS),
    CapacityExceeded(),
    Cancelled(),
    Recovered(),
    RetransmitRequested(),
    RecipientReached(),
)
TIMES_MS: Final = (NOW_MS, NOW_MS + DAY_MS, NOW_MS + 29 * DAY_MS, NOW_MS + 31 * DAY_MS)
PAIRS: Final = list(product(State, get_args(Event)))


def examples(state: State) -> list[OutboxEntry]:
    """Entries in that state: as the machine brings one there, as a control message, and with no attempts left."""
    one = reached(state)
    return [one, one._replace(kind=Kind.CONTROL), one._replace(attempts=99)]


def outcomes(state: State, event_type: type[Event]) -> set[State]:
    """The states to which events of this type lead; empty if the pair is refused."""
    found: set[State] = set()
    for entry, event, now_ms in product(examples(state), EVENTS, TIMES_MS):
        if type(event) is not event_type:
            continue
        try:
            left, effects = step(entry, event, now_ms=now_ms, settings=SETTINGS)
        except LocalProtocolError:
            continue
        journaled = journaled_states(effects)
        assert (journaled[-1] if journaled else state) is left.state, "each change of state is journaled (SPEC 1.4)"
        found.add(left.state)
    return found


@clause("1.4")
@pytest.mark.parametrize(("state", "event"), PAIRS, ids=[f"{state.value}-{event.__name__}" for state, event in PAIRS])
def test_each_state_meets_each_event_as_the_table_says(state: State, event: type[Event]) -> None:
    row = TABLE.get((state, event))
    assert outcomes(state, event) == (set() if row is None else row.to)


def test_the_table_names_only_states_and_events_of_the_machine() -> None:
    assert set(TABLE) <= set(PAIRS)


@pytest.mark.parametrize("state", State)
def test_the_examples_are_in_the_states_they_stand_for(state: State) -> None:
    assert reached(state).state is state


@clause("3.13")
def test_nothing_but_recovery_and_a_late_receipt_leaves_an_end() -> None:
    leaving = {pair for pair, row in TABLE.items() if pair[0] in ENDED and row.to != {pair[0]}}
    assert leaving == {(State.DEAD, Recovered), (State.DEAD, ReceiptAcked), (State.DEAD, ReadAcked)}
    assert {state for pair in leaving for state in TABLE[pair].to} & IN_FLIGHT == {State.PENDING}


@pytest.mark.parametrize("state", State)
def test_only_what_waits_is_leased_and_only_what_is_pending_is_evicted(state: State) -> None:
    assert ((state, Leased) in TABLE) == (state in (State.PENDING, State.SENT))
    assert ((state, CapacityExceeded) in TABLE) == (state is State.PENDING)

"""core/outbox: every state meets every event, each pair written out by hand.

Where SPEC says what follows, the comment names the clause. Where it is silent (which late events are passed over and
which are refused) the table holds the machine to what it does.
"""

from itertools import product
from typing import Final, get_args

import pytest

from restante.core.outbox import step
from restante.core.outbox_events import (
    Cancelled,
    CapacityExceeded,
    DeliveryAcked,
    Event,
    Leased,
    ReadAcked,
    ReceiptAcked,
    Recovered,
    RetransmitRequested,
    TimePassed,
    TransmitFailed,
    TransmitSucceeded,
)
from restante.model.error_codes import Code
from restante.model.errors import LocalProtocolError
from restante.model.states import ENDED, IN_FLIGHT, State
from restante.policy.failures import Failure
from support.outbox.entry_states import NOW_MS, OWNER, SETTINGS, journaled_states, reached
from support.spec.clauses import clause

STILL: Final = "same state"
NEVER: Final = "refused"

DUE_MS: Final = NOW_MS + 29 * 86_400_000
"""A day before the relay forgets it: late enough to store a sent entry again (SPEC 10.4), early enough to be alive."""

EVENTS: Final[dict[type[Event], Event]] = {
    Leased: Leased(owner=OWNER, until_ms=DUE_MS + 60_000),
    TransmitSucceeded: TransmitSucceeded(),
    TransmitFailed: TransmitFailed(owner=OWNER, failure=Failure.NETWORK_TIMEOUT),
    DeliveryAcked: DeliveryAcked(),
    ReceiptAcked: ReceiptAcked(),
    ReadAcked: ReadAcked(),
    TimePassed: TimePassed(),
    CapacityExceeded: CapacityExceeded(),
    Cancelled: Cancelled(),
    Recovered: Recovered(),
    RetransmitRequested: RetransmitRequested(),
}
"""One of each, such that it applies: due, by the owner of the claim, a failure that is tried again."""

P, SG, S, D, X, V, DEAD = (
    State.PENDING,
    State.SENDING,
    State.SENT,
    State.DELIVERED,
    State.EXPIRED,
    State.EVICTED,
    State.DEAD,
)

TABLE: Final[dict[tuple[State, type[Event]], State | str]] = {
    # Pending: waits for its first or next try. Answers to an earlier try may still come.
    (P, Leased): SG,
    (P, TransmitSucceeded): S,
    (P, TransmitFailed): STILL,
    (P, DeliveryAcked): STILL,
    (P, ReceiptAcked): D,
    (P, ReadAcked): D,
    (P, TimePassed): STILL,
    (P, CapacityExceeded): V,
    (P, Cancelled): DEAD,
    (P, Recovered): NEVER,
    (P, RetransmitRequested): STILL,
    # Sending: somebody has the claim, so nobody else gets it and it is not the one to evict (SPEC 3.5, 3.6).
    (SG, Leased): NEVER,
    (SG, TransmitSucceeded): S,
    (SG, TransmitFailed): P,
    (SG, DeliveryAcked): STILL,
    (SG, ReceiptAcked): D,
    (SG, ReadAcked): D,
    (SG, TimePassed): STILL,
    (SG, CapacityExceeded): NEVER,
    (SG, Cancelled): DEAD,
    (SG, Recovered): NEVER,
    (SG, RetransmitRequested): STILL,
    # Sent: kept until the receipt (SPEC 3.8), and stored again near the end of its stored life (SPEC 10.4).
    (S, Leased): SG,
    (S, TransmitSucceeded): STILL,
    (S, TransmitFailed): STILL,
    (S, DeliveryAcked): STILL,
    (S, ReceiptAcked): D,
    (S, ReadAcked): D,
    (S, TimePassed): STILL,
    (S, CapacityExceeded): NEVER,
    (S, Cancelled): DEAD,
    (S, Recovered): NEVER,
    (S, RetransmitRequested): STILL,
    # Delivered: the end. Late and repeated answers are normal and move nothing backward (SPEC 3.13).
    (D, Leased): NEVER,
    (D, TransmitSucceeded): STILL,
    (D, TransmitFailed): STILL,
    (D, DeliveryAcked): STILL,
    (D, ReceiptAcked): STILL,
    (D, ReadAcked): STILL,
    (D, TimePassed): STILL,
    (D, CapacityExceeded): NEVER,
    (D, Cancelled): STILL,
    (D, Recovered): NEVER,
    (D, RetransmitRequested): STILL,
    # Expired: the end; there is no payload to send any more (SPEC 5.2).
    (X, Leased): NEVER,
    (X, TransmitSucceeded): STILL,
    (X, TransmitFailed): STILL,
    (X, DeliveryAcked): STILL,
    (X, ReceiptAcked): STILL,
    (X, ReadAcked): STILL,
    (X, TimePassed): STILL,
    (X, CapacityExceeded): NEVER,
    (X, Cancelled): STILL,
    (X, Recovered): NEVER,
    (X, RetransmitRequested): STILL,
    # Evicted: the end, reported when it happened (SPEC 3.6).
    (V, Leased): NEVER,
    (V, TransmitSucceeded): STILL,
    (V, TransmitFailed): STILL,
    (V, DeliveryAcked): STILL,
    (V, ReceiptAcked): STILL,
    (V, ReadAcked): STILL,
    (V, TimePassed): STILL,
    (V, CapacityExceeded): NEVER,
    (V, Cancelled): STILL,
    (V, Recovered): NEVER,
    (V, RetransmitRequested): STILL,
    # Dead: given up, yet it may be recovered (SPEC 5.4), or turn out to have arrived by an earlier try.
    (DEAD, Leased): NEVER,
    (DEAD, TransmitSucceeded): STILL,
    (DEAD, TransmitFailed): STILL,
    (DEAD, DeliveryAcked): STILL,
    (DEAD, ReceiptAcked): D,
    (DEAD, ReadAcked): D,
    (DEAD, TimePassed): STILL,
    (DEAD, CapacityExceeded): NEVER,
    (DEAD, Cancelled): STILL,
    (DEAD, Recovered): P,
    (DEAD, RetransmitRequested): STILL,
}


def moment(state: State, event: type[Event]) -> int:
    """Now, but for storing a sent entry again, which is due only later."""
    return DUE_MS if (state, event) == (State.SENT, Leased) else NOW_MS


def test_the_table_has_every_state_and_every_event() -> None:
    events = get_args(Event)
    assert (len(State), len(events)) == (7, 11)
    assert set(TABLE) == set(product(State, events))
    assert {each: type(event) for each, event in EVENTS.items()} == {each: each for each in events}


@pytest.mark.parametrize("state", State)
def test_the_examples_are_in_the_states_they_stand_for(state: State) -> None:
    assert reached(state).state is state


@clause("1.4")
@pytest.mark.parametrize(("state", "event"), TABLE, ids=[f"{state.value}-{event.__name__}" for state, event in TABLE])
def test_each_state_meets_each_event_as_the_table_says(state: State, event: type[Event]) -> None:
    entry, expected, now_ms = reached(state), TABLE[state, event], moment(state, event)
    if expected == NEVER:
        with pytest.raises(LocalProtocolError, match=f"{event.__name__} while {state}") as refused:
            step(entry, EVENTS[event], now_ms=now_ms, settings=SETTINGS)
        assert refused.value.code is Code.ILLEGAL_TRANSITION
        assert entry == reached(state)
        return
    left, effects = step(entry, EVENTS[event], now_ms=now_ms, settings=SETTINGS)
    if expected == STILL:
        assert left.state is state
        assert journaled_states(effects) == []
    else:
        assert left.state == expected
        assert journaled_states(effects)[-1] == expected


def test_nothing_but_recovery_and_a_late_receipt_leaves_an_end() -> None:
    leaving = {pair for pair, expected in TABLE.items() if pair[0] in ENDED and expected not in (STILL, NEVER)}
    assert leaving == {(State.DEAD, Recovered), (State.DEAD, ReceiptAcked), (State.DEAD, ReadAcked)}
    assert {TABLE[pair] for pair in leaving} & IN_FLIGHT == {State.PENDING}

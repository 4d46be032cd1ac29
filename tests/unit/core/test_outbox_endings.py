"""core/outbox: how messages end, and come back, in the situations SPEC names."""

import pytest

from restante.core.outbox_events import (
    AppendJournalEvent,
    Cancelled,
    CapacityExceeded,
    DeletePayload,
    DeliveryAcked,
    ReadAcked,
    ReceiptAcked,
    Recovered,
    RetransmitRequested,
    TimePassed,
    TransmitSucceeded,
)
from restante.model.error_codes import Code
from restante.model.errors import LocalProtocolError
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import DeadLetter, OutboxEntry
from restante.model.states import Confirmation, DeadCategory, DeadReason, Route, State
from restante.policy.failures import Failure
from restante.policy.settings import Settings
from support.outbox.entry_states import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    NOW_MS,
    SECOND_MS,
    accepted,
    after,
    buried,
    failed_times,
    failure,
    journaled_states,
    lease,
    leased,
    notices,
    reached,
    records,
    taken,
)
from support.spec.clauses import clause

# Confirmation


@clause("3.8")
@pytest.mark.parametrize("route", [Route.MESH, Route.RELAY])
def test_mesh_and_relay_keep_an_entry_until_the_receipt(route: Route) -> None:
    sent, effects = taken(leased(accepted(route=route)), TransmitSucceeded(), at_ms=NOW_MS + 40)
    assert (sent.state, sent.was_sent, sent.payload) == (State.SENT, True, b"sealed")
    assert AppendJournalEvent(kind=JournalKind.SENT, latency_ms=40) in effects
    assert notices(effects) == [("sent", None)]
    assert DeletePayload() not in effects
    stored = after(sent, DeliveryAcked())
    assert stored.state is State.SENT
    done, effects = taken(stored, ReceiptAcked(), at_ms=NOW_MS + 90)
    assert done.state is State.DELIVERED
    assert AppendJournalEvent(kind=JournalKind.DELIVERED, latency_ms=90) in effects
    assert DeletePayload() in effects


def test_a_try_that_succeeds_clears_the_error_of_the_one_before() -> None:
    failed = failed_times(accepted(), 1, Settings())
    assert failed.last_error is Code.NETWORK_UNREACHABLE
    at_ms = failed.next_attempt_at_ms
    assert after(leased(failed, at_ms=at_ms), TransmitSucceeded(), at_ms=at_ms).last_error is None


@clause("3.8")
@pytest.mark.parametrize(("route", "kind"), [(Route.CHANNEL, Kind.TEXT), (Route.RELAY, Kind.CONTROL)])
def test_channel_entries_and_control_messages_end_when_accepted(route: Route, kind: Kind) -> None:
    done, effects = taken(leased(accepted(route=route, kind=kind)), TransmitSucceeded())
    assert done.state is State.DELIVERED
    assert records(effects) == [("sent", None), ("delivered", None)]
    assert journaled_states(effects) == [State.SENT, State.DELIVERED]
    assert DeletePayload() in effects


@pytest.mark.parametrize("state", [State.PENDING, State.SENDING, State.SENT])
def test_a_delivery_ack_is_told_once_whenever_it_comes(state: State) -> None:
    stored, effects = taken(reached(state), DeliveryAcked())
    assert stored.state is state
    assert stored.confirmation is Confirmation.STORED
    assert notices(effects) == [("delivery_confirmed", None)]
    assert taken(stored, DeliveryAcked()) == (stored, ())


def test_a_late_delivery_ack_after_the_receipt_changes_nothing() -> None:
    done = after(reached(State.SENT), ReceiptAcked())
    assert done.confirmation is Confirmation.RECEIVED
    assert taken(done, DeliveryAcked()) == (done, ())


@pytest.mark.parametrize("state", [State.PENDING, State.SENDING, State.SENT])
def test_read_implies_received(state: State) -> None:
    done, effects = taken(reached(state), ReadAcked(), at_ms=NOW_MS + 90)
    assert (done.state, done.confirmation) == (State.DELIVERED, Confirmation.READ)
    assert records(effects) == [("delivered", None), ("read", None)]
    assert notices(effects) == [("delivered", None), ("read", None)]


def test_read_after_received_is_told_once_and_receipts_after_it_change_nothing() -> None:
    read, effects = taken(reached(State.DELIVERED), ReadAcked())
    assert notices(effects) == [("read", None)]
    for late in (ReadAcked(), ReceiptAcked(), DeliveryAcked()):
        assert taken(read, late) == (read, ())


@clause("1.4")
def test_a_receipt_after_the_dead_letter_is_booked_as_recovered_and_then_delivered() -> None:
    dead = after(reached(State.SENT), Cancelled())
    done, effects = taken(dead, ReceiptAcked(), at_ms=NOW_MS + DAY_MS)
    assert (done.state, done.confirmation) == (State.DELIVERED, Confirmation.RECEIVED)
    assert records(effects) == [("recovered", "late_receipt"), ("delivered", None)]
    assert notices(effects) == [("delivered", None)]


# Storing again, giving up, coming back


@clause("3.14", "10.4")
def test_an_unreceipted_entry_is_stored_again_once_after_a_day_and_then_before_its_copy_expires() -> None:
    sent = after(leased(accepted(expires_at_ms=NOW_MS + 90 * DAY_MS)), TransmitSucceeded(), at_ms=NOW_MS)
    due_ms = NOW_MS + DAY_MS
    assert sent.next_attempt_at_ms == due_ms
    with pytest.raises(LocalProtocolError):
        after(sent, lease(due_ms - 1), at_ms=due_ms - 1)
    again, effects = taken(sent, lease(due_ms), at_ms=due_ms)
    assert (again.state, again.attempts) == (State.SENDING, 1)
    assert records(effects) == [("attempted", None)]
    assert after(again, TransmitSucceeded(), at_ms=due_ms).next_attempt_at_ms == due_ms + 29 * DAY_MS


def test_an_entry_that_ends_before_its_stored_copy_is_not_stored_again() -> None:
    at_ms = NOW_MS + DAY_MS // 2
    sent = after(leased(accepted(expires_at_ms=at_ms)), TransmitSucceeded())
    assert sent.next_attempt_at_ms == at_ms
    assert after(sent, lease(at_ms), at_ms=at_ms).state is State.EXPIRED


@clause("1.4")
def test_an_eviction_is_journaled_and_reported_with_its_reason() -> None:
    gone, effects = taken(accepted(), CapacityExceeded())
    assert gone.state is State.EVICTED
    assert records(effects) == [("evicted", "EvictedForCapacity")]
    assert notices(effects) == [("evicted", "EvictedForCapacity")]
    assert DeletePayload() in effects


@clause("5.2")
@pytest.mark.parametrize("state", [State.PENDING, State.SENDING, State.SENT])
def test_a_cancelled_message_is_a_dead_letter_that_is_not_retried_by_itself(state: State) -> None:
    dead, effects = taken(reached(state), Cancelled())
    letter = buried(effects)
    assert (dead.state, dead.lease) == (State.DEAD, None)
    assert (letter.reason, letter.category) == (DeadReason.CANCELLED, DeadCategory.PERMANENT)
    assert records(effects) == [("dead_lettered", "cancelled")]


def test_recovery_starts_the_tries_the_queue_time_and_the_life_anew() -> None:
    tried = leased(accepted(attempts=14, has_failed_to_encrypt=True, times_stored=1))
    dead = after(tried, failure(Failure.NETWORK_TIMEOUT))
    at_ms = NOW_MS + 6 * DAY_MS
    back, effects = taken(dead, Recovered(), at_ms=at_ms)
    assert (back.state, back.attempts, back.has_failed_to_encrypt, back.was_sent) == (State.PENDING, 0, False, False)
    assert (back.queued_at_ms, back.next_attempt_at_ms) == (at_ms, at_ms)
    assert (back.created_at_ms, back.expires_at_ms) == (NOW_MS, at_ms + 30 * DAY_MS)
    assert records(effects) == [("recovered", None)]
    assert notices(effects) == [("recovered", None)]
    assert after(back, lease(at_ms), at_ms=at_ms).state is State.SENDING


def test_recovered_link_traffic_is_not_pruned_at_once() -> None:
    dead = after(accepted(kind=Kind.DRAWING, priority=Priority.LOW, ttl_s=30 * 86_400), Cancelled())
    at_ms = NOW_MS + 8 * DAY_MS
    back = after(dead, Recovered(), at_ms=at_ms)
    assert after(back, lease(at_ms), at_ms=at_ms).state is State.SENDING


def test_what_has_expired_cannot_be_recovered() -> None:
    dead = after(accepted(), Cancelled())
    assert after(dead, Recovered(), at_ms=NOW_MS + 30 * DAY_MS - 1).state is State.PENDING
    with pytest.raises(LocalProtocolError, match="has expired") as refused:
        after(dead, Recovered(), at_ms=NOW_MS + 30 * DAY_MS)
    assert refused.value.code is Code.TTL_EXPIRED


def exhausted(entry: OutboxEntry, at_ms: int) -> tuple[OutboxEntry, DeadLetter]:
    """Given up after its fifteenth try at that time."""
    dead, effects = taken(leased(entry._replace(attempts=14), at_ms=at_ms), failure(), at_ms=at_ms)
    return dead, buried(effects)


@clause("5.3", "5.4")
def test_a_daily_retry_keeps_the_end_of_the_message_and_the_retention_of_its_first_burial() -> None:
    dead, first = exhausted(accepted(), NOW_MS)
    for day in range(1, 7):
        back, effects = taken(dead, Recovered(is_automatic=True), at_ms=NOW_MS + day * DAY_MS)
        assert (back.state, back.attempts, back.next_attempt_at_ms) == (State.PENDING, 0, NOW_MS + day * DAY_MS)
        assert back.expires_at_ms == NOW_MS + 30 * DAY_MS
        assert records(effects) == [("recovered", "automatic_retry")]
        dead, letter = exhausted(back, NOW_MS + day * DAY_MS)
        assert letter.moved_at_ms == NOW_MS + day * DAY_MS
        assert letter.expires_at_ms == first.expires_at_ms == NOW_MS + 30 * DAY_MS


@clause("5.3", "5.4")
def test_recovery_by_hand_renews_both_the_message_and_how_long_its_letter_is_kept() -> None:
    dead, _ = exhausted(accepted(), NOW_MS)
    retried, _ = exhausted(after(dead, Recovered(is_automatic=True), at_ms=NOW_MS + DAY_MS), NOW_MS + DAY_MS)
    at_ms = NOW_MS + 2 * DAY_MS
    back = after(retried, Recovered(), at_ms=at_ms)
    assert back.expires_at_ms == at_ms + 30 * DAY_MS
    _, letter = exhausted(back, at_ms)
    assert letter.expires_at_ms == at_ms + 30 * DAY_MS


@clause("5.3")
def test_the_tombstone_of_a_message_that_was_a_dead_letter_before_is_kept_for_its_whole_day() -> None:
    dead, _ = exhausted(accepted(expires_at_ms=NOW_MS + 5 * DAY_MS), NOW_MS)
    back = after(dead, Recovered(is_automatic=True), at_ms=NOW_MS + DAY_MS)
    sent = after(leased(back, at_ms=NOW_MS + DAY_MS), TransmitSucceeded(), at_ms=NOW_MS + DAY_MS)
    _, effects = taken(sent, TimePassed(), at_ms=NOW_MS + 5 * DAY_MS)
    assert buried(effects).expires_at_ms == NOW_MS + 6 * DAY_MS


def test_what_has_expired_is_not_retried_by_itself() -> None:
    dead, _ = exhausted(accepted(), NOW_MS)
    with pytest.raises(LocalProtocolError, match="has expired"):
        after(dead, Recovered(is_automatic=True), at_ms=NOW_MS + 30 * DAY_MS)


@clause("5.1")
def test_a_dead_letter_is_the_whole_message_with_why_when_and_how_often() -> None:
    entry = accepted(attempts=2, first_attempt_at_ms=NOW_MS - HOUR_MS)
    dead, effects = taken(leased(entry), failure(Failure.TOO_LARGE), at_ms=NOW_MS + SECOND_MS)
    letter = buried(effects)
    assert letter.entry == dead
    assert (letter.entry.payload, letter.entry.sealed_plaintext) == (entry.payload, entry.sealed_plaintext)
    assert (letter.reason, letter.code) == (DeadReason.PERMANENT_FAILURE, Code.MESSAGE_TOO_LARGE)
    assert (letter.category, letter.total_attempts) == (DeadCategory.PERMANENT, 3)
    assert (letter.first_attempt_at_ms, letter.last_attempt_at_ms) == (NOW_MS - HOUR_MS, NOW_MS)
    assert (letter.moved_at_ms, letter.expires_at_ms) == (NOW_MS + SECOND_MS, NOW_MS + SECOND_MS + 30 * DAY_MS)


def test_what_its_reader_misses_is_due_again_at_once_and_stays_sent_until_then() -> None:
    sent = after(leased(accepted()), TransmitSucceeded())
    wanted, effects = taken(sent, RetransmitRequested(), at_ms=NOW_MS + 2 * MINUTE_MS)
    assert (wanted.state, wanted.next_attempt_at_ms, effects) == (State.SENT, NOW_MS + 2 * MINUTE_MS, ())
    again = after(wanted, lease(NOW_MS + 2 * MINUTE_MS), at_ms=NOW_MS + 2 * MINUTE_MS)
    assert (again.state, again.attempts) == (State.SENDING, 1)

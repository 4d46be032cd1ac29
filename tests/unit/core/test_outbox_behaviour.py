"""core/outbox: what the machine does with time and with tries, in the situations SPEC names."""

import pytest

from restante.core.outbox_events import (
    DeletePayload,
    Event,
    ResetSession,
    TimePassed,
    TransmitFailed,
    TransmitSucceeded,
)
from restante.model.error_codes import Code
from restante.model.errors import LocalProtocolError
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import Lease
from restante.model.states import DeadCategory, DeadReason, Route, State
from restante.policy.failures import Failure
from restante.policy.retry import ChannelSchedule, RetrySchedule
from restante.policy.settings import Settings
from support.outbox.entry_states import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    NOW_MS,
    OWNER,
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

# Time


@clause("2.6", "3.3")
@pytest.mark.parametrize("event", [TimePassed(), lease(NOW_MS + HOUR_MS)], ids=["sweep", "drain"])
def test_an_expired_message_is_never_transmitted(event: Event) -> None:
    entry = accepted(expires_at_ms=NOW_MS + HOUR_MS)
    assert after(entry, event, at_ms=NOW_MS + HOUR_MS).state is State.EXPIRED
    assert after(entry, lease(), at_ms=NOW_MS + HOUR_MS - 1).state is State.SENDING


@clause("3.3")
def test_expiry_is_tested_before_the_queue_time() -> None:
    entry = accepted(expires_at_ms=NOW_MS + 24 * HOUR_MS)
    assert after(entry, TimePassed(connected_ms=24 * HOUR_MS), at_ms=NOW_MS + 24 * HOUR_MS).state is State.EXPIRED


@clause("3.3")
def test_expiry_is_tested_before_anything_else_about_a_claim_that_lapsed() -> None:
    out_of_tries = leased(accepted(attempts=14, expires_at_ms=NOW_MS + MINUTE_MS))
    ended, effects = taken(out_of_tries, TimePassed(), at_ms=NOW_MS + MINUTE_MS)
    assert ended.state is State.EXPIRED
    assert records(effects) == [("expired", "E010")]


@clause("3.3")
@pytest.mark.parametrize("kind", Failure)
def test_a_try_that_fails_after_the_end_of_the_message_ends_it_as_expired(kind: Failure) -> None:
    out_of_tries = leased(accepted(attempts=14, expires_at_ms=NOW_MS + SECOND_MS))
    ended, effects = taken(out_of_tries, failure(kind), at_ms=NOW_MS + SECOND_MS)
    assert ended.state is State.EXPIRED
    assert buried(effects).entry.payload == b""
    assert (ResetSession() in effects) is (kind is Failure.ENCRYPTION_FAILED)


@clause("5.2")
def test_an_expired_message_leaves_a_tombstone_without_payload_for_a_day() -> None:
    ended, effects = taken(accepted(expires_at_ms=NOW_MS), TimePassed())
    letter = buried(effects)
    assert (letter.entry.payload, letter.entry.sealed_plaintext) == (b"", b"")
    assert (letter.reason, letter.category, letter.code) == (DeadReason.EXPIRED, DeadCategory.EXPIRED, Code.TTL_EXPIRED)
    assert letter.expires_at_ms == NOW_MS + DAY_MS
    assert (ended.state, ended.last_error) == (State.EXPIRED, Code.TTL_EXPIRED)
    assert records(effects) == [("expired", "E010")]
    assert notices(effects) == [("expired", "E010")]
    assert DeletePayload() in effects


@clause("2.2", "5.2")
@pytest.mark.parametrize(("priority", "hours"), [(Priority.HIGH, 1), (Priority.NORMAL, 24), (Priority.LOW, 72)])
def test_an_entry_that_waited_too_long_unsent_becomes_a_retriable_dead_letter(priority: Priority, hours: int) -> None:
    entry = accepted(priority=priority)
    assert after(entry, TimePassed(connected_ms=hours * HOUR_MS - 1), at_ms=NOW_MS + 20 * DAY_MS) == entry
    dead, effects = taken(entry, TimePassed(connected_ms=hours * HOUR_MS))
    letter = buried(effects)
    assert dead.state is State.DEAD
    assert (letter.reason, letter.category) == (DeadReason.QUEUE_TIME_EXCEEDED, DeadCategory.RETRIABLE)
    assert letter.expires_at_ms == entry.expires_at_ms
    assert letter.entry.payload == b"sealed"
    assert records(effects) == [("dead_lettered", "queue_time_exceeded")]
    assert notices(effects) == [("dead_lettered", "queue_time_exceeded")]


@clause("2.2")
def test_an_entry_that_was_sent_once_does_not_outwait_its_time() -> None:
    at_ms = NOW_MS + 29 * DAY_MS
    again = after(leased(reached(State.SENT), at_ms=at_ms), failure(), at_ms=at_ms)
    assert again.state is State.PENDING
    assert after(again, TimePassed(), at_ms=at_ms + 5 * MINUTE_MS) == again
    assert after(reached(State.SENT), TimePassed(), at_ms=at_ms) == reached(State.SENT)


@clause("3.9")
def test_old_upstream_traffic_is_pruned_without_an_event_but_with_a_journal_event() -> None:
    drawing = accepted(route=Route.UPSTREAM, kind=Kind.DRAWING, priority=Priority.LOW)
    ended, effects = taken(drawing, TimePassed(), at_ms=NOW_MS + 7 * DAY_MS)
    assert ended.state is State.EXPIRED
    assert notices(effects) == []
    assert records(effects) == [("expired", "pruned")]
    assert journaled_states(effects) == [State.EXPIRED]


# Trying


@clause("3.5")
def test_a_drain_claims_an_entry_for_itself_until_a_deadline() -> None:
    entry, effects = taken(accepted(), lease())
    assert entry.lease == Lease(owner=OWNER, until_ms=NOW_MS + MINUTE_MS)
    assert (entry.attempts, entry.first_attempt_at_ms, entry.last_attempt_at_ms) == (1, NOW_MS, NOW_MS)
    assert records(effects) == [("attempted", None)]


@clause("3.5")
def test_a_claim_whose_owner_died_is_taken_back_at_its_deadline_and_due_at_once() -> None:
    entry = leased(accepted())
    lapse_ms = NOW_MS + MINUTE_MS
    assert after(entry, TimePassed(), at_ms=lapse_ms - 1) == entry
    free, effects = taken(entry, TimePassed(), at_ms=lapse_ms)
    assert (free.state, free.lease, free.attempts, free.next_attempt_at_ms) == (State.PENDING, None, 1, lapse_ms)
    assert records(effects) == notices(effects) == [("retried", "lease_expired")]
    assert after(free, lease(lapse_ms), at_ms=lapse_ms).attempts == 2


@clause("3.5")
def test_a_claim_whose_owner_is_known_to_be_dead_is_taken_back_before_its_deadline_and_no_other_is() -> None:
    entry = leased(accepted())
    assert after(entry, TimePassed(dead_owner="somebody else")) == entry
    free, effects = taken(entry, TimePassed(dead_owner=OWNER))
    assert (free.state, free.lease, free.attempts, free.next_attempt_at_ms) == (State.PENDING, None, 1, NOW_MS)
    assert records(effects) == notices(effects) == [("retried", "lease_expired")]


@clause("3.5")
def test_an_entry_whose_owner_dies_every_time_is_given_up_with_its_tries() -> None:
    entry = leased(accepted(attempts=14))
    dead, effects = taken(entry, TimePassed(), at_ms=NOW_MS + MINUTE_MS)
    assert dead.state is State.DEAD
    assert buried(effects).reason is DeadReason.ATTEMPTS_EXHAUSTED


@clause("3.5")
def test_an_answer_after_the_claim_lapsed_still_counts() -> None:
    free = after(leased(accepted()), TimePassed(), at_ms=NOW_MS + MINUTE_MS)
    assert after(free, TransmitSucceeded(), at_ms=NOW_MS + MINUTE_MS).state is State.SENT


@clause("3.5")
def test_a_failure_told_by_somebody_whose_claim_is_over_changes_nothing() -> None:
    entry = leased(accepted())
    late = TransmitFailed(owner="drain-0", failure=Failure.TOO_LARGE)
    assert taken(entry, late) == (entry, ())


def test_an_entry_that_is_not_due_cannot_be_claimed() -> None:
    waiting = accepted(next_attempt_at_ms=NOW_MS + 1)
    with pytest.raises(LocalProtocolError, match="Leased before next_attempt_at_ms while pending"):
        after(waiting, lease())


@clause("4.3")
def test_a_timeout_waits_longer_every_time_and_the_fifteenth_gives_up() -> None:
    settings = Settings(retry=RetrySchedule(jitter=0))
    entry = accepted(priority=Priority.LOW)
    waits_s = []
    for _ in range(14):
        at_ms = entry.next_attempt_at_ms
        entry = failed_times(entry, 1, settings)
        waits_s.append((entry.next_attempt_at_ms - at_ms) // SECOND_MS)
    assert waits_s == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 3_600, 3_600, 3_600, 3_600]
    assert (entry.state, entry.attempts, entry.last_error) == (State.PENDING, 14, Code.NETWORK_UNREACHABLE)


@clause("5.2")
def test_the_last_counted_failure_makes_a_retriable_dead_letter_of_it() -> None:
    entry = leased(accepted(attempts=14, first_attempt_at_ms=NOW_MS - HOUR_MS))
    dead, effects = taken(entry, failure(), at_ms=NOW_MS + SECOND_MS)
    letter = buried(effects)
    assert (dead.state, dead.lease) == (State.DEAD, None)
    assert (letter.reason, letter.category) == (DeadReason.ATTEMPTS_EXHAUSTED, DeadCategory.RETRIABLE)
    assert (letter.code, letter.total_attempts) == (Code.NETWORK_UNREACHABLE, 15)
    assert (letter.first_attempt_at_ms, letter.last_attempt_at_ms) == (NOW_MS - HOUR_MS, NOW_MS)
    assert (letter.moved_at_ms, letter.expires_at_ms) == (NOW_MS + SECOND_MS, NOW_MS + 30 * DAY_MS)
    assert records(effects) == [("dead_lettered", "E001")]


@clause("4.3")
def test_a_rate_limit_is_waited_out_and_does_not_count() -> None:
    entry = leased(accepted(attempts=14))
    waiting, effects = taken(entry, failure(Failure.RATE_LIMITED, told_ms=7_321))
    assert (waiting.state, waiting.attempts) == (State.PENDING, 14)
    assert waiting.next_attempt_at_ms == NOW_MS + 7_321
    assert records(effects) == notices(effects) == [("retried", "E007")]


@clause("4.3", "5.2")
@pytest.mark.parametrize(
    ("kind", "code"),
    [(Failure.INVALID_FORMAT, "E101"), (Failure.AUTHENTICATION_FAILED, "E103"), (Failure.TOO_LARGE, "E006")],
)
def test_a_permanent_failure_is_a_permanent_dead_letter_at_once(kind: Failure, code: str) -> None:
    dead, effects = taken(leased(accepted()), failure(kind))
    letter = buried(effects)
    assert dead.state is State.DEAD
    assert (letter.reason, letter.category) == (DeadReason.PERMANENT_FAILURE, DeadCategory.PERMANENT)
    assert letter.expires_at_ms == NOW_MS + 30 * DAY_MS
    assert (letter.code, records(effects)) == (code, [("dead_lettered", code)])


@clause("4.3")
def test_a_permanent_failure_that_is_told_after_the_queue_time_is_still_permanent() -> None:
    at_ms = NOW_MS + 24 * HOUR_MS - 1
    _, effects = taken(leased(accepted(), at_ms=at_ms), failure(Failure.TOO_LARGE), at_ms=at_ms + SECOND_MS)
    assert buried(effects).category is DeadCategory.PERMANENT


@clause("4.3")
@pytest.mark.parametrize("kind", Failure)
def test_nothing_that_a_node_says_resets_a_session(kind: Failure) -> None:
    _, effects = taken(leased(accepted()), failure(kind))
    assert (ResetSession() in effects) is (kind is Failure.ENCRYPTION_FAILED)


@clause("4.4")
def test_e008_deletes_the_session_and_tries_once_more_then_gives_up() -> None:
    waiting, effects = taken(leased(accepted()), failure(Failure.ENCRYPTION_FAILED))
    assert waiting.state is State.PENDING
    assert ResetSession() in effects
    at_ms = waiting.next_attempt_at_ms
    dead, effects = taken(leased(waiting, at_ms=at_ms), failure(Failure.ENCRYPTION_FAILED), at_ms=at_ms)
    assert dead.state is State.DEAD
    assert buried(effects).reason is DeadReason.PERMANENT_FAILURE


@clause("4.4")
def test_e010_removes_the_entry_with_a_notice_and_a_tombstone() -> None:
    ended, effects = taken(leased(accepted()), failure(Failure.TTL_EXPIRED))
    assert ended.state is State.EXPIRED
    assert notices(effects) == [("expired", "E010")]
    assert buried(effects).entry.payload == b""


def test_a_channel_entry_is_tried_by_the_schedule_of_channels() -> None:
    settings = Settings(channel_retry=ChannelSchedule(max_attempts=2))
    once = failed_times(accepted(route=Route.CHANNEL), 1, settings)
    assert once.next_attempt_at_ms == NOW_MS + 5 * SECOND_MS
    assert failed_times(once, 1, settings).state is State.DEAD

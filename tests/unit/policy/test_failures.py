"""policy/failures: every failure and every code, with what is done about it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.error_codes import DELIVERY_CODES, Code
from restante.model.states import DeadCategory, DeadReason
from restante.policy.failures import (
    CODE_RULES,
    FAILURE_RULES,
    Action,
    Backoff,
    Decision,
    Failure,
    GiveUp,
    Remove,
    RetryAt,
    decide,
    delay_after_failure_ms,
)
from restante.policy.retry import ChannelSchedule, RetrySchedule, Schedule, delay_ms
from support.spec.clauses import clause

NOW_MS = 1_700_000_000_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
SCHEDULE = RetrySchedule()

# SPEC 4.3, row by row, then what 4.4 adds: failure -> code and backoff
FAILURE_TABLE = {
    Failure.NETWORK_TIMEOUT: ("E001", Backoff.EXPONENTIAL),
    Failure.CONNECTION_REFUSED: ("E001", Backoff.EXPONENTIAL),
    Failure.DHT_LOOKUP_FAILED: ("E003", Backoff.EXPONENTIAL),
    Failure.CIRCUIT_BUILD_FAILED: ("E002", Backoff.EXPONENTIAL),
    Failure.INSUFFICIENT_REPLICATION: ("E004", Backoff.EXPONENTIAL),
    Failure.TLS_HANDSHAKE_FAILED: ("E001", Backoff.LINEAR),
    Failure.WRONG_NODE_KEY: ("E103", Backoff.LINEAR),
    Failure.RECIPIENT_KEY_NOT_FOUND: ("E005", Backoff.ONE_HOUR),
    Failure.RATE_LIMITED: ("E007", Backoff.RETRY_AFTER),
    Failure.INVALID_FORMAT: ("E101", Backoff.NEVER),
    Failure.AUTHENTICATION_FAILED: ("E103", Backoff.NEVER),
    Failure.TOO_LARGE: ("E006", Backoff.NEVER),
    Failure.STORAGE_REFUSED: ("E004", Backoff.EXPONENTIAL),
    Failure.EXPIRES_TOO_SOON: ("E004", Backoff.EXPONENTIAL),
    Failure.ENCRYPTION_FAILED: ("E008", Backoff.EXPONENTIAL),
    Failure.CARRIER_FAILED: ("E111", Backoff.EXPONENTIAL),
    Failure.TTL_EXPIRED: ("E010", Backoff.REMOVE),
    Failure.CHANNEL_UNAVAILABLE: ("E123", Backoff.EXPONENTIAL),
    Failure.CHANNEL_REFUSED: ("E120", Backoff.NEVER),
    Failure.CHANNEL_ABSENT: ("E121", Backoff.NEVER),
    Failure.SEND_UNSURE: ("E122", Backoff.NEVER),
}
CODE_TABLE = {
    "E001": ("NETWORK_UNREACHABLE", Action.RETRY, False),
    "E002": ("CIRCUIT_BUILD_FAILED", Action.RETRY, False),
    "E003": ("DHT_LOOKUP_FAILED", Action.RETRY, False),
    "E004": ("STORAGE_FAILED", Action.RETRY, False),
    "E005": ("RECIPIENT_NOT_FOUND", Action.RETRY_IN_ONE_HOUR, True),
    "E006": ("MESSAGE_TOO_LARGE", Action.DEAD_LETTER, True),
    "E007": ("RATE_LIMITED", Action.RETRY_WHEN_TOLD, False),
    "E008": ("ENCRYPTION_FAILED", Action.RETRY_ONCE_REENCRYPTED, False),
    "E009": ("SESSION_INVALID", Action.RETRY_REENCRYPTED, False),
    "E010": ("TTL_EXPIRED", Action.REMOVE, True),
}


def after(failure: Failure, attempts: int = 1, *, schedule: Schedule = SCHEDULE, told: int | None = None) -> Decision:
    return decide(
        failure,
        attempts=attempts,
        failures=max(1, attempts),
        now_ms=NOW_MS,
        dice=0,
        schedule=schedule,
        retry_after_ms=told,
    )


def retry_in(wait_ms: int, *, counts: bool = True) -> RetryAt:
    return RetryAt(at_ms=NOW_MS + wait_ms, counts=counts)


def permanently(code: Code) -> GiveUp:
    return GiveUp(reason=DeadReason.PERMANENT_FAILURE, category=DeadCategory.PERMANENT, code=code)


def exhausted(code: Code) -> GiveUp:
    return GiveUp(reason=DeadReason.ATTEMPTS_EXHAUSTED, category=DeadCategory.RETRIABLE, code=code)


@clause("4.3", "4.4")
def test_every_failure_has_its_code_and_its_way_of_waiting() -> None:
    assert {name: (rule.code.value, rule.backoff) for name, rule in FAILURE_RULES.items()} == FAILURE_TABLE
    assert set(FAILURE_TABLE) == set(Failure)


@clause("4.4")
def test_the_ten_codes_keep_their_names_and_actions() -> None:
    built = {code.value: (code.name, rule.action, rule.notifies) for code, rule in CODE_RULES.items()}
    assert built == CODE_TABLE
    assert tuple(CODE_RULES) == DELIVERY_CODES


@clause("4.4")
def test_the_advice_for_a_code_is_one_sentence_or_two_on_one_line() -> None:
    for rule in CODE_RULES.values():
        assert rule.advice.endswith(".")
        assert "\n" not in rule.advice
        assert len(rule.advice) <= 100


@clause("4.3")
def test_an_unreachable_mesh_gets_a_new_circuit_and_other_nodes() -> None:
    rebuilt = {failure for failure, rule in FAILURE_RULES.items() if rule.rebuilds_circuit}
    assert rebuilt == {
        Failure.NETWORK_TIMEOUT,
        Failure.CONNECTION_REFUSED,
        Failure.DHT_LOOKUP_FAILED,
        Failure.CIRCUIT_BUILD_FAILED,
        Failure.INSUFFICIENT_REPLICATION,
    }
    elsewhere = {failure for failure, rule in FAILURE_RULES.items() if rule.tries_other_nodes}
    assert elsewhere == rebuilt | {Failure.STORAGE_REFUSED, Failure.EXPIRES_TOO_SOON}


@clause("4.3", "4.4")
def test_who_is_notified_which_sessions_are_reset_and_what_is_sealed_anew() -> None:
    rules = FAILURE_RULES.items()
    assert {failure for failure, rule in rules if rule.notifies} == {
        Failure.WRONG_NODE_KEY,
        Failure.RECIPIENT_KEY_NOT_FOUND,
        Failure.TOO_LARGE,
        Failure.TTL_EXPIRED,
        Failure.CHANNEL_REFUSED,
        Failure.CHANNEL_ABSENT,
        Failure.SEND_UNSURE,
    }
    assert {failure for failure, rule in rules if rule.resets_session} == {Failure.ENCRYPTION_FAILED}
    assert {failure for failure, rule in rules if not rule.counts_as_attempt} == {
        Failure.CONNECTION_REFUSED,
        Failure.WRONG_NODE_KEY,
        Failure.RATE_LIMITED,
        Failure.EXPIRES_TOO_SOON,
    }


@clause("4.3", "4.4")
def test_failures_and_codes_say_the_same() -> None:
    plain = {
        Backoff.EXPONENTIAL: Action.RETRY,
        Backoff.LINEAR: Action.RETRY,
        Backoff.ONE_HOUR: Action.RETRY_IN_ONE_HOUR,
        Backoff.RETRY_AFTER: Action.RETRY_WHEN_TOLD,
        Backoff.NEVER: Action.DEAD_LETTER,
        Backoff.REMOVE: Action.REMOVE,
    }
    reported = set()
    for failure, rule in FAILURE_RULES.items():
        if rule.code not in DELIVERY_CODES:
            continue
        reported.add(rule.code)
        expected = plain[rule.backoff]
        if rule.retries_once:
            expected = Action.RETRY_ONCE_REENCRYPTED
        assert CODE_RULES[rule.code].action is expected, failure
        assert CODE_RULES[rule.code].notifies is rule.notifies, failure
    own_to_decrypt = {Code.SESSION_INVALID}  # no attempt to send reports it (SPEC 4.4)
    assert reported == set(DELIVERY_CODES) - own_to_decrypt


@clause("4.3")
@pytest.mark.parametrize(("attempts", "wait_s"), [(1, 1), (2, 2), (10, 512), (11, 3600), (14, 3600)])
def test_a_network_timeout_waits_by_the_exponential_schedule(attempts: int, wait_s: int) -> None:
    assert after(Failure.NETWORK_TIMEOUT, attempts) == retry_in(wait_s * 1_000)


@clause("4.3")
@pytest.mark.parametrize(("attempts", "minutes"), [(1, 5), (2, 10), (11, 55), (12, 60), (13, 60), (14, 60)])
def test_a_failed_tls_handshake_waits_five_minutes_more_each_time_up_to_the_cap(attempts: int, minutes: int) -> None:
    assert after(Failure.TLS_HANDSHAKE_FAILED, attempts) == retry_in(minutes * MINUTE_MS)


@clause("4.3")
def test_the_cap_of_the_linear_wait_follows_the_configured_one() -> None:
    short = RetrySchedule(max_delay_ms=60_000)
    assert after(Failure.TLS_HANDSHAKE_FAILED, 1, schedule=short) == retry_in(MINUTE_MS)


@clause("4.3", "4.4")
@pytest.mark.parametrize("attempts", [1, 7, 14])
def test_an_unknown_recipient_is_tried_again_in_an_hour_and_it_counts(attempts: int) -> None:
    assert after(Failure.RECIPIENT_KEY_NOT_FOUND, attempts) == retry_in(HOUR_MS)


@clause("4.3", "4.4")
@pytest.mark.parametrize("attempts", [1, 14, 15, 40])
def test_a_rate_limit_is_waited_out_exactly_and_never_counts(attempts: int) -> None:
    assert after(Failure.RATE_LIMITED, attempts, told=7_321) == retry_in(7_321, counts=False)
    assert after(Failure.RATE_LIMITED, attempts, told=1) == retry_in(1, counts=False)


@clause("4.3")
@pytest.mark.parametrize("told", [None, 0, -5])
def test_a_rate_limit_without_a_usable_time_falls_back_to_the_schedule_uncounted(told: int | None) -> None:
    assert after(Failure.RATE_LIMITED, 3, told=told) == retry_in(4_000, counts=False)
    assert after(Failure.RATE_LIMITED, 15, told=told) == retry_in(HOUR_MS, counts=False)


@clause("4.3", "4.4")
@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Failure.INVALID_FORMAT, Code.MALFORMED),
        (Failure.AUTHENTICATION_FAILED, Code.AUTHENTICATION_FAILED),
        (Failure.TOO_LARGE, Code.MESSAGE_TOO_LARGE),
    ],
)
def test_a_permanent_failure_is_a_dead_letter_at_once(failure: Failure, code: Code) -> None:
    assert after(failure, 1) == permanently(code)


@clause("4.4")
def test_an_encryption_failure_is_retried_once_and_then_given_up() -> None:
    first = decide(Failure.ENCRYPTION_FAILED, attempts=1, failures=1, now_ms=NOW_MS, dice=0, schedule=SCHEDULE)
    again = decide(
        Failure.ENCRYPTION_FAILED,
        attempts=2,
        failures=2,
        now_ms=NOW_MS,
        dice=0,
        schedule=SCHEDULE,
        has_failed_to_encrypt=True,
    )
    assert first == retry_in(1_000)
    assert again == permanently(Code.ENCRYPTION_FAILED)


@clause("4.3")
def test_an_attempt_that_reached_no_node_does_not_count_and_still_waits_longer_each_time() -> None:
    decision = decide(
        Failure.NETWORK_TIMEOUT, attempts=15, failures=4, now_ms=NOW_MS, dice=0, schedule=SCHEDULE, reached=False
    )
    assert decision == retry_in(8_000, counts=False)


@clause("4.4")
@pytest.mark.parametrize("attempts", [0, 1, 15])
def test_an_expired_message_is_removed_however_often_it_was_tried(attempts: int) -> None:
    assert after(Failure.TTL_EXPIRED, attempts) == Remove(code=Code.TTL_EXPIRED)


@clause("4.1", "5.2")
@pytest.mark.parametrize(
    "failure",
    [
        failure
        for failure, (_, backoff) in FAILURE_TABLE.items()
        if FAILURE_RULES[failure].counts_as_attempt
        and backoff in (Backoff.EXPONENTIAL, Backoff.LINEAR, Backoff.ONE_HOUR)
    ],
)
def test_the_fifteenth_counted_failure_makes_a_retriable_dead_letter(failure: Failure) -> None:
    assert isinstance(after(failure, 14), RetryAt)
    assert after(failure, 15) == exhausted(Code(FAILURE_TABLE[failure][0]))


@clause("4.2", "4.3")
def test_a_channel_uses_its_own_delays_where_others_double_and_only_there() -> None:
    channel = ChannelSchedule()
    assert after(Failure.NETWORK_TIMEOUT, 2, schedule=channel) == retry_in(25_000)
    assert after(Failure.TLS_HANDSHAKE_FAILED, 2, schedule=channel) == retry_in(10 * MINUTE_MS)
    assert after(Failure.TLS_HANDSHAKE_FAILED, 20, schedule=ChannelSchedule(max_attempts=50)) == retry_in(HOUR_MS)
    assert after(Failure.RECIPIENT_KEY_NOT_FOUND, 2, schedule=channel) == retry_in(HOUR_MS)
    assert after(Failure.RATE_LIMITED, 2, schedule=channel, told=900) == retry_in(900, counts=False)
    assert after(Failure.RATE_LIMITED, 2, schedule=channel) == retry_in(25_000, counts=False)
    assert after(Failure.NETWORK_TIMEOUT, 5, schedule=channel) == exhausted(Code.NETWORK_UNREACHABLE)


@clause("4.3")
@given(
    failure=st.sampled_from(Failure),
    attempts=st.integers(1, 60),
    drawn=st.floats(-1, 1),
    told=st.none() | st.integers(-10, 10**9),
    reencrypted=st.booleans(),
    schedule=st.sampled_from([RetrySchedule(), RetrySchedule(jitter=0.5), ChannelSchedule()]),
)
def test_every_failure_ends_in_a_later_try_or_in_a_coded_end(
    *, failure: Failure, attempts: int, drawn: float, told: int | None, reencrypted: bool, schedule: Schedule
) -> None:
    decision = decide(
        failure,
        attempts=attempts,
        failures=attempts,
        now_ms=NOW_MS,
        dice=drawn,
        schedule=schedule,
        retry_after_ms=told,
        has_failed_to_encrypt=reencrypted,
    )
    if isinstance(decision, RetryAt):
        assert decision.at_ms > NOW_MS
        assert attempts < schedule.max_attempts or not decision.counts
    else:
        assert decision.code.value == FAILURE_TABLE[failure][0]


@clause("4.3")
def test_an_attempt_that_reached_no_node_never_uses_up_the_attempts() -> None:
    for attempts in (1, 15, 50):
        assert after(Failure.CONNECTION_REFUSED, attempts) == retry_in(delay_ms(SCHEDULE, attempts), counts=False)


@clause("4.1", "4.3")
def test_a_node_is_dialled_again_exponentially_or_after_a_failed_tls_handshake_linearly() -> None:
    def delays(failure: Failure) -> list[int]:
        return [delay_after_failure_ms(failure, attempts=n, dice=0, schedule=SCHEDULE) for n in (1, 2, 3)]

    assert delays(Failure.CONNECTION_REFUSED) == [1_000, 2_000, 4_000]
    assert delays(Failure.TLS_HANDSHAKE_FAILED) == [5 * MINUTE_MS, 10 * MINUTE_MS, 15 * MINUTE_MS]
    assert delays(Failure.AUTHENTICATION_FAILED) == [5 * MINUTE_MS, 10 * MINUTE_MS, 15 * MINUTE_MS]

"""How often circuits are tried while none can be built."""

import pytest

from restante.policy.circuits.build_backoff import FIRST_WAIT_S, FREE_ROUNDS, SLOW_ROUND_S, BuildBackoff, Purpose
from support.spec.clauses import clause


def rounds(backoff: BuildBackoff, purpose: Purpose, *, seconds: int, from_s: float = 0.0) -> list[float]:
    """Return when rounds began that were asked for ten times a second, and all failed."""
    began = []
    for tenth in range(10 * seconds):
        now_s = from_s + tenth / 10
        if backoff.may_begin(purpose, now_s):
            began.append(now_s)
            backoff.failed(purpose, took_s=0.0, now_s=now_s)
    return began


@clause("11.3")
@pytest.mark.parametrize("purpose", Purpose)
def test_rounds_that_fail_come_ever_farther_apart_up_to_the_longest_wait(purpose: Purpose) -> None:
    began = rounds(BuildBackoff(), purpose, seconds=60)
    assert began[FREE_ROUNDS - 1] < FIRST_WAIT_S
    gaps = [round(later - one, 1) for one, later in zip(began[FREE_ROUNDS - 1 :], began[FREE_ROUNDS:], strict=False)]
    assert gaps[0] == FIRST_WAIT_S
    assert gaps == sorted(gaps)
    assert gaps[-1] == purpose.value


def test_one_round_that_fails_late_is_followed_by_a_wait_from_its_end() -> None:
    backoff = BuildBackoff()
    assert backoff.may_begin(Purpose.READING, 0.0)
    backoff.failed(Purpose.READING, took_s=SLOW_ROUND_S, now_s=SLOW_ROUND_S)
    assert not backoff.may_begin(Purpose.READING, SLOW_ROUND_S + 0.4)
    assert backoff.may_begin(Purpose.READING, SLOW_ROUND_S + FIRST_WAIT_S)


def test_a_circuit_that_is_built_ends_every_wait() -> None:
    backoff = BuildBackoff()
    rounds(backoff, Purpose.READING, seconds=60)
    backoff.built()
    assert len(rounds(backoff, Purpose.READING, seconds=1, from_s=60.0)) > FREE_ROUNDS


@clause("11.3")
def test_a_first_message_waits_for_no_round_that_reading_or_spares_had() -> None:
    backoff = BuildBackoff()
    rounds(backoff, Purpose.READING, seconds=600)
    rounds(backoff, Purpose.SPARE, seconds=600)
    assert backoff.may_begin(Purpose.STORES, 600.0)
    assert not backoff.may_begin(Purpose.STORES, 600.9)
    assert backoff.may_begin(Purpose.STORES, 601.0)

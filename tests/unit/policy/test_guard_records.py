"""A guard may end the circuits that it does not control, and blame the hop behind it (SPEC 11.4)."""

from hypothesis import given
from hypothesis import strategies as st

from restante.model.ids import NodeId
from restante.policy.circuits.guards import JUDGED_CIRCUITS, MOST_FAILED, PASSED_OVER_MS, GuardRecords
from restante.policy.circuits.passed_over import PASSED_OVER_MS as HOP_PASSED_OVER_MS
from restante.policy.circuits.passed_over import PassedOver
from support.spec.clauses import clause

GUARD, OTHER = NodeId(b"g" * 32), NodeId(b"o" * 32)


def failed_behind(records: GuardRecords, times: int, *, was_built: bool = False, now_ms: int = 1) -> list[bool]:
    return [records.failed_behind(GUARD, was_built=was_built, now_ms=now_ms) for _ in range(times)]


@clause("11.4")
def test_a_guard_over_which_most_circuits_fail_is_used_last_once() -> None:
    records = GuardRecords()
    assert failed_behind(records, MOST_FAILED) == [False] * (MOST_FAILED - 1) + [True]
    assert records.failed_at_ms == {GUARD: 1}
    assert not any(failed_behind(records, 5, now_ms=PASSED_OVER_MS)), "it is used last already"
    assert failed_behind(records, 1, now_ms=1 + PASSED_OVER_MS) == [True], "one more failure is enough after that"


def test_circuits_that_stand_speak_for_a_guard() -> None:
    records = GuardRecords()
    for _ in range(10):
        assert not any(failed_behind(records, MOST_FAILED - 1))
        for _ in range(JUDGED_CIRCUITS - MOST_FAILED + 1):
            records.built(GUARD)
    assert not records.failed_at_ms


def test_a_circuit_that_was_built_and_cut_speaks_against_its_guard() -> None:
    records = GuardRecords()
    for _ in range(JUDGED_CIRCUITS):
        records.built(GUARD)
    assert failed_behind(records, MOST_FAILED, was_built=True)[-1]


@clause("11.4")
@given(st.lists(st.integers(0, 30), max_size=60), st.integers(4, 40))
def test_at_most_a_quarter_of_the_hops_is_passed_over_those_that_failed_last(failed: list[int], hops: int) -> None:
    passed_over = PassedOver()
    for at_ms, number in enumerate(failed):
        passed_over.add(NodeId(bytes([number]) * 32), now_ms=at_ms)
    last = list(dict.fromkeys(reversed(failed)))[: hops // 4]
    assert passed_over.of(hops, now_ms=len(failed)) == {NodeId(bytes([number]) * 32) for number in last}
    assert not passed_over.of(hops, now_ms=len(failed) + HOP_PASSED_OVER_MS)


def test_what_a_guard_said_of_hops_can_be_forgotten() -> None:
    passed_over = PassedOver()
    passed_over.add(OTHER, now_ms=0)
    passed_over.clear()
    assert not passed_over.of(40, now_ms=1)

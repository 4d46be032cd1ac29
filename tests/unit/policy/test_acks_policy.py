"""policy/acks: when a batch leaves, and that a confirmation never goes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clauses import clause
from restante.model.states import Confirmation
from restante.policy.acks import AckBatching, advance, batch_due, batch_due_at_ms, is_received

OLDEST_MS = 1_700_000_000_000
BATCHING = AckBatching()

confirmations = st.sampled_from(Confirmation)


@clause("10.5")
@pytest.mark.parametrize(
    ("count", "waited_ms", "due"),
    [
        (0, 10_000, False),
        (1, 999, False),
        (1, 1_000, True),
        (63, 999, False),
        (63, 1_000, True),
        (64, 0, True),
        (65, 0, True),
    ],
)
def test_a_batch_leaves_after_one_second_or_with_64_ids(count: int, waited_ms: int, due: bool) -> None:
    assert batch_due(BATCHING, count=count, oldest_at_ms=OLDEST_MS, now_ms=OLDEST_MS + waited_ms) is due


@clause("10.5")
@pytest.mark.parametrize(("count", "due_in_ms"), [(0, None), (1, 1_000), (63, 1_000), (64, 0), (65, 0)])
def test_the_due_time_of_a_batch_is_known_beforehand(count: int, due_in_ms: int | None) -> None:
    expected = None if due_in_ms is None else OLDEST_MS + due_in_ms
    assert batch_due_at_ms(BATCHING, count=count, oldest_at_ms=OLDEST_MS) == expected


@clause("10.5")
@given(count=st.integers(0, 100), waited_ms=st.integers(0, 5_000))
def test_a_timer_set_for_the_due_time_finds_the_batch_due_and_not_before(count: int, waited_ms: int) -> None:
    due_at_ms = batch_due_at_ms(BATCHING, count=count, oldest_at_ms=OLDEST_MS)
    now_ms = OLDEST_MS + waited_ms
    has_come = due_at_ms is not None and now_ms >= due_at_ms
    assert batch_due(BATCHING, count=count, oldest_at_ms=OLDEST_MS, now_ms=now_ms) is has_come


@clause("3.13")
def test_a_late_delivery_ack_after_a_receipt_changes_nothing() -> None:
    assert advance(Confirmation.RECEIVED, Confirmation.STORED) is Confirmation.RECEIVED
    assert advance(Confirmation.NONE, Confirmation.STORED) is Confirmation.STORED
    assert advance(Confirmation.STORED, Confirmation.READ) is Confirmation.READ


@clause("3.13")
@given(acks=st.lists(confirmations, max_size=8))
def test_confirmations_end_the_same_in_whatever_order_they_come(acks: list[Confirmation]) -> None:
    held = Confirmation.NONE
    for ack in acks:
        grown = advance(held, ack)
        assert grown >= held
        held = grown
    backwards = Confirmation.NONE
    for ack in reversed(acks):
        backwards = advance(backwards, ack)
    assert backwards is held


@clause("3.13")
def test_who_has_read_a_message_has_received_it() -> None:
    received = {confirmation for confirmation in Confirmation if is_received(confirmation)}
    assert received == {Confirmation.RECEIVED, Confirmation.READ}

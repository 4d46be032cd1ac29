"""policy/ack_batching: when a batch leaves, and that a confirmation never goes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.states import Confirmation
from restante.policy.ack_batching import AckBatching, advance, batch_due_at_ms
from support.spec.clauses import clause

OLDEST_MS = 1_700_000_000_000
BATCHING = AckBatching()

confirmations = st.sampled_from(Confirmation)


@clause("10.5")
@pytest.mark.parametrize(("count", "due_in_ms"), [(0, None), (1, 1_000), (63, 1_000), (64, 0), (65, 0)])
def test_the_due_time_of_a_batch_is_known_beforehand(count: int, due_in_ms: int | None) -> None:
    expected = None if due_in_ms is None else OLDEST_MS + due_in_ms
    assert batch_due_at_ms(BATCHING, count=count, oldest_at_ms=OLDEST_MS) == expected


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

"""core/retransmit: what a sender does when its reader misses messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.retransmit import PAUSE_MS, RetransmitPlan, SentMessage, plan_retransmit
from restante.model.ids import SessionId
from restante.model.states import IN_FLIGHT, State
from restante.wire.control_messages import RetransmitRequest
from support.fleet.journal_files import message
from support.spec.clauses import clause

NOW_MS = 1_800_000_000_000
REQUEST = RetransmitRequest(session_id=SessionId(b"s" * 32), first=3, last=6)


def held(sequence: int, state: State = State.SENT, *, left_ms_ago: int = PAUSE_MS) -> SentMessage:
    return SentMessage(
        message_id=message(sequence), sequence=sequence, state=state, last_attempt_at_ms=NOW_MS - left_ms_ago
    )


@clause("9.5")
def test_what_was_sent_and_has_no_receipt_is_sent_again_in_order_and_what_is_gone_is_named() -> None:
    entries = [held(6), held(2), held(4), held(7)]
    assert plan_retransmit(REQUEST, entries, now_ms=NOW_MS) == RetransmitPlan(
        resend=(message(4), message(6)), under_way=(), gone=(3, 5)
    )


@clause("9.5")
def test_what_waits_for_its_next_attempt_is_sent_at_once_and_what_is_being_sent_is_not_sent_twice() -> None:
    entries = [held(3, State.PENDING, left_ms_ago=0), held(4, State.SENDING)]
    plan = plan_retransmit(REQUEST, entries, now_ms=NOW_MS)
    assert (plan.resend, plan.under_way) == ((message(3),), (message(4),))


@clause("9.5")
@pytest.mark.parametrize(("left_ms_ago", "again"), [(PAUSE_MS - 1, False), (PAUSE_MS, True)])
def test_asking_over_and_over_does_not_make_us_send_over_and_over(left_ms_ago: int, again: bool) -> None:
    told = plan_retransmit(REQUEST, [held(3, left_ms_ago=left_ms_ago)], now_ms=NOW_MS)
    assert bool(told.resend) is again
    assert bool(told.under_way) is not again


@given(
    st.lists(st.integers(0, 10), unique=True), st.lists(st.sampled_from(sorted(IN_FLIGHT)), min_size=11, max_size=11)
)
def test_every_number_asked_for_is_answered_once(numbers: list[int], states: list[State]) -> None:
    told = plan_retransmit(REQUEST, [held(number, states[number]) for number in numbers], now_ms=NOW_MS)
    answered = [*told.resend, *told.under_way, *(message(number) for number in told.gone)]
    assert sorted(answered) == [message(number) for number in range(3, 7)]

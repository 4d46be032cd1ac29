"""core/session_reset: two peers that lost a session end in the same new one."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.session_reset import Move, Numbered, Standing, on_reset, to_reseal
from restante.model.ids import SessionId
from restante.model.states import ENDED, State
from support.fleet.journal_files import message

OLD, LOW, HIGH, OLDER = (SessionId(letter * 32) for letter in (b"o", b"1", b"9", b"z"))


@pytest.mark.parametrize(
    ("standing", "old", "new", "move"),
    [
        (Standing(current=OLD), OLD, HIGH, Move.ADOPT),
        (Standing(current=HIGH, replaced=OLD), OLD, LOW, Move.ADOPT),
        (Standing(current=LOW, replaced=OLD), OLD, HIGH, Move.KEEP),
        (Standing(current=LOW), OLD, LOW, Move.IGNORE),
        (Standing(current=LOW, replaced=OLD), OLDER, HIGH, Move.IGNORE),
        (Standing(current=LOW), OLDER, HIGH, Move.IGNORE),
    ],
    ids=["theirs alone", "both, theirs is lower", "both, ours is lower", "again", "older than ours", "long left"],
)
def test_what_a_reset_means(standing: Standing, old: SessionId, new: SessionId, move: Move) -> None:
    assert on_reset(standing, old=old, new=new) is move


sessions = st.binary(min_size=32, max_size=32).map(SessionId)


@given(st.lists(sessions, min_size=3, max_size=3, unique=True))
def test_peers_that_begin_at_once_end_in_the_same_session(drawn: list[SessionId]) -> None:
    old, ours, theirs = drawn
    here, there = Standing(current=ours, replaced=old), Standing(current=theirs, replaced=old)
    ends = {
        theirs if on_reset(here, old=old, new=theirs) is Move.ADOPT else ours,
        ours if on_reset(there, old=old, new=ours) is Move.ADOPT else theirs,
    }
    assert ends == {min(ours, theirs)}


def entry(number: int, session: SessionId, sequence: int, state: State = State.SENT) -> Numbered:
    return Numbered(message_id=message(number), session_id=session, sequence=sequence, state=state)


def test_what_has_no_receipt_is_sealed_again_in_the_order_it_was_written() -> None:
    entries = [entry(1, OLD, 7), entry(2, OLD, 5, State.PENDING), entry(3, OLD, 6, State.SENDING)]
    for order in permutations(entries):
        assert [one.sequence for one in to_reseal(order, session=LOW)] == [5, 6, 7]


@pytest.mark.parametrize("state", sorted(ENDED))
def test_what_has_ended_or_is_in_the_new_session_already_is_left_alone(state: State) -> None:
    assert to_reseal([entry(1, OLD, 0, state), entry(2, LOW, 1)], session=LOW) == []


def test_a_message_that_lost_two_sessions_comes_before_those_that_lost_one() -> None:
    entries = [entry(1, OLDER, 9), entry(2, OLD, 0), entry(3, OLD, 1), entry(4, OLDER, 10)]
    assert [one.message_id for one in to_reseal(entries, session=LOW)] == [message(n) for n in (1, 4, 2, 3)]

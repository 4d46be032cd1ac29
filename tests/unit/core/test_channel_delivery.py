"""Every answer a platform can give, in every progress a chunk can be in."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.channel_delivery import (
    UNTOUCHED,
    Accepted,
    AnswerLost,
    ChunkState,
    Circumstances,
    Done,
    Event,
    GiveBack,
    Leased,
    NotReached,
    Refused,
    Send,
    step,
)
from restante.policy.channel_errors import ChannelError
from restante.policy.failures import Failure
from support.spec.clauses import clause

NOW_MS = 1_000_000
FIRST = Circumstances(
    now_ms=NOW_MS,
    expires_at_ms=NOW_MS + 3_600_000,
    no_attempt_after_ms=NOW_MS + 30_000,
    attempts=1,
    recognises_repeats=False,
    dice=1.0,
)
LAST = replace(FIRST, attempts=3)
OPEN = ChunkState(is_open=True)
AT_ONCE = Send(at_ms=NOW_MS)


def refused(error: ChannelError, retry_after_ms: int | None = None, size: int = 4_000) -> Refused:
    return Refused(error=error, size=size, retry_after_ms=retry_after_ms)


def test_a_chunk_that_nobody_touched_is_sent_at_once() -> None:
    assert step(UNTOUCHED, Leased(), FIRST) == (UNTOUCHED, AT_ONCE)


@clause("12.6")
def test_an_open_mark_means_a_crash_and_the_chunk_is_sent_once_more() -> None:
    after, effect = step(OPEN, Leased(), FIRST)
    assert (after, effect) == (ChunkState(crashes=1), AT_ONCE)
    assert after.may_have_arrived


@clause("12.6")
def test_a_second_crash_ends_it_unless_the_platform_recognises_repeats() -> None:
    twice = ChunkState(is_open=True, crashes=1)
    assert step(twice, Leased(), FIRST) == (ChunkState(crashes=2), GiveBack(failure=Failure.SEND_UNSURE))
    assert step(twice, Leased(), replace(FIRST, recognises_repeats=True)) == (ChunkState(crashes=2), AT_ONCE)


@clause("12.6")
def test_a_lost_answer_does_not_use_up_the_one_resend_after_a_crash() -> None:
    lost, _ = step(OPEN, AnswerLost(), FIRST)
    assert step(replace(lost, is_open=True), Leased(), FIRST)[1] == AT_ONCE


@clause("12.4")
@pytest.mark.parametrize("event", [AnswerLost(), NotReached(), refused(ChannelError.TRANSIENT)])
def test_the_short_tries_double_and_then_the_queue_takes_over(event: Event) -> None:
    tries = [step(OPEN, event, replace(FIRST, attempts=attempts))[1] for attempts in (1, 2, 3)]
    assert tries == [
        Send(at_ms=NOW_MS + 500),
        Send(at_ms=NOW_MS + 1_000),
        GiveBack(failure=Failure.CHANNEL_UNAVAILABLE),
    ]


@clause("12.4")
def test_a_told_wait_is_kept_exactly_here_or_in_the_queue() -> None:
    told = refused(ChannelError.RATE_LIMITED, 7_003)
    assert step(OPEN, told, FIRST)[1] == Send(at_ms=NOW_MS + 7_003)
    assert step(OPEN, told, LAST)[1] == GiveBack(failure=Failure.RATE_LIMITED, retry_after_ms=7_003)
    long = refused(ChannelError.RATE_LIMITED, 60_001)
    assert step(OPEN, long, FIRST)[1] == GiveBack(failure=Failure.RATE_LIMITED, retry_after_ms=60_001)
    busy = refused(ChannelError.TRANSIENT, 60_001)
    assert step(OPEN, busy, FIRST)[1] == GiveBack(failure=Failure.RATE_LIMITED, retry_after_ms=60_001)


@clause("12.4")
def test_a_told_wait_ends_with_the_message_at_the_latest() -> None:
    soon = replace(FIRST, expires_at_ms=NOW_MS + 40_000)
    told = refused(ChannelError.RATE_LIMITED, 86_400_000)
    assert step(OPEN, told, soon)[1] == GiveBack(failure=Failure.RATE_LIMITED, retry_after_ms=40_000)


@clause("12.4")
def test_a_refused_format_is_sent_as_plain_text_once() -> None:
    after, effect = step(OPEN, refused(ChannelError.FORMAT), LAST)
    assert (after, effect) == (ChunkState(as_plain=True), AT_ONCE)
    _, again = step(replace(after, is_open=True), refused(ChannelError.FORMAT), FIRST)
    assert again == GiveBack(failure=Failure.CHANNEL_REFUSED)


def test_what_is_too_long_goes_on_in_parts_of_half_the_size() -> None:
    after, effect = step(OPEN, refused(ChannelError.TOO_LONG, size=900), FIRST)
    assert (after, effect) == (ChunkState(as_plain=True, part_limit=450), AT_ONCE)
    smaller, _ = step(replace(after, is_open=True, offset=440), refused(ChannelError.TOO_LONG, size=450), FIRST)
    assert smaller == ChunkState(as_plain=True, part_limit=225, offset=440)


def test_what_cannot_be_cut_any_smaller_is_given_up() -> None:
    assert step(OPEN, refused(ChannelError.TOO_LONG, size=64), FIRST)[1] == GiveBack(failure=Failure.TOO_LARGE)


def test_a_permanent_refusal_is_the_end() -> None:
    assert step(OPEN, refused(ChannelError.PERMANENT), FIRST)[1] == GiveBack(failure=Failure.CHANNEL_REFUSED)


def test_an_accepted_part_is_followed_by_the_next_of_which_nothing_is_known() -> None:
    progress = ChunkState(is_open=True, crashes=1, lost_answers=2, as_plain=True, part_limit=100, offset=50)
    after, effect = step(progress, Accepted(next_offset=140), FIRST)
    assert (after, effect) == (ChunkState(as_plain=True, part_limit=100, offset=140), AT_ONCE)
    assert step(replace(after, is_open=True), Accepted(), FIRST)[1] == Done()


EVENTS: tuple[Event, ...] = (
    Leased(),
    Accepted(),
    Accepted(next_offset=3),
    NotReached(),
    AnswerLost(),
    *(refused(error, wait) for error, wait in product(ChannelError, (None, 0, 5_000))),
)


@given(
    progress=st.builds(
        ChunkState,
        is_open=st.booleans(),
        crashes=st.integers(0, 3),
        lost_answers=st.integers(0, 3),
        as_plain=st.booleans(),
        part_limit=st.none() | st.integers(64, 4_000),
        offset=st.integers(0, 10_000),
    ),
    event=st.sampled_from(EVENTS),
    attempts=st.integers(1, 5),
    dice=st.floats(0, 1),
)
def test_every_step_closes_the_mark_and_either_ends_or_sends_in_time(
    progress: ChunkState, event: Event, attempts: int, dice: float
) -> None:
    after, effect = step(progress, event, replace(FIRST, attempts=attempts, dice=dice))
    assert not after.is_open
    assert after.as_plain or not progress.as_plain
    if isinstance(effect, Send):
        assert NOW_MS <= effect.at_ms <= FIRST.no_attempt_after_ms
    unsure = progress.crashes + progress.lost_answers
    if not isinstance(event, Accepted):
        grown = int(isinstance(event, AnswerLost) or (isinstance(event, Leased) and progress.is_open))
        assert after.crashes + after.lost_answers == unsure + grown

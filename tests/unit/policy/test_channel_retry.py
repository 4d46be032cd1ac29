"""policy/channel_retry: what follows when a platform refuses a chunk."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.errors import OutOfRange
from restante.policy.channel_errors import ChannelError
from restante.policy.channel_retry import (
    Decision,
    Reaction,
    after_refusal,
    in_process_delay_ms,
    smaller_limit,
)

NOW_MS = 1_000_000
FAR_MS = NOW_MS + 86_400_000


def decided(
    error: ChannelError,
    *,
    attempts: int = 1,
    is_plain: bool = False,
    retry_after_ms: int | None = None,
    expires_at_ms: int = FAR_MS,
    dice: float = 1.0,
) -> Decision:
    return after_refusal(
        error,
        attempts=attempts,
        is_plain=is_plain,
        retry_after_ms=retry_after_ms,
        now_ms=NOW_MS,
        expires_at_ms=expires_at_ms,
        dice=dice,
    )


@pytest.mark.parametrize("attempts", [1, 2, 3, 9])
def test_a_permanent_refusal_is_never_tried_again(attempts: int) -> None:
    assert decided(ChannelError.PERMANENT, attempts=attempts).reaction is Reaction.FAIL


def test_a_rejected_format_is_sent_as_plain_text_once() -> None:
    assert decided(ChannelError.FORMAT, attempts=3) == Decision(reaction=Reaction.SEND_PLAIN, at_ms=NOW_MS)
    assert decided(ChannelError.FORMAT, is_plain=True).reaction is Reaction.FAIL


def test_a_chunk_that_is_too_long_is_cut_again_at_once() -> None:
    assert decided(ChannelError.TOO_LONG) == Decision(reaction=Reaction.RECHUNK, at_ms=NOW_MS)


@pytest.mark.parametrize("error", [ChannelError.TRANSIENT, ChannelError.RATE_LIMITED])
def test_three_tries_are_made_before_the_queue_takes_over(error: ChannelError) -> None:
    assert [decided(error, attempts=n).reaction for n in (1, 2, 3)] == [
        Reaction.WAIT,
        Reaction.WAIT,
        Reaction.GIVE_BACK,
    ]


def test_waits_double_from_half_a_second_to_thirty() -> None:
    waits = [in_process_delay_ms(attempt, dice=1.0) for attempt in range(1, 10)]
    assert waits == [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]


@given(attempt=st.integers(1, 10**9), dice=st.floats(0, 1))
def test_jitter_takes_any_part_of_the_wait_and_never_more(attempt: int, dice: float) -> None:
    assert 0 <= in_process_delay_ms(attempt, dice=dice) <= in_process_delay_ms(attempt, dice=1.0) <= 30_000


def test_the_platforms_own_wait_is_kept_exactly_whatever_the_dice_say() -> None:
    for dice in (0.0, 0.4, 1.0):
        asked = decided(ChannelError.RATE_LIMITED, retry_after_ms=77_123, dice=dice)
        assert asked == Decision(reaction=Reaction.WAIT, at_ms=NOW_MS + 77_123)


def test_no_wait_goes_beyond_the_expiry() -> None:
    late = decided(ChannelError.RATE_LIMITED, retry_after_ms=10**9, expires_at_ms=NOW_MS + 5)
    assert late.at_ms == NOW_MS + 5
    assert decided(ChannelError.TRANSIENT, expires_at_ms=NOW_MS - 5).at_ms == NOW_MS


@pytest.mark.parametrize("dice", [-0.1, 1.1])
def test_dice_out_of_range_are_refused(dice: float) -> None:
    with pytest.raises(OutOfRange, match="dice"):
        decided(ChannelError.TRANSIENT, dice=dice)


def test_tries_are_counted_from_one() -> None:
    with pytest.raises(OutOfRange, match="attempt"):
        in_process_delay_ms(0, dice=0.5)


def test_a_limit_is_halved_until_nothing_smaller_is_left() -> None:
    limits = [4_096]
    while (limit := smaller_limit(limits[-1])) is not None:
        limits.append(limit)
    assert limits[-1] == 64
    assert all(larger > smaller for larger, smaller in pairwise(limits))
    assert len(limits) <= 8

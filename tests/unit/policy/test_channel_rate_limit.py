"""How fast a channel may go, and that a platform's wish is remembered for all of its chats."""

import pytest

from restante.model.errors import OutOfRange
from restante.policy.channel_rate_limit import (
    MOST_CHATS,
    ChannelLimits,
    Pace,
    free_at_ms,
    record_retry_after,
    record_send,
)

SLOW = ChannelLimits(chat_interval_ms=1_000, channel_interval_ms=30)


def test_nothing_waits_where_nothing_was_sent() -> None:
    assert free_at_ms(Pace(), "a") == 0


def test_a_chat_keeps_its_distance_and_so_does_the_channel() -> None:
    pace = record_send(Pace(), SLOW, "a", at_ms=5_000)
    assert (free_at_ms(pace, "a"), free_at_ms(pace, "b")) == (6_000, 5_030)


def test_a_platform_that_limits_the_rate_is_obeyed_for_every_chat_and_the_longest_wait_counts() -> None:
    pace = record_retry_after(record_retry_after(Pace(), until_ms=9_000), until_ms=7_000)
    assert (free_at_ms(pace, "a"), free_at_ms(pace, "b")) == (9_000, 9_000)


def test_chats_that_are_free_again_are_forgotten_when_there_are_too_many() -> None:
    pace = Pace(chat_free_at_ms={str(number): number for number in range(MOST_CHATS)})
    after = record_send(pace, SLOW, "new", at_ms=MOST_CHATS - 2)
    assert set(after.chat_free_at_ms) == {str(MOST_CHATS - 1), "new"}


def test_a_limit_outside_its_range_is_refused_with_its_key() -> None:
    with pytest.raises(OutOfRange, match=r"channels\.ops\.timeout_ms = 5 is outside 100\.\.120000"):
        ChannelLimits(timeout_ms=5).check("ops")

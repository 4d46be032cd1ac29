"""Decide what follows when a platform refuses a chunk (SPEC 12.4).

These are the short retries inside one delivery. When they are used up, the entry goes back to its queue, where the
schedule of policy/retry applies. policy/channel_errors classifies refusals.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from restante.model.errors import OutOfRange
from restante.policy.channel_errors import ChannelError
from restante.policy.channel_platforms import MIN_LIMIT

MAX_IN_PROCESS_ATTEMPTS: Final = 3  # SPEC 12.4
BASE_DELAY_MS: Final = 500  # SPEC 12.4: doubles with every attempt
MAX_DELAY_MS: Final = 30_000  # SPEC 12.4


class Reaction(StrEnum):
    """What to do with a refused chunk."""

    WAIT = "wait"
    """Send the same chunk again, at `Decision.at_ms`."""
    SEND_PLAIN = "send_plain"
    """Send the chunk's plain text at once."""
    RECHUNK = "rechunk"
    """Cut the chunk to a smaller limit and send the parts."""
    GIVE_BACK = "give_back"
    """Return the entry to the queue, which waits longer."""
    FAIL = "fail"
    """Give the chunk up: it can never succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    reaction: Reaction
    at_ms: int


def after_refusal(
    error: ChannelError,
    *,
    attempts: int,
    is_plain: bool,
    retry_after_ms: int | None,
    now_ms: int,
    expires_at_ms: int,
    dice: float,
) -> Decision:
    """Decide what to do after attempt number `attempts` of a chunk was refused. The host draws `dice` from [0, 1]."""
    if not 0 <= dice <= 1:
        raise OutOfRange("dice", dice, low=0, high=1)
    match error:
        case ChannelError.PERMANENT:
            return Decision(reaction=Reaction.FAIL, at_ms=now_ms)
        case ChannelError.TOO_LONG:
            return Decision(reaction=Reaction.RECHUNK, at_ms=now_ms)
        case ChannelError.FORMAT:
            return Decision(reaction=Reaction.FAIL if is_plain else Reaction.SEND_PLAIN, at_ms=now_ms)
        case ChannelError.RATE_LIMITED | ChannelError.TRANSIENT:
            delay_ms = in_process_delay_ms(attempts, dice=dice) if retry_after_ms is None else retry_after_ms
            at_ms = min(now_ms + delay_ms, max(now_ms, expires_at_ms))
            has_tries_left = attempts < MAX_IN_PROCESS_ATTEMPTS
            return Decision(reaction=Reaction.WAIT if has_tries_left else Reaction.GIVE_BACK, at_ms=at_ms)


def in_process_delay_ms(attempt: int, *, dice: float) -> int:
    """Return a delay with full jitter: between 0 and a limit that doubles with each attempt (the first is 1)."""
    if attempt < 1:
        raise OutOfRange("attempt", attempt, low=1, high=MAX_IN_PROCESS_ATTEMPTS)
    doublings = min(attempt - 1, MAX_DELAY_MS.bit_length())  # a larger shift changes nothing, the result is capped
    return round(min(BASE_DELAY_MS << doublings, MAX_DELAY_MS) * dice)


def smaller_limit(limit: int) -> int | None:
    """Return a smaller limit for a chunk that was too long under this one, or None if it cannot be smaller."""
    return max(limit // 2, MIN_LIMIT) if limit > MIN_LIMIT else None

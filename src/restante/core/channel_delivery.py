"""The state machine that sends one chunk: each answer of a platform, and what follows (SPEC 12.4, 12.6).

Every transition is in this file. The host stores `ChunkState` before it calls the platform, so that it survives a
crash, and executes the one effect of each step. core/channel_chunks makes chunks, policy/channel_errors classifies
refusals and policy/retry computes the waits of the queue.
"""

from dataclasses import dataclass, replace
from typing import Final

from restante.policy.channel_errors import ChannelError
from restante.policy.channel_retry import Decision, Reaction, after_refusal, smaller_limit
from restante.policy.failures import Failure

MOST_CRASHES: Final = 1  # SPEC 12.6: resent once


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkState:
    """How far sending has come. `is_open`: a send has begun and its result is not recorded.

    `crashes` and `lost_answers` count the sends of the current text that may have arrived without an answer. After a
    platform found the chunk too long, it is sent as plain text in parts of up to `part_limit` in the platform's unit,
    from `offset` of the plain text on.
    """

    is_open: bool = False
    crashes: int = 0
    lost_answers: int = 0
    as_plain: bool = False
    part_limit: int | None = None
    offset: int = 0

    @property
    def may_have_arrived(self) -> bool:
        return self.crashes + self.lost_answers > 0


UNTOUCHED: Final = ChunkState()


@dataclass(frozen=True, slots=True)
class Leased:
    """A lease on the entry began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The platform accepted the text. `next_offset` is where the next part begins, None if nothing is left."""

    next_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The platform refused the text. `size` is the size of the text, in the platform's unit."""

    error: ChannelError
    size: int
    retry_after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class NotReached:
    """Nothing left this machine."""


@dataclass(frozen=True, slots=True)
class AnswerLost:
    """The text was sent and no answer came, for example because of a timeout or a broken connection."""


Event = Leased | Accepted | Refused | NotReached | AnswerLost


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Wait until then, store the state as open, call the platform."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Done:
    """The whole chunk has arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveBack:
    """Return the entry to the queue or, if the failure is permanent, make it a dead letter."""

    failure: Failure
    retry_after_ms: int | None = None


Effect = Send | Done | GiveBack
Step = tuple[ChunkState, Effect]


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """The inputs of a step. `attempts` are those of this lease, including the last. No attempt starts after
    `no_attempt_after_ms`."""

    now_ms: int
    expires_at_ms: int
    no_attempt_after_ms: int
    attempts: int
    recognises_repeats: bool
    dice: float


def step(progress: ChunkState, event: Event, around: Circumstances) -> Step:
    match event:
        case Leased():
            return _leased(progress, around)
        case Accepted(next_offset=None):
            return replace(progress, is_open=False), Done()
        case Accepted():
            # Another part is another message: reset the counters.
            following = ChunkState(
                as_plain=progress.as_plain, part_limit=progress.part_limit, offset=event.next_offset or 0
            )
            return following, Send(at_ms=around.now_ms)
        case Refused():
            return _refused(replace(progress, is_open=False), event, around)
        case NotReached():
            return _wait(replace(progress, is_open=False), ChannelError.TRANSIENT, None, around)
        case AnswerLost():
            lost = replace(progress, is_open=False, lost_answers=progress.lost_answers + 1)
            return _wait(lost, ChannelError.TRANSIENT, None, around)


def _leased(progress: ChunkState, around: Circumstances) -> Step:
    if not progress.is_open:
        return progress, Send(at_ms=around.now_ms)
    crashed = replace(progress, is_open=False, crashes=progress.crashes + 1)
    if crashed.crashes > MOST_CRASHES and not around.recognises_repeats:
        return crashed, GiveBack(failure=Failure.SEND_UNSURE)
    return crashed, Send(at_ms=around.now_ms)


def _refused(progress: ChunkState, event: Refused, around: Circumstances) -> Step:
    if event.error in (ChannelError.RATE_LIMITED, ChannelError.TRANSIENT):
        return _wait(progress, event.error, event.retry_after_ms, around)
    match _decide(event.error, None, progress, around).reaction:
        case Reaction.SEND_PLAIN:
            return replace(progress, as_plain=True), Send(at_ms=around.now_ms)
        case Reaction.RECHUNK:
            limit = smaller_limit(event.size)
            if limit is None:
                return progress, GiveBack(failure=Failure.TOO_LARGE)
            return replace(progress, as_plain=True, part_limit=limit), Send(at_ms=around.now_ms)
        case _:
            return progress, GiveBack(failure=Failure.CHANNEL_REFUSED)


def _wait(progress: ChunkState, error: ChannelError, retry_after_ms: int | None, around: Circumstances) -> Step:
    decision = _decide(error, retry_after_ms, progress, around)
    if decision.reaction is Reaction.WAIT and decision.at_ms <= around.no_attempt_after_ms:
        return progress, Send(at_ms=decision.at_ms)
    if error is ChannelError.RATE_LIMITED or retry_after_ms is not None:
        # The queue obeys a Retry-After, too, and the attempt does not count (SPEC 4.3).
        wait_ms = None if retry_after_ms is None else decision.at_ms - around.now_ms
        return progress, GiveBack(failure=Failure.RATE_LIMITED, retry_after_ms=wait_ms)
    return progress, GiveBack(failure=Failure.CHANNEL_UNAVAILABLE)


def _decide(error: ChannelError, retry_after_ms: int | None, progress: ChunkState, around: Circumstances) -> Decision:
    return after_refusal(
        error,
        attempts=around.attempts,
        is_plain=progress.as_plain,
        retry_after_ms=retry_after_ms,
        now_ms=around.now_ms,
        expires_at_ms=around.expires_at_ms,
        dice=around.dice,
    )

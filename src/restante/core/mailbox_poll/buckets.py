"""Which time buckets of an inbox are still read: open, ended and final ones (SPEC 7.5).

A bucket is polled while it is open. A read that begins an hour after its end and in which enough answers count ends the
polling. A second such read, a day after the end, finalizes it. Answers given before the hour ended prove nothing, and a
partition of a few hours is over by the second read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from restante.core.transitions import Table, check_phase, legal_phases
from restante.policy.mesh.placement import COPIES
from restante.policy.mesh.time_buckets import (
    FIRST_READ_MS,
    HOUR_MS,
    SECOND_READ_MS,
    bucket_end_ms,
    current_buckets,
    first_readable_bucket,
    is_old,
    pause_after_reads_ms,
    read_can_end,
    read_can_finalize,
)

READ_QUORUM: Final = 4


class Phase(StrEnum):
    OPEN = "open"
    ENDED = "ended"
    FINAL = "final"


class ReadFinished(NamedTuple):
    """A read of this bucket is over. `counted` nodes answered during it and said that they are complete.

    `is_whole` is false if a listed blob could not be fetched from any node.
    """

    began_at_ms: int
    counted: int
    storage_nodes: int
    is_whole: bool = True


class MailStored(NamedTuple):
    """Mail may have been stored that no read or push has brought: read the bucket again now if it is not final.

    A read that began before asked some nodes too early for that, so it does not take the place of the next one."""


Event = ReadFinished | MailStored

TABLE: Final[Table[Phase]] = {
    Phase.OPEN: {ReadFinished: frozenset({Phase.OPEN, Phase.ENDED}), MailStored: frozenset({Phase.OPEN})},
    Phase.ENDED: {ReadFinished: frozenset({Phase.ENDED, Phase.FINAL}), MailStored: frozenset({Phase.ENDED})},
    Phase.FINAL: dict.fromkeys((ReadFinished, MailStored), frozenset({Phase.FINAL})),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    number: int
    phase: Phase = Phase.OPEN
    next_read_at_ms: int = 0
    reads_when_old: int = 0
    stored_at_ms: int | None = None
    """When `MailStored` came last. The client's file does not keep it: a new run reads every recent bucket."""


def needed_answers(storage_nodes: int) -> int:
    """Return how many answers must count: 4 of 5, or all of fewer than 5 storage nodes."""
    return READ_QUORUM if storage_nodes >= COPIES else max(storage_nodes, 1)


def step(state: Bucket, event: Event, *, now_ms: int, poll_interval_ms: int) -> Bucket:
    following = legal_phases(TABLE, state.phase, event)
    after = _step(state, event, now_ms, poll_interval_ms)
    check_phase(following, after.phase, event)
    if isinstance(event, ReadFinished) and after.stored_at_ms is not None and after.stored_at_ms >= event.began_at_ms:
        return replace(after, next_read_at_ms=min(after.next_read_at_ms, now_ms))
    return after


def _step(state: Bucket, event: Event, now_ms: int, poll_interval_ms: int) -> Bucket:
    match state.phase, event:
        case Phase.FINAL, _:
            return state
        case _, MailStored():
            return replace(state, next_read_at_ms=min(state.next_read_at_ms, now_ms), stored_at_ms=now_ms)
        case Phase.OPEN, ReadFinished() if _counts(event) and read_can_end(state.number, began_at_ms=event.began_at_ms):
            second_ms = max(bucket_end_ms(state.number) + SECOND_READ_MS, now_ms + HOUR_MS)
            return replace(state, phase=Phase.ENDED, next_read_at_ms=second_ms, reads_when_old=0)
        case Phase.ENDED, ReadFinished() if _counts(event) and read_can_finalize(
            state.number, began_at_ms=event.began_at_ms
        ):
            return replace(state, phase=Phase.FINAL)
        case _:
            return _read_again(state, now_ms, poll_interval_ms)


def _counts(event: ReadFinished) -> bool:
    return event.is_whole and event.counted >= needed_answers(event.storage_nodes)


def _read_again(state: Bucket, now_ms: int, poll_interval_ms: int) -> Bucket:
    """Wait the poll interval for a recent bucket, and 1, 2, 4 … 24 h for one that ended 3 h ago or more."""
    if is_old(state.number, now_ms=now_ms):
        reads = state.reads_when_old + 1
        return replace(state, reads_when_old=reads, next_read_at_ms=now_ms + pause_after_reads_ms(reads))
    end_ms = bucket_end_ms(state.number) + FIRST_READ_MS
    after_ms = now_ms + poll_interval_ms
    # The read that can end the polling is due exactly when it can.
    return replace(state, next_read_at_ms=min(after_ms, end_ms) if now_ms < end_ms else after_ms)


def with_current(buckets: Mapping[int, Bucket], *, now_ms: int, since: int | None = None) -> dict[int, Bucket]:
    """Return the buckets of an inbox at this time: new ones open, those older than 30 days dropped.

    `since` is the first bucket that this inbox can have mail in; None for a full sync of 720 buckets.
    """
    oldest = max(first_readable_bucket(now_ms), since or 0)
    wanted: Iterable[int] = range(oldest, max(current_buckets(now_ms)) + 1)
    return {number: buckets.get(number, Bucket(number=number)) for number in wanted}


def after_restart(buckets: Mapping[int, Bucket], *, now_ms: int) -> dict[int, Bucket]:
    """Return the buckets as a new run finds them: recent open ones are due, because nodes pushed nothing meanwhile."""
    return {
        number: replace(each, next_read_at_ms=min(each.next_read_at_ms, now_ms))
        if each.phase is Phase.OPEN and not is_old(number, now_ms=now_ms)
        else each
        for number, each in buckets.items()
    }


def due(buckets: Mapping[int, Bucket], *, now_ms: int) -> list[int]:
    """Return the buckets to read now, oldest first."""
    return sorted(
        number for number, each in buckets.items() if each.phase is not Phase.FINAL and each.next_read_at_ms <= now_ms
    )

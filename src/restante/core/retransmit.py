"""Decide what a sender does about a retransmit request (SPEC 9.5). Nothing is sent here."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from restante.model.ids import MessageId
from restante.model.states import State
from restante.wire.control_messages import RetransmitRequest

PAUSE_MS: Final = 60_000
"""A message that was stored less than a minute ago may still arrive; a request does not send it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """An outbox entry of the requested session, with the sequence number its message has there."""

    message_id: MessageId
    sequence: int
    state: State
    last_attempt_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetransmitPlan:
    """`resend` are to be sent with the same sealed bytes, by number: stored ones once more, waiting ones at once.

    `under_way` are being sent or were just stored.
    `gone` are numbers without an entry: receipted, expired, evicted, dead or never sent. The recipient gets no answer
    for them; the sender's journal has their states.
    """

    resend: tuple[MessageId, ...]
    under_way: tuple[MessageId, ...]
    gone: tuple[int, ...]


def plan_retransmit(request: RetransmitRequest, held: Iterable[SentMessage], *, now_ms: int) -> RetransmitPlan:
    """Put every requested number into exactly one of the three lists. Entries beyond the request are ignored."""
    asked = range(request.first, request.last + 1)
    by_number = {entry.sequence: entry for entry in held if entry.sequence in asked}
    found = [by_number[number] for number in asked if number in by_number]
    return RetransmitPlan(
        resend=tuple(entry.message_id for entry in found if _is_to_be_sent_again(entry, now_ms)),
        under_way=tuple(entry.message_id for entry in found if not _is_to_be_sent_again(entry, now_ms)),
        gone=tuple(number for number in asked if number not in by_number),
    )


def _is_to_be_sent_again(entry: SentMessage, now_ms: int) -> bool:
    match entry.state:
        case State.PENDING:
            return True
        case State.SENT:
            return entry.last_attempt_at_ms is None or now_ms >= entry.last_attempt_at_ms + PAUSE_MS
        case _:
            return False

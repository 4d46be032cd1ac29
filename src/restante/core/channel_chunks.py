"""Turn a message for a channel into the outbox entries of its chunks (SPEC 12.1): ids, order, threads and grouping.

The caller renders and cuts the Markdown. Nothing is stored or sent here.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError
from restante.model.ids import MESSAGE_ID_BYTES, MessageId, mint_message_id
from restante.model.kinds import Priority
from restante.model.outbox_entry import OutboxEntry
from restante.policy.channel_platforms import Format
from restante.wire.channel_chunk import MAX_CHUNKS, ChannelChunk, GroupId, Strategy

_ID_DOMAIN: Final = b"restante-channel-chunk-v1"
LANE_SEPARATOR: Final = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelMessage:
    """A message to a chat, as the application passes it. The before hook may replace it."""

    channel: str
    chat: str
    markdown: str
    title: str | None = None
    reply_to: str | None = None
    thread: str | None = None
    strategy: Strategy = Strategy.ALL_OR_ABORT
    ttl_s: int | None = None
    priority: Priority | None = None

    @property
    def is_empty(self) -> bool:
        return not self.markdown.strip()


@dataclass(frozen=True, slots=True)
class Stop:
    """Returned by the before hook: send nothing, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class RenderedChunk:
    """One chunk after rendering and cutting: in the platform's format, and as plain text."""

    text: str
    plain: str


def plan(
    message: ChannelMessage, rendered: Sequence[RenderedChunk], *, form: Format, group: GroupId
) -> list[ChannelChunk]:
    """Return the chunks of a delivery. Only the first carries `reply_to`; all carry `thread`."""
    if len(rendered) > MAX_CHUNKS:
        raise RestanteError(
            f"the message needs {len(rendered):,} chunks; at most {MAX_CHUNKS:,} are allowed",
            code=Code.MESSAGE_TOO_LARGE,
        )
    return [
        ChannelChunk(
            group=group,
            index=index,
            count=len(rendered),
            strategy=message.strategy,
            channel=message.channel,
            chat=message.chat,
            format=form,
            text=one.text,
            plain=one.plain,
            title=message.title,
            reply_to=None if index else message.reply_to,
            thread=message.thread,
        )
        for index, one in enumerate(rendered)
    ]


def chunk_id(group: GroupId, index: int) -> MessageId:
    """Return the message id of a chunk. It is computed from the group and index, so one chunk's ids give all others.

    The group is random, so the id is a valid UUIDv4 (SPEC 2.1).
    """
    digest = hashlib.sha256(_ID_DOMAIN + group + index.to_bytes(2, "big")).digest()
    return mint_message_id(digest[:MESSAGE_ID_BYTES])


def lane_of(channel: str, chat: str) -> str:
    """Return the lane of a chat. One chat is one FIFO lane (SPEC 3.4)."""
    return f"{channel}{LANE_SEPARATOR}{chat}"


def channel_of(lane: str) -> str:
    return lane.partition(LANE_SEPARATOR)[0]


def idempotency_key(entry_id: MessageId, *, offset: int, limit: int | None) -> str:
    """Return a key that is the same for every attempt to send a text, and different for every other text."""
    return entry_id.hex() if limit is None else f"{entry_id.hex()}-{limit}-{offset}"


def neighbours_to_ask(chunk: ChannelChunk, entry: OutboxEntry) -> tuple[MessageId, ...]:
    """Return the chunks whose state must be checked first. If one of them is a dead letter, this chunk is withdrawn.

    A later chunk checks only the one before it, which has checked the one before that. A chunk that is retried
    automatically, a day after it became a dead letter, also checks the next one: if that was withdrawn, it would come
    alone.
    """
    if chunk.strategy is Strategy.BEST_EFFORT:
        return ()
    comes_by_itself = entry.first_dead_at_ms is not None
    before = (chunk_id(chunk.group, chunk.index - 1),) if chunk.index else ()
    after = (chunk_id(chunk.group, chunk.index + 1),) if comes_by_itself and chunk.index + 1 < chunk.count else ()
    return before + after


def check_chat(chat: str) -> None:
    if not chat.strip() or not chat.isprintable():
        raise Malformed("the name of a chat must be printable text")

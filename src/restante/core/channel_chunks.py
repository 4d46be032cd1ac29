"""From a draft to the entries of its chunks (SPEC 12.1): names, order, threads and what belongs together.

Pure: how Markdown is rendered and cut is told by the caller, and nothing is stored or sent here.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from restante.model.errors import Malformed, TooLarge
from restante.model.ids import MESSAGE_ID_BYTES, MessageId, mint_message_id
from restante.model.kinds import Priority
from restante.model.outbox_entry import OutboxEntry
from restante.policy.channel_platforms import Format
from restante.wire.channel_chunk import MAX_CHUNKS, ChannelChunk, GroupId, Strategy

_ID_DOMAIN: Final = b"restante-channel-chunk-v1"
LANE_SEPARATOR: Final = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What somebody wants said in a chat. The before hook may replace it."""

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
    """The before hook's word that nothing is to be sent, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class RenderedChunk:
    """One chunk as it was cut: in the platform's format, and plain."""

    text: str
    plain: str


def plan(draft: Draft, pieces: Sequence[RenderedChunk], *, form: Format, group: GroupId) -> list[ChannelChunk]:
    """The chunks of a delivery. Only the first answers `reply_to`; all of them stand in `thread`."""
    if len(pieces) > MAX_CHUNKS:
        raise TooLarge("the message in chunks", size_bytes=len(draft.markdown.encode()), limit_bytes=MAX_CHUNKS)
    return [
        ChannelChunk(
            group=group,
            index=index,
            count=len(pieces),
            strategy=draft.strategy,
            channel=draft.channel,
            chat=draft.chat,
            format=form,
            text=piece.text,
            plain=piece.plain,
            title=draft.title,
            reply_to=None if index else draft.reply_to,
            thread=draft.thread,
        )
        for index, piece in enumerate(pieces)
    ]


def chunk_id(group: GroupId, index: int) -> MessageId:
    """The message id of a chunk: whoever holds one chunk of a group knows the ids of all others.

    The group is random, so the id is as good a UUIDv4 as any (SPEC 2.1).
    """
    digest = hashlib.sha256(_ID_DOMAIN + group + index.to_bytes(2, "big")).digest()
    return mint_message_id(digest[:MESSAGE_ID_BYTES])


def lane_of(channel: str, chat: str) -> str:
    """One chat is one lane, first in, first out (SPEC 3.4)."""
    return f"{channel}{LANE_SEPARATOR}{chat}"


def channel_of(lane: str) -> str:
    return lane.partition(LANE_SEPARATOR)[0]


def idempotency_key(entry_id: MessageId, *, offset: int, limit: int | None) -> str:
    """The same for every try of the same text, another for every other text."""
    return entry_id.hex() if limit is None else f"{entry_id.hex()}-{limit}-{offset}"


def neighbours_to_ask(chunk: ChannelChunk, entry: OutboxEntry) -> tuple[MessageId, ...]:
    """Whose end decides whether this chunk may still be sent: if one of them was given up, this one is withdrawn.

    A later chunk asks only for the one before it, which has asked for the one before that. A chunk that comes back by
    itself, a day after it was given up, would come alone if the next one was withdrawn, so it asks for that, too.
    """
    if chunk.strategy is Strategy.BEST_EFFORT:
        return ()
    comes_by_itself = entry.first_buried_at_ms is not None
    before = (chunk_id(chunk.group, chunk.index - 1),) if chunk.index else ()
    after = (chunk_id(chunk.group, chunk.index + 1),) if comes_by_itself and chunk.index + 1 < chunk.count else ()
    return before + after


def check_chat(chat: str) -> None:
    if not chat.strip() or not chat.isprintable():
        raise Malformed("a chat must be named by printable text")

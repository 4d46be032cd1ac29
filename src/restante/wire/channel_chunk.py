"""Encode one chunk of a channel delivery, with everything needed to send it, for the outbox (SPEC 12.1).

The format is a version, a few numbers, then texts with their lengths. A chunk has exactly one encoding.
"""

import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NewType

from restante.model.errors import Malformed, TooLarge
from restante.model.ids import exactly
from restante.model.limits import MAX_SEALED_BYTES
from restante.wire.field_checks import check_number

GroupId = NewType("GroupId", bytes)

GROUP_ID_BYTES: Final = 16
MAX_CHUNKS: Final = 0xFFFF
MAX_CHANNEL_CHARS: Final = 64
MAX_WORD_CHARS: Final = 1_024  # a chat, a thread, a platform's message id, a title
SEAL_BYTES: Final = 29  # bytes that sealing under the storage key adds: version, nonce, tag
MAX_CHUNK_BYTES: Final = MAX_SEALED_BYTES - SEAL_BYTES  # SPEC 2.8: sealed, it is the payload of an outbox entry

_VERSION: Final = 1
_HEAD: Final = struct.Struct(f">BB{GROUP_ID_BYTES}sHH")
_LENGTH: Final = struct.Struct(">I")
_NONE: Final = ""


class Strategy(StrEnum):
    """What happens to the later chunks if one can never be delivered."""

    ALL_OR_ABORT = "all_or_abort"
    BEST_EFFORT = "best_effort"


_STRATEGIES: Final = tuple(Strategy)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelChunk:
    """One chunk. `text` is in `format`; `plain` is the same text without markup. An absent text is None, never
    empty."""

    group: GroupId
    index: int
    count: int
    strategy: Strategy
    channel: str
    chat: str
    format: str
    text: str
    plain: str
    title: str | None = None
    reply_to: str | None = None
    thread: str | None = None

    def __post_init__(self) -> None:
        exactly(self.group, GROUP_ID_BYTES, "the group of a chunk")
        check_number(self.count, "the count of chunks", low=1, high=MAX_CHUNKS)
        check_number(self.index, "the index of a chunk", high=self.count - 1)
        for name, value in (("channel", self.channel), ("format", self.format)):
            if not 0 < len(value) <= MAX_CHANNEL_CHARS:
                raise Malformed(f"the {name} of a chunk must have 1 to {MAX_CHANNEL_CHARS} characters")
        words = {"chat": self.chat, "title": self.title, "reply_to": self.reply_to, "thread": self.thread}
        for name, word in words.items():
            if word is not None and not 0 < len(word) <= MAX_WORD_CHARS:
                raise Malformed(f"the {name} of a chunk must have 1 to {MAX_WORD_CHARS} characters")
        if not self.text or not self.plain:
            raise Malformed("a chunk must have a text, and a plain one")


def encode_chunk(chunk: ChannelChunk) -> bytes:
    head = _HEAD.pack(_VERSION, _STRATEGIES.index(chunk.strategy), chunk.group, chunk.index, chunk.count)
    optional = (chunk.title, chunk.reply_to, chunk.thread)
    texts = (chunk.channel, chunk.chat, chunk.format, *(text or _NONE for text in optional), chunk.text, chunk.plain)
    try:
        encoded = [text.encode() for text in texts]
    except UnicodeEncodeError:
        raise Malformed("a text of a chunk contains half of a surrogate pair, which UTF-8 cannot encode") from None
    raw = head + b"".join(_LENGTH.pack(len(one)) + one for one in encoded)
    if len(raw) > MAX_CHUNK_BYTES:
        raise TooLarge("the chunk", size_bytes=len(raw), limit_bytes=MAX_CHUNK_BYTES)
    return raw


def decode_chunk(raw: bytes) -> ChannelChunk:
    """Decode a chunk. Raise `Malformed` or `TooLarge` for anything that `encode_chunk` does not write."""
    if len(raw) > MAX_CHUNK_BYTES:
        raise TooLarge("the chunk", size_bytes=len(raw), limit_bytes=MAX_CHUNK_BYTES)
    if len(raw) < _HEAD.size:
        raise Malformed("not a chunk: too short")
    version, strategy, group, index, count = _HEAD.unpack_from(raw)
    if version != _VERSION:
        raise Malformed(f"a chunk of version {version}; this version of Restante reads {_VERSION}")
    if strategy >= len(_STRATEGIES):
        raise Malformed("the chunk has an unknown strategy")
    channel, chat, format_, title, reply_to, thread, text, plain = _texts(raw, 8)
    return ChannelChunk(
        group=GroupId(group),
        index=index,
        count=count,
        strategy=_STRATEGIES[strategy],
        channel=channel,
        chat=chat,
        format=format_,
        title=title or None,
        reply_to=reply_to or None,
        thread=thread or None,
        text=text,
        plain=plain,
    )


def _texts(raw: bytes, count: int) -> list[str]:
    texts = []
    at = _HEAD.size
    for _ in range(count):
        begin = at + _LENGTH.size
        if begin > len(raw):
            raise Malformed("not a chunk: it ends too early")
        (length,) = _LENGTH.unpack_from(raw, at)
        at = begin + length
        if at > len(raw):
            raise Malformed("not a chunk: a text is longer than the remaining bytes")
        try:
            texts.append(raw[begin:at].decode())
        except UnicodeDecodeError:
            raise Malformed("a text of a chunk is not UTF-8") from None
    if at != len(raw):
        raise Malformed("not a chunk: there are bytes after its last text")
    return texts

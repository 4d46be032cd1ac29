"""Classify a platform's refusal (SPEC 12.5). No other module reads error texts.

Platforms answer with texts. What is not clearly permanent counts as transient: one retry too many costs little, while a
message given up too early is lost.
"""

from enum import StrEnum
from typing import Final


class ChannelError(StrEnum):
    """The classes of refusal (SPEC 12.5)."""

    PERMANENT = "permanent"
    TOO_LONG = "too_long"
    FORMAT = "format"
    RATE_LIMITED = "rate_limited"
    TRANSIENT = "transient"


MAX_READ_CHARS: Final = 8_192
"""Only this much of a text is searched: some platforms answer with a whole web page."""

PERMANENT_TEXTS: Final = (
    "chat not found",
    "user not found",
    "bot was blocked",
    "bot was kicked",
    "chat_id is empty",
    "no conversation reference found",
    "not a member",
    "invalid recipient",
)
"""Eight of the nine permanent patterns of SPEC 12.5. The ninth, "ambiguous … recipient", has words in between."""

TOO_LONG_TEXT: Final = "message is too long"
FORMAT_TEXT: Final = "can't parse entities"
RATE_LIMITED_TEXT: Final = "too many requests"

_STATUSES: Final = {413: ChannelError.TOO_LONG, 429: ChannelError.RATE_LIMITED}


def classify_channel_error(text: str, status: int | None = None) -> ChannelError:
    """Return the class of a refusal with this text and, for HTTP platforms, this status.

    A status listed here outranks the text, because the text may quote the refused message.
    """
    if status is not None and status in _STATUSES:
        return _STATUSES[status]
    read = text[:MAX_READ_CHARS].lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    if any(pattern in read for pattern in PERMANENT_TEXTS) or _has_ambiguous_recipient(read):
        return ChannelError.PERMANENT
    if TOO_LONG_TEXT in read:
        return ChannelError.TOO_LONG
    if FORMAT_TEXT in read:
        return ChannelError.FORMAT
    if RATE_LIMITED_TEXT in read:
        return ChannelError.RATE_LIMITED
    return ChannelError.TRANSIENT


def _has_ambiguous_recipient(text: str) -> bool:
    """Match `ambiguous.*recipient` on one line, without the quadratic time of a regular expression."""
    return any("recipient" in line.partition("ambiguous")[2] for line in text.split("\n"))

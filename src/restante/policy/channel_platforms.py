"""The format, the length limit and the unit of counting of each chat platform (SPEC 12.2, 12.3).

runtime/channels renders Markdown and cuts texts; here are only numbers and counting.

Where a platform does not document how it counts, we use the larger of the likely counts: a chunk that is slightly too
short costs nothing, one that is too long is refused.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Platform(StrEnum):
    """The platforms we know limits for; OTHER has the defaults."""

    TELEGRAM = "telegram"
    DISCORD = "discord"
    SLACK = "slack"
    WHATSAPP = "whatsapp"
    SIGNAL = "signal"
    LINE = "line"
    MATRIX = "matrix"
    EMAIL = "email"
    IRC = "irc"
    OTHER = "other"


class Format(StrEnum):
    """The output formats of the renderer (SPEC 12.2)."""

    TELEGRAM_HTML = "telegram_html"
    SLACK_MRKDWN = "slack_mrkdwn"
    DISCORD_MARKDOWN = "discord_markdown"
    WHATSAPP_MARKS = "whatsapp_marks"
    MATRIX_HTML = "matrix_html"
    EMAIL_HTML = "email_html"
    IRC = "irc"
    PLAIN = "plain"


class Counting(StrEnum):
    """The unit of a length limit."""

    UTF16_UNITS = "utf16_units"
    UTF8_BYTES = "utf8_bytes"
    CODE_POINTS = "code_points"


DEFAULT_LIMIT: Final = 4_000  # SPEC 12.3
IRC_LINE_BYTES: Final = 512  # SPEC 12.3: a whole line of the protocol, as the server relays it
IRC_RESERVED_BYTES: Final = 172
"""Bytes that the server adds to an IRC line: `:nick!user@host PRIVMSG #channel :` and the line end, with names of 30,
10, 63 and 50 bytes."""
TELEGRAM_MARKUP_BYTES: Final = 16_384
"""Our own cap on a Telegram text including tags. Telegram's limit counts only the text without them."""
MIN_LIMIT: Final = 64
"""The smallest limit that is allowed: marks, prefixes and one grapheme must fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformRules:
    """The rules of one platform. `markup_bytes` caps the text with markup where `limit` counts only the text without
    it."""

    format: Format
    limit: int
    counting: Counting
    reserved: int = 0
    markup_bytes: int | None = None
    one_line: bool = False
    """A line break ends the message, so that every line is a chunk."""

    @property
    def chunk_limit(self) -> int:
        """Return the length that a chunk may use."""
        return self.limit - self.reserved


RULES: Final = {
    Platform.TELEGRAM: PlatformRules(
        format=Format.TELEGRAM_HTML,
        limit=4_096,
        counting=Counting.UTF16_UNITS,
        markup_bytes=TELEGRAM_MARKUP_BYTES,
    ),
    Platform.DISCORD: PlatformRules(format=Format.DISCORD_MARKDOWN, limit=2_000, counting=Counting.UTF16_UNITS),
    Platform.SLACK: PlatformRules(format=Format.SLACK_MRKDWN, limit=4_000, counting=Counting.UTF16_UNITS),
    Platform.WHATSAPP: PlatformRules(format=Format.WHATSAPP_MARKS, limit=65_536, counting=Counting.UTF16_UNITS),
    Platform.SIGNAL: PlatformRules(format=Format.PLAIN, limit=65_536, counting=Counting.UTF8_BYTES),
    Platform.LINE: PlatformRules(format=Format.PLAIN, limit=5_000, counting=Counting.UTF16_UNITS),
    Platform.MATRIX: PlatformRules(format=Format.MATRIX_HTML, limit=DEFAULT_LIMIT, counting=Counting.CODE_POINTS),
    Platform.EMAIL: PlatformRules(format=Format.EMAIL_HTML, limit=100_000, counting=Counting.CODE_POINTS),
    Platform.IRC: PlatformRules(
        format=Format.IRC,
        limit=IRC_LINE_BYTES,
        counting=Counting.UTF8_BYTES,
        reserved=IRC_RESERVED_BYTES,
        one_line=True,
    ),
    Platform.OTHER: PlatformRules(format=Format.PLAIN, limit=DEFAULT_LIMIT, counting=Counting.UTF16_UNITS),
}
"""The table of SPEC 12.3. It gives no limit for Matrix, which therefore has the default."""


def measure(text: str, counting: Counting) -> int:
    """Return the length of the text in this unit."""
    if counting is Counting.CODE_POINTS or text.isascii():
        return len(text)
    if counting is Counting.UTF8_BYTES:
        return len(text.encode())
    return len(text.encode("utf-16-le")) // 2

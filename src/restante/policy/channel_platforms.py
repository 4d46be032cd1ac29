"""What each chat platform takes: which format, how long a message may be, and how it counts (SPEC 12.2, 12.3).

Numbers and counting only. How Markdown becomes a format, and where a text is cut, is not known here.

Where a platform does not say how it counts, the larger of the likely counts is taken: a chunk a little shorter than
necessary costs nothing, one too long is refused.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Platform(StrEnum):
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
    TELEGRAM_HTML = "telegram_html"
    SLACK_MRKDWN = "slack_mrkdwn"
    DISCORD_MARKDOWN = "discord_markdown"
    WHATSAPP_MARKS = "whatsapp_marks"
    MATRIX_HTML = "matrix_html"
    EMAIL_HTML = "email_html"
    IRC = "irc"
    PLAIN = "plain"


class Counting(StrEnum):
    """The unit of a limit."""

    UTF16_UNITS = "utf16_units"
    UTF8_BYTES = "utf8_bytes"
    CODE_POINTS = "code_points"


DEFAULT_LIMIT: Final = 4_000  # SPEC 12.3
IRC_LINE_BYTES: Final = 512  # SPEC 12.3: a whole line of the protocol, as the server relays it
IRC_RESERVED_BYTES: Final = 172
"""Room in an IRC line for what the server puts around a text: `:nick!user@host PRIVMSG #channel :` and the line end,
with names of 30, 10, 63 and 50 bytes."""
TELEGRAM_MARKUP_BYTES: Final = 16_384
"""A cap of ours on a Telegram text with its tags, since only the text without them counts for Telegram's limit."""
MIN_LIMIT: Final = 64
"""No limit below this is taken: marks, prefixes and one grapheme must fit beside each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformRules:
    """`markup_bytes` is set where only what is left after parsing counts: it caps the text with its markup."""

    format: Format
    limit: int
    counting: Counting
    reserved: int = 0
    markup_bytes: int | None = None
    one_line: bool = False
    """A line break ends the message: each line is a chunk of its own."""

    @property
    def chunk_limit(self) -> int:
        """What a chunk may really use."""
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
"""SPEC 12.3, platform by platform. Matrix has no limit of its own there and takes the default."""


def measure(text: str, counting: Counting) -> int:
    """How long the text is in this unit."""
    if counting is Counting.CODE_POINTS or text.isascii():
        return len(text)
    if counting is Counting.UTF8_BYTES:
        return len(text.encode())
    return len(text.encode("utf-16-le")) // 2

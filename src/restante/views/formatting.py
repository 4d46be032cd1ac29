"""Format numbers, times and texts for people. JSON carries the plain values instead."""

import unicodedata
from datetime import UTC, datetime
from typing import Final

DURATIONS_MS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))
REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_UNSAFE_CATEGORIES: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
_BIDI_CONTROLS: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
SIZES_BYTES: Final = (
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 10**9),
    ("MB", 10**6),
    ("kB", 10**3),
    ("bytes", 1),
)


def duration(milliseconds: float) -> str:
    """Format in the largest unit that needs no fraction: `90 d`, `1 h`, `512 s`."""
    return _in_largest(milliseconds, DURATIONS_MS) if milliseconds else "0 s"


def size(number_of_bytes: float) -> str:
    """Format in the unit that gives the smallest whole number: `256 KiB`, `50 MB`."""
    return _in_largest(number_of_bytes, SIZES_BYTES)


def roughly(milliseconds: int) -> str:
    """Format in the largest unit that fits, rounded down: `3 d`, `59 min`; `0 s` below a second."""
    for name, factor in DURATIONS_MS[:-1]:
        if milliseconds >= factor:
            return f"{milliseconds // factor:,} {name}"
    return "0 s"


def away(at_ms: int, now_ms: int) -> str:
    """Format the distance of a time from now: `in 5 min`, `3 d ago`, `now` within a second."""
    if abs(at_ms - now_ms) < 1_000:
        return "now"
    return f"in {roughly(at_ms - now_ms)}" if at_ms > now_ms else f"{roughly(now_ms - at_ms)} ago"


def moment(at_ms: int) -> str:
    """Format date and time in UTC. A time outside the calendar is given as its number."""
    try:
        return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


def bar(part: int, whole: int, *, cells: int = 20) -> str:
    """Draw how full something is. A part above zero shows at least one cell, and only a full bar shows all."""
    filled = min(cells, part * cells // whole)
    if 0 < part < whole:
        filled = min(max(filled, 1), cells - 1)
    return "█" * filled + "░" * (cells - filled)


def percentage(part: int, whole: int) -> str:
    """Format a percentage, rounded down. A part above zero is never shown as 0%."""
    return "<1%" if 0 < part * 100 < whole else f"{part * 100 // whole}%"


def safe_text(text: str) -> str:
    """Return a message's text with U+FFFD for each character that could control a terminal or reverse the text.

    These are the control characters except tab and line feed, the separators U+2028 and U+2029, surrogates, and the
    bidi embeddings, overrides and isolates. Everything else stays: emoji, Persian and Hindi need joiners, and the bidi
    marks cannot do more than a letter of the same direction.
    """
    if text.isprintable():  # none of these is
        return text
    return "".join(REPLACEMENT if _is_unsafe(character) else character for character in text)


def printable(text: str) -> str:
    """Return a name as one safe line."""
    return safe_text(text).replace("\n", REPLACEMENT).replace("\t", REPLACEMENT)


def _is_unsafe(character: str) -> bool:
    if character in "\n\t":
        return False
    return unicodedata.category(character) in _UNSAFE_CATEGORIES or character in _BIDI_CONTROLS


def quantity(value: float, unit: str) -> str:
    """Format a setting with its unit. Times and sizes get a suitable unit."""
    if unit == "ms":
        return duration(value)
    if unit == "bytes":
        return size(value)
    return f"{_number(value)} {unit}".rstrip()


def span(low: float, high: float, unit: str) -> str:
    """Format both ends of a range."""
    if unit in ("ms", "bytes"):
        return f"{quantity(low, unit)} .. {quantity(high, unit)}"
    return f"{_number(low)} .. {quantity(high, unit)}"


def plain(value: float) -> int | float:
    """Return whole numbers as int, so that JSON shows 1 instead of 1.0."""
    return int(value) if value == int(value) else value


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _in_largest(value: float, units: tuple[tuple[str, int], ...]) -> str:
    exact = [(value // factor, name) for name, factor in units if value % factor == 0]
    number, name = min(exact, default=(value, units[-1][0]))
    return f"{plain(number):,} {name}"

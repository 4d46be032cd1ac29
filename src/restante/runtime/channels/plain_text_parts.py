"""Cut plain text into parts for a platform that found it too long (SPEC 12.5).

It starts at an offset, so that a restart continues where the last part ended.
"""

from bisect import bisect_right
from dataclasses import dataclass

from restante.policy.channel_platforms import Counting, measure
from restante.runtime.channels.text_breaks import best_cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part. `next_offset` is where the next one begins, None if this is the last."""

    text: str
    next_offset: int | None


def next_part(text: str, *, offset: int, limit: int, counting: Counting) -> Part:
    """Return the part that begins at `offset`. It has at least one character."""
    fits = bisect_right(range(offset, len(text)), limit, key=lambda at: measure(text[offset : at + 1], counting))
    end = min(len(text), offset + max(fits, 1))
    if end < len(text):
        end = best_cut(text, offset, end, block=None)
        end = max(end, offset + 1)
    rest = end
    while rest < len(text) and text[rest] in " \t\n":
        rest += 1
    return Part(text=text[offset:end], next_offset=rest if rest < len(text) else None)

"""A plain text cut into parts for a platform that found it too long (SPEC 12.5).

Works from a place in the text on, so that a restart goes on where the last part ended.
"""

from bisect import bisect_right
from dataclasses import dataclass

from restante.policy.channel_platforms import Counting, measure
from restante.runtime.channels.text_breaks import best_cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """`next_offset` is where the next part begins; None when this is the last one."""

    text: str
    next_offset: int | None


def next_part(text: str, *, offset: int, limit: int, counting: Counting) -> Part:
    """The part that begins at `offset`. A limit always has room for something: one character at least is taken."""
    fits = bisect_right(range(offset, len(text)), limit, key=lambda at: measure(text[offset : at + 1], counting))
    end = min(len(text), offset + max(fits, 1))
    if end < len(text):
        end = best_cut(text, offset, end, block=None)
        end = max(end, offset + 1)
    rest = end
    while rest < len(text) and text[rest] in " \t\n":
        rest += 1
    return Part(text=text[offset:end], next_offset=rest if rest < len(text) else None)

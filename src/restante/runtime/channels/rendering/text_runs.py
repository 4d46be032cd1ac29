"""What a message is between Markdown and a platform: pieces of visible text inside wraps.

A wrap is a construct that is open (bold, a quote, a fence); a piece stands in a stack of wraps, outermost first.
Pieces know no markup: a dialect turns stacks and pieces into text. A cut anywhere closes the stack and opens it again,
so what a dialect writes is balanced by construction.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import IntEnum, auto
from itertools import accumulate
from typing import Final, NamedTuple


class WrapKind(IntEnum):
    PARAGRAPH = auto()
    HEADING = auto()
    QUOTE = auto()
    BULLET_LIST = auto()
    ORDERED_LIST = auto()
    ITEM = auto()
    FENCE = auto()
    STRONG = auto()
    EMPHASIS = auto()
    STRIKE = auto()
    CODE = auto()
    LINK = auto()
    ADDRESS = auto()
    """A link whose label is its address."""


LINK_KINDS: Final = frozenset({WrapKind.LINK, WrapKind.ADDRESS})
INLINE_KINDS: Final = LINK_KINDS | {WrapKind.STRONG, WrapKind.EMPHASIS, WrapKind.STRIKE, WrapKind.CODE}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wrap:
    """One construct of the document. Compared by identity: two quotes in a row are two quotes."""

    kind: WrapKind
    argument: str = ""
    """The target of a link, the language of a fence, the marker of a list item."""
    number: int = 0
    """The level of a heading, the number of an ordered item, the first number of its list."""


Stack = tuple[Wrap, ...]


class Role(IntEnum):
    TEXT = auto()
    CODE = auto()
    """Inside a code span or a fence, where marks mean nothing."""
    BREAK = auto()
    """A line break inside a paragraph."""
    GAP = auto()
    """Line breaks between blocks."""
    MARKER = auto()
    """The bullet or number of a list item."""
    RULE = auto()
    TARGET = auto()
    """A link's address after its label, for readers whose format has no links."""
    ADDRESS = auto()
    """An address that is its own label."""


_MERGED: Final = frozenset({Role.TEXT, Role.CODE})


class TextRun(NamedTuple):
    """A tuple, since there are many: a frozen dataclass takes four times as long to make."""

    text: str
    stack: Stack
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """A whole message. `visible` is the text of all pieces; positions in it are how cuts are named."""

    pieces: tuple[TextRun, ...]
    starts: tuple[int, ...]
    visible: str

    def around(self, start: int, end: int) -> "Pieces":
        """Only the pieces that have a part in this stretch of the visible text; positions stay what they are."""
        first, last = bisect_right(self.starts, start) - 1, bisect_left(self.starts, end)
        return Pieces(pieces=self.pieces[first:last], starts=self.starts[first:last], visible=self.visible)


def assemble(pieces: list[TextRun]) -> Pieces:
    """Neighbours in the same wraps become one piece: what a dialect must not let pass may stand across both."""
    merged: list[TextRun] = []
    stack: Stack = ()
    role: Role | None = None
    more: list[str] = []
    for piece in pieces:
        text, its_stack, its_role = piece
        if its_role is role and its_stack == stack and role in _MERGED:
            more.append(text)
            continue
        if more:
            merged[-1] = _longer(merged[-1], more)
            more = []
        merged.append(piece)
        stack, role = its_stack, its_role
    if more:
        merged[-1] = _longer(merged[-1], more)
    texts = [piece.text for piece in merged]
    starts = tuple(accumulate(map(len, texts), initial=0))
    return Pieces(pieces=tuple(merged), starts=starts[:-1], visible="".join(texts))


def _longer(piece: TextRun, more: list[str]) -> TextRun:
    return TextRun("".join((piece.text, *more)), piece.stack, piece.role)

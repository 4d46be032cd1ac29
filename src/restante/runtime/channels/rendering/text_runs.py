"""The form of a message between Markdown and a platform: text runs inside elements.

An element is an open construct (bold, a quote, a fence). A run has a stack of elements, outermost first, and no markup:
a dialect writes both. A cut closes the stack and opens it again, so the output is balanced by construction.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import IntEnum, auto
from itertools import accumulate
from typing import Final, NamedTuple


class ElementKind(IntEnum):
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


LINK_KINDS: Final = frozenset({ElementKind.LINK, ElementKind.ADDRESS})
INLINE_KINDS: Final = LINK_KINDS | {ElementKind.STRONG, ElementKind.EMPHASIS, ElementKind.STRIKE, ElementKind.CODE}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Element:
    """One construct of the document. Compared by identity: two adjacent quotes are two elements."""

    kind: ElementKind
    argument: str = ""
    """The target of a link, the language of a fence, the marker of a list item."""
    number: int = 0
    """The level of a heading, the number of an ordered item, the first number of its list."""


Stack = tuple[Element, ...]


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
    """A link's address after its label, for formats without links."""
    ADDRESS = auto()
    """An address that is its own label."""


_MERGED: Final = frozenset({Role.TEXT, Role.CODE})


class TextRun(NamedTuple):
    """Text with one style. It is a tuple because there are many: a frozen dataclass takes four times as long to
    make."""

    text: str
    stack: Stack
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class StyledText:
    """A whole message. `visible` is the text of all runs; cuts are positions in it."""

    runs: tuple[TextRun, ...]
    starts: tuple[int, ...]
    visible: str

    def around(self, start: int, end: int) -> "StyledText":
        """Return only the runs that overlap this stretch of the visible text. Positions stay the same."""
        first, last = bisect_right(self.starts, start) - 1, bisect_left(self.starts, end)
        return StyledText(runs=self.runs[first:last], starts=self.starts[first:last], visible=self.visible)


def assemble(runs: list[TextRun]) -> StyledText:
    """Join adjacent runs with the same elements, because a sequence that a dialect must escape may span both."""
    merged: list[TextRun] = []
    stack: Stack = ()
    role: Role | None = None
    more: list[str] = []
    for run in runs:
        text, its_stack, its_role = run
        if its_role is role and its_stack == stack and role in _MERGED:
            more.append(text)
            continue
        if more:
            merged[-1] = _longer(merged[-1], more)
            more = []
        merged.append(run)
        stack, role = its_stack, its_role
    if more:
        merged[-1] = _longer(merged[-1], more)
    texts = [run.text for run in merged]
    starts = tuple(accumulate(map(len, texts), initial=0))
    return StyledText(runs=tuple(merged), starts=starts[:-1], visible="".join(texts))


def _longer(run: TextRun, more: list[str]) -> TextRun:
    return TextRun("".join((run.text, *more)), run.stack, run.role)

"""How a format writes frames and text: the one interface between pieces and a platform's markup (SPEC 12.2).

A dialect is a set of small answers. Putting them together, and where to cut, is the chunker's part.
"""

from typing import Final

from restante.runtime.channels.rendering.pieces import INLINE_KINDS, Frame, FrameKind, Role, Stack

QUOTE_LEAD: Final = "> "
CODE_KINDS: Final = frozenset({FrameKind.CODE, FrameKind.FENCE})


class Dialect:
    """Plain text, and what all formats share. `hidden` roles are visible only in formats that lack a better way."""

    hidden: frozenset[Role] = frozenset()

    def opening(self, frame: Frame) -> str:
        return QUOTE_LEAD if frame.kind is FrameKind.QUOTE else ""

    def closing(self, frame: Frame) -> str:  # noqa: ARG002  (the dialects that have marks use it)
        return ""

    def lead(self, frame: Frame) -> str:
        """What stands at the beginning of every further line inside the frame."""
        if frame.kind is FrameKind.QUOTE:
            return QUOTE_LEAD
        return " " * len(frame.argument) if frame.kind is FrameKind.ITEM else ""

    def text(self, text: str, role: Role, *, code: FrameKind | None) -> str:  # noqa: ARG002  (see above)
        """The text so that the platform shows it and nothing else; `code` is the kind of code it stands in."""
        return text

    def kept(self, stack: Stack) -> Stack:
        """The frames that this format can express here."""
        return stack

    def joint(self, *, closes: bool, opens: bool, before: str, after: str) -> str:  # noqa: ARG002  (see above)
        """What must stand between two marks, or a mark and a letter, so that both are understood."""
        return ""


class Plain(Dialect):
    """No marks at all; quotes keep their sign."""


def code_around(stack: Stack) -> FrameKind | None:
    for frame in reversed(stack):
        if frame.kind in CODE_KINDS:
            return frame.kind
    return None


def without_marks_around_code(stack: Stack) -> Stack:
    """Code spans stand alone where a format lets nothing else contain them."""
    if not stack or stack[-1].kind not in CODE_KINDS:
        return stack
    return tuple(frame for frame in stack if frame.kind not in INLINE_KINDS or frame.kind in CODE_KINDS)


def without_bold_headings(stack: Stack) -> Stack:
    """Where a heading is bold, bold text in it is bold already."""
    for frame in stack:
        if frame.kind is FrameKind.HEADING:
            return tuple(frame for frame in stack if frame.kind is not FrameKind.STRONG)
    return stack

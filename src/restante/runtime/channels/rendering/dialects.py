"""The interface between text runs and a platform's markup (SPEC 12.2).

A dialect says how a format writes each element and each text. The chunker puts the results together and cuts.
"""

from typing import Final

from restante.runtime.channels.rendering.text_runs import INLINE_KINDS, Element, ElementKind, Role, Stack

QUOTE_LEAD: Final = "> "
CODE_KINDS: Final = frozenset({ElementKind.CODE, ElementKind.FENCE})


class Dialect:
    """Plain text, and what all formats share. `hidden` roles are visible only in formats without a better way."""

    hidden: frozenset[Role] = frozenset()

    def opening(self, element: Element) -> str:
        return QUOTE_LEAD if element.kind is ElementKind.QUOTE else ""

    def closing(self, element: Element) -> str:  # noqa: ARG002  (the dialects that have marks use it)
        return ""

    def lead(self, element: Element) -> str:
        """Return what stands at the beginning of every further line inside the element."""
        if element.kind is ElementKind.QUOTE:
            return QUOTE_LEAD
        return " " * len(element.argument) if element.kind is ElementKind.ITEM else ""

    def text(self, text: str, role: Role, *, code: ElementKind | None) -> str:  # noqa: ARG002  (see above)
        """Escape text so that the platform shows exactly it. `code` is the kind of code that contains it."""
        return text

    def expressible(self, stack: Stack) -> Stack:
        """Return the elements of the stack that this format can express."""
        return stack

    def joint(self, *, closes: bool, opens: bool, before: str, after: str) -> str:  # noqa: ARG002  (see above)
        """Return what must stand between two marks, or a mark and a letter, so that the platform parses both."""
        return ""


class Plain(Dialect):
    """No marks; quotes keep their sign."""


def code_around(stack: Stack) -> ElementKind | None:
    for element in reversed(stack):
        if element.kind in CODE_KINDS:
            return element.kind
    return None


def without_marks_around_code(stack: Stack) -> Stack:
    """Drop the elements around a code span, for formats that allow nothing to contain one."""
    if not stack or stack[-1].kind not in CODE_KINDS:
        return stack
    return tuple(element for element in stack if element.kind not in INLINE_KINDS or element.kind in CODE_KINDS)


def without_bold_headings(stack: Stack) -> Stack:
    """Drop bold inside headings, for formats that show headings in bold."""
    for element in stack:
        if element.kind is ElementKind.HEADING:
            return tuple(element for element in stack if element.kind is not ElementKind.STRONG)
    return stack

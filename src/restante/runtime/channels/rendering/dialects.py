"""How a format writes wraps and text: the one interface between pieces and a platform's markup (SPEC 12.2).

A dialect is a set of small answers. Putting them together, and where to cut, is the chunker's part.
"""

from typing import Final

from restante.runtime.channels.rendering.text_runs import INLINE_KINDS, Role, Stack, Wrap, WrapKind

QUOTE_LEAD: Final = "> "
CODE_KINDS: Final = frozenset({WrapKind.CODE, WrapKind.FENCE})


class Dialect:
    """Plain text, and what all formats share. `hidden` roles are visible only in formats that lack a better way."""

    hidden: frozenset[Role] = frozenset()

    def opening(self, wrap: Wrap) -> str:
        return QUOTE_LEAD if wrap.kind is WrapKind.QUOTE else ""

    def closing(self, wrap: Wrap) -> str:  # noqa: ARG002  (the dialects that have marks use it)
        return ""

    def lead(self, wrap: Wrap) -> str:
        """What stands at the beginning of every further line inside the wrap."""
        if wrap.kind is WrapKind.QUOTE:
            return QUOTE_LEAD
        return " " * len(wrap.argument) if wrap.kind is WrapKind.ITEM else ""

    def text(self, text: str, role: Role, *, code: WrapKind | None) -> str:  # noqa: ARG002  (see above)
        """The text so that the platform shows it and nothing else; `code` is the kind of code it stands in."""
        return text

    def kept(self, stack: Stack) -> Stack:
        """The wraps that this format can express here."""
        return stack

    def joint(self, *, closes: bool, opens: bool, before: str, after: str) -> str:  # noqa: ARG002  (see above)
        """What must stand between two marks, or a mark and a letter, so that both are understood."""
        return ""


class Plain(Dialect):
    """No marks at all; quotes keep their sign."""


def code_around(stack: Stack) -> WrapKind | None:
    for wrap in reversed(stack):
        if wrap.kind in CODE_KINDS:
            return wrap.kind
    return None


def without_marks_around_code(stack: Stack) -> Stack:
    """Code spans stand alone where a format lets nothing else contain them."""
    if not stack or stack[-1].kind not in CODE_KINDS:
        return stack
    return tuple(wrap for wrap in stack if wrap.kind not in INLINE_KINDS or wrap.kind in CODE_KINDS)


def without_bold_headings(stack: Stack) -> Stack:
    """Where a heading is bold, bold text in it is bold already."""
    for wrap in stack:
        if wrap.kind is WrapKind.HEADING:
            return tuple(wrap for wrap in stack if wrap.kind is not WrapKind.STRONG)
    return stack

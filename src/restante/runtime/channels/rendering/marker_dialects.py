"""The formats with marks in the text: Slack, Discord, WhatsApp, IRC (SPEC 12.2).

Discord has an escape character. Slack and WhatsApp have none: a literal mark that could be parsed as formatting gets
zero-width spaces around it, so that it touches no word.
"""

import re
from html import escape
from typing import ClassVar, Final

from restante.runtime.channels.rendering.dialects import (
    Dialect,
    without_bold_headings,
    without_marks_around_code,
)
from restante.runtime.channels.rendering.text_runs import LINK_KINDS, Element, ElementKind, Role, Stack

ZERO_WIDTH: Final = "\N{ZERO WIDTH SPACE}"
GRAVE: Final = "\N{MODIFIER LETTER GRAVE ACCENT}"
"""Replaces a backtick inside a code span, which a backtick would end."""

_FENCE: Final = "```"
_BROKEN_FENCE: Final = f"`{ZERO_WIDTH}`{ZERO_WIDTH}`"
_MASS_MENTION: Final = re.compile(r"@(?=everyone|here)")
_NO_ADDRESS: Final = re.compile(r"[\s<>`\\]")
_LOOSE_MARKS: Final = {
    mark: re.compile(rf"{re.escape(mark)}(?:(?<![^\W_]{re.escape(mark)})|(?![^\W_]))") for mark in "*_~"
}
"""Each mark that is not between two letters or digits."""
_LINE_MARKS: Final = re.compile(r"^[->](?=\s)", re.MULTILINE)
"""What would begin a quote or a list item if it stood first in a line."""
_DISCORD_ESCAPES: Final = str.maketrans({mark: f"\\{mark}" for mark in "\\*_~`|<>[]()#"})
_DISCORD_ADDRESS: Final = re.compile(r"https?://[\w./?=&%+:,;-]+")
_DISCORD_ITEM: Final = re.compile(r"^[-+](?=\s)", re.MULTILINE)


class _Marked(Dialect):
    """Symmetric marks, and fences on separate lines."""

    marks: ClassVar[dict[ElementKind, str]]
    names_languages = False

    def opening(self, element: Element) -> str:
        if element.kind is ElementKind.FENCE:
            return f"{_FENCE}{element.argument if self.names_languages else ''}\n"
        return self.marks.get(element.kind) or super().opening(element)

    def closing(self, element: Element) -> str:
        if element.kind is ElementKind.FENCE:
            return f"\n{_FENCE}"
        return self.marks.get(element.kind, "")

    def expressible(self, stack: Stack) -> Stack:
        return without_bold_headings(without_marks_around_code(stack))

    def joint(self, *, closes: bool, opens: bool, before: str, after: str) -> str:
        """Return a zero-width space where a mark needs a word edge."""
        if closes and opens:
            return ZERO_WIDTH
        return ZERO_WIDTH if (after if closes else before).isalnum() else ""


def _code(text: str, kind: ElementKind) -> str:
    """Replace what would end the code early."""
    return text.replace("`", GRAVE) if kind is ElementKind.CODE else text.replace(_FENCE, _BROKEN_FENCE)


def _set_apart(text: str) -> str:
    """Put zero-width spaces around all marks except those between two letters, which format nothing.

    One plain replacement per mark: a function called for each match takes ten times as long.
    """
    for mark, loose in _LOOSE_MARKS.items():
        if mark in text:
            text = loose.sub(f"{ZERO_WIDTH}{mark}{ZERO_WIDTH}", text)
    text = text.replace("`", f"{ZERO_WIDTH}`{ZERO_WIDTH}")
    return _LINE_MARKS.sub(rf"{ZERO_WIDTH}\g<0>", text) if ">" in text or "-" in text else text


class WhatsApp(_Marked):
    marks: ClassVar[dict[ElementKind, str]] = {
        ElementKind.STRONG: "*",
        ElementKind.HEADING: "*",
        ElementKind.EMPHASIS: "_",
        ElementKind.STRIKE: "~",
        ElementKind.CODE: "`",
    }

    def text(self, text: str, role: Role, *, code: ElementKind | None) -> str:
        if code is not None:
            return _code(text, code)
        return text if role is Role.ADDRESS or role is Role.TARGET else _set_apart(text)


class Slack(WhatsApp):
    """mrkdwn: `&`, `<` and `>` are entities, so that no text becomes a mention or a link."""

    hidden = frozenset({Role.TARGET})

    def opening(self, element: Element) -> str:
        if element.kind in LINK_KINDS:
            return f"<{escape(element.argument, quote=False)}|"
        return super().opening(element)

    def closing(self, element: Element) -> str:
        return ">" if element.kind in LINK_KINDS else super().closing(element)

    def expressible(self, stack: Stack) -> Stack:
        """Keep marks around a link only: Slack does not parse marks in a label."""
        at = next((place for place, element in enumerate(stack) if element.kind in LINK_KINDS), None)
        return super().expressible(stack if at is None else stack[: at + 1])

    def text(self, text: str, role: Role, *, code: ElementKind | None) -> str:
        return escape(super().text(text, role, code=code), quote=False)


class Discord(_Marked):
    marks: ClassVar[dict[ElementKind, str]] = {
        ElementKind.STRONG: "**",
        ElementKind.EMPHASIS: "*",
        ElementKind.STRIKE: "~~",
        ElementKind.CODE: "`",
    }
    names_languages = True
    hidden = frozenset({Role.TARGET})

    def opening(self, element: Element) -> str:
        if element.kind is ElementKind.LINK:
            return "["
        if element.kind is ElementKind.ADDRESS:
            return "<"
        if element.kind is ElementKind.HEADING:
            return "#" * min(element.number, 3) + " "
        return super().opening(element)

    def closing(self, element: Element) -> str:
        if element.kind is ElementKind.LINK:
            target = element.argument.replace("(", "%28").replace(")", "%29")
            return f"](<{_MASS_MENTION.sub('%40', target)}>)"
        if element.kind is ElementKind.ADDRESS:
            return ">"
        return super().closing(element)

    def expressible(self, stack: Stack) -> Stack:
        return without_marks_around_code(stack)

    def text(self, text: str, role: Role, *, code: ElementKind | None) -> str:
        if code is not None:
            return _code(text, code)
        if role is Role.MARKER:
            return text.replace("\N{BULLET}", "-")
        if role is Role.ADDRESS and _NO_ADDRESS.search(text) is None:
            return _MASS_MENTION.sub(f"@{ZERO_WIDTH}", text)
        return text if role is Role.RULE else _discord_escape(text)

    def joint(self, *, closes: bool, opens: bool, before: str, after: str) -> str:  # noqa: ARG002  (marks need no edge)
        return ZERO_WIDTH if closes and opens else ""


def _discord_escape(text: str) -> str:
    """Escape marks, but not in addresses: an escaped underscore would change the address."""
    if "://" not in text:
        escaped = text.translate(_DISCORD_ESCAPES)
    else:
        written: list[str] = []
        done = 0
        for address in _DISCORD_ADDRESS.finditer(text):
            written += (text[done : address.start()].translate(_DISCORD_ESCAPES), address.group())
            done = address.end()
        escaped = "".join(written) + text[done:].translate(_DISCORD_ESCAPES)
    if "@" in escaped:
        escaped = _MASS_MENTION.sub(f"@{ZERO_WIDTH}", escaped)
    return _DISCORD_ITEM.sub(r"\\\g<0>", escaped) if "-" in escaped or "+" in escaped else escaped


class Irc(Dialect):
    """mIRC's formatting toggles. Each line is a message, and each message begins without formatting."""

    marks: ClassVar[dict[ElementKind, str]] = {
        ElementKind.STRONG: "\x02",
        ElementKind.HEADING: "\x02",
        ElementKind.EMPHASIS: "\x1d",
        ElementKind.STRIKE: "\x1e",
        ElementKind.CODE: "\x11",
    }

    def opening(self, element: Element) -> str:
        return self.marks.get(element.kind) or super().opening(element)

    def closing(self, element: Element) -> str:
        return self.marks.get(element.kind, "")

    def expressible(self, stack: Stack) -> Stack:
        return without_bold_headings(stack)

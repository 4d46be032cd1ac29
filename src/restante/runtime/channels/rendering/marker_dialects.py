"""The formats with marks in the text: Slack, Discord, WhatsApp, IRC (SPEC 12.2).

Discord has an escape character. Slack and WhatsApp have none: a literal mark that could be taken for formatting gets
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
from restante.runtime.channels.rendering.text_runs import LINK_KINDS, Role, Stack, Wrap, WrapKind

ZERO_WIDTH: Final = "\N{ZERO WIDTH SPACE}"
GRAVE: Final = "\N{MODIFIER LETTER GRAVE ACCENT}"
"""Stands for a backtick inside a code span, which a backtick would end."""

_FENCE: Final = "```"
_BROKEN_FENCE: Final = f"`{ZERO_WIDTH}`{ZERO_WIDTH}`"
_MASS_MENTION: Final = re.compile(r"@(?=everyone|here)")
_NO_ADDRESS: Final = re.compile(r"[\s<>`\\]")
_LOOSE_MARKS: Final = {
    mark: re.compile(rf"{re.escape(mark)}(?:(?<![^\W_]{re.escape(mark)})|(?![^\W_]))") for mark in "*_~"
}
"""Each mark that does not stand between two letters or digits."""
_DISCORD_ESCAPES: Final = str.maketrans({mark: f"\\{mark}" for mark in "\\*_~`|<>[]()#"})
_DISCORD_ADDRESS: Final = re.compile(r"https?://[\w./?=&%+:,;-]+")
_DISCORD_ITEM: Final = re.compile(r"^[-+](?=\s)", re.MULTILINE)


class _Marked(Dialect):
    """Symmetric marks, and fences on lines of their own."""

    marks: ClassVar[dict[WrapKind, str]]
    names_languages = False

    def opening(self, wrap: Wrap) -> str:
        if wrap.kind is WrapKind.FENCE:
            return f"{_FENCE}{wrap.argument if self.names_languages else ''}\n"
        return self.marks.get(wrap.kind) or super().opening(wrap)

    def closing(self, wrap: Wrap) -> str:
        if wrap.kind is WrapKind.FENCE:
            return f"\n{_FENCE}"
        return self.marks.get(wrap.kind, "")

    def kept(self, stack: Stack) -> Stack:
        return without_bold_headings(without_marks_around_code(stack))

    def joint(self, *, closes: bool, opens: bool, before: str, after: str) -> str:
        """Marks count only at the edges of words; a zero-width space is such an edge."""
        if closes and opens:
            return ZERO_WIDTH
        return ZERO_WIDTH if (after if closes else before).isalnum() else ""


def _code(text: str, kind: WrapKind) -> str:
    """What would end the code early is made harmless, and nothing else."""
    return text.replace("`", GRAVE) if kind is WrapKind.CODE else text.replace(_FENCE, _BROKEN_FENCE)


def _set_apart(text: str) -> str:
    """Marks between two letters format nothing and stay; all others stand alone. One plain replacement a mark: a text
    may be full of them, and a function called for each takes ten times as long.
    """
    for mark, loose in _LOOSE_MARKS.items():
        if mark in text:
            text = loose.sub(f"{ZERO_WIDTH}{mark}{ZERO_WIDTH}", text)
    return text.replace("`", f"{ZERO_WIDTH}`{ZERO_WIDTH}")


class WhatsApp(_Marked):
    marks: ClassVar[dict[WrapKind, str]] = {
        WrapKind.STRONG: "*",
        WrapKind.HEADING: "*",
        WrapKind.EMPHASIS: "_",
        WrapKind.STRIKE: "~",
        WrapKind.CODE: "`",
    }

    def text(self, text: str, role: Role, *, code: WrapKind | None) -> str:
        if code is not None:
            return _code(text, code)
        return text if role is Role.ADDRESS or role is Role.TARGET else _set_apart(text)


class Slack(WhatsApp):
    """mrkdwn: `&`, `<` and `>` are entities, so that no text becomes a mention or a link."""

    hidden = frozenset({Role.TARGET})

    def opening(self, wrap: Wrap) -> str:
        if wrap.kind in LINK_KINDS:
            return f"<{escape(wrap.argument, quote=False)}|"
        return super().opening(wrap)

    def closing(self, wrap: Wrap) -> str:
        return ">" if wrap.kind in LINK_KINDS else super().closing(wrap)

    def kept(self, stack: Stack) -> Stack:
        """Marks in a label are not read: they stand around the link or nowhere."""
        at = next((place for place, wrap in enumerate(stack) if wrap.kind in LINK_KINDS), None)
        return super().kept(stack if at is None else stack[: at + 1])

    def text(self, text: str, role: Role, *, code: WrapKind | None) -> str:
        return escape(super().text(text, role, code=code), quote=False)


class Discord(_Marked):
    marks: ClassVar[dict[WrapKind, str]] = {
        WrapKind.STRONG: "**",
        WrapKind.EMPHASIS: "*",
        WrapKind.STRIKE: "~~",
        WrapKind.CODE: "`",
    }
    names_languages = True
    hidden = frozenset({Role.TARGET})

    def opening(self, wrap: Wrap) -> str:
        if wrap.kind is WrapKind.LINK:
            return "["
        if wrap.kind is WrapKind.ADDRESS:
            return "<"
        if wrap.kind is WrapKind.HEADING:
            return "#" * min(wrap.number, 3) + " "
        return super().opening(wrap)

    def closing(self, wrap: Wrap) -> str:
        if wrap.kind is WrapKind.LINK:
            target = wrap.argument.replace("(", "%28").replace(")", "%29")
            return f"](<{_MASS_MENTION.sub('%40', target)}>)"
        if wrap.kind is WrapKind.ADDRESS:
            return ">"
        return super().closing(wrap)

    def kept(self, stack: Stack) -> Stack:
        return without_marks_around_code(stack)

    def text(self, text: str, role: Role, *, code: WrapKind | None) -> str:
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
    """Addresses keep their underscores: an escaped one leads nowhere."""
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
    """Toggles of mIRC's formatting. Each line is a message, and each message begins without any."""

    marks: ClassVar[dict[WrapKind, str]] = {
        WrapKind.STRONG: "\x02",
        WrapKind.HEADING: "\x02",
        WrapKind.EMPHASIS: "\x1d",
        WrapKind.STRIKE: "\x1e",
        WrapKind.CODE: "\x11",
    }

    def opening(self, wrap: Wrap) -> str:
        return self.marks.get(wrap.kind) or super().opening(wrap)

    def closing(self, wrap: Wrap) -> str:
        return self.marks.get(wrap.kind, "")

    def kept(self, stack: Stack) -> Stack:
        return without_bold_headings(stack)

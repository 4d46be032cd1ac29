"""The formats that are HTML: Telegram's few tags, Matrix's subset, and e-mail (SPEC 12.2).

Text can never become a tag: `&`, `<`, `>` and quotes are always entities. Tags come from the tables below only.
"""

from html import escape
from typing import ClassVar, Final

from restante.runtime.channels.rendering.dialects import Dialect, without_bold_headings, without_marks_around_code
from restante.runtime.channels.rendering.text_runs import LINK_KINDS, Role, Stack, Wrap, WrapKind

_INLINE_TAGS: Final = {
    WrapKind.STRONG: "strong",
    WrapKind.EMPHASIS: "em",
    WrapKind.STRIKE: "del",
    WrapKind.CODE: "code",
}
_BLOCK_TAGS: Final = {
    WrapKind.QUOTE: "blockquote",
    WrapKind.BULLET_LIST: "ul",
    WrapKind.ITEM: "li",
}
_TELEGRAM_TAGS: Final = {
    WrapKind.STRONG: "b",
    WrapKind.EMPHASIS: "i",
    WrapKind.STRIKE: "s",
    WrapKind.CODE: "code",
    WrapKind.HEADING: "b",
    WrapKind.QUOTE: "blockquote",
}


class _Tagged(Dialect):
    tags: ClassVar[dict[WrapKind, str]]

    def opening(self, wrap: Wrap) -> str:
        if wrap.kind in LINK_KINDS:
            return f'<a href="{escape(wrap.argument)}">'
        if wrap.kind is WrapKind.FENCE:
            language = f' class="language-{escape(wrap.argument)}"' if wrap.argument else ""
            return f"<pre><code{language}>"
        tag = self.tag(wrap)
        return f"<{tag}>" if tag else ""

    def closing(self, wrap: Wrap) -> str:
        if wrap.kind in LINK_KINDS:
            return "</a>"
        if wrap.kind is WrapKind.FENCE:
            return "</code></pre>"
        tag = self.tag(wrap)
        return f"</{tag.partition(' ')[0]}>" if tag else ""

    def tag(self, wrap: Wrap) -> str:
        return self.tags.get(wrap.kind, "")

    def text(self, text: str, role: Role, *, code: WrapKind | None) -> str:  # noqa: ARG002  (one escape serves all)
        return escape(text)


class WebHtml(_Tagged):
    """Matrix (`org.matrix.custom.html`) and e-mail: blocks are tags, line breaks between them are not needed."""

    tags = _INLINE_TAGS | _BLOCK_TAGS
    hidden = frozenset({Role.GAP, Role.MARKER, Role.TARGET})

    def tag(self, wrap: Wrap) -> str:
        if wrap.kind is WrapKind.PARAGRAPH:
            return "" if wrap.argument == "tight" else "p"
        if wrap.kind is WrapKind.HEADING:
            return f"h{wrap.number}"
        if wrap.kind is WrapKind.ORDERED_LIST:
            return "ol" if wrap.number == 1 else f'ol start="{wrap.number}"'
        return super().tag(wrap)

    def lead(self, wrap: Wrap) -> str:  # noqa: ARG002  (tags do it)
        return ""

    def text(self, text: str, role: Role, *, code: WrapKind | None) -> str:
        if role is Role.BREAK:
            return "<br>"
        if role is Role.RULE:
            return "<hr>"
        return super().text(text, role, code=code)


class TelegramHtml(_Tagged):
    """The tags of the Bot API's HTML mode. Lists and paragraphs are text with line breaks."""

    tags = _TELEGRAM_TAGS
    hidden = frozenset({Role.TARGET})

    def lead(self, wrap: Wrap) -> str:
        return "" if wrap.kind is WrapKind.QUOTE else super().lead(wrap)

    def kept(self, stack: Stack) -> Stack:
        """Telegram nests no quotes, and nothing inside or around code."""
        quotes = [wrap for wrap in stack if wrap.kind is WrapKind.QUOTE]
        if len(quotes) > 1:
            stack = tuple(wrap for wrap in stack if wrap not in quotes[1:])
        return without_bold_headings(without_marks_around_code(stack))


class TelegramParsed(TelegramHtml):
    """What Telegram counts: the text that is left after it has read tags and entities."""

    def opening(self, wrap: Wrap) -> str:  # noqa: ARG002  (tags are gone)
        return ""

    def closing(self, wrap: Wrap) -> str:  # noqa: ARG002  (tags are gone)
        return ""

    def text(self, text: str, role: Role, *, code: WrapKind | None) -> str:  # noqa: ARG002  (entities are gone)
        return text

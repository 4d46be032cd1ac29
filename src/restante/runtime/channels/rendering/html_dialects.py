"""The formats that are HTML: Telegram's few tags, Matrix's subset, and e-mail (SPEC 12.2).

Text can never become a tag: `&`, `<`, `>` and quotes are always entities. Tags come from the tables below only.
"""

from html import escape
from typing import ClassVar, Final

from restante.runtime.channels.rendering.dialects import Dialect, without_bold_headings, without_marks_around_code
from restante.runtime.channels.rendering.pieces import LINK_KINDS, Frame, FrameKind, Role, Stack

_INLINE_TAGS: Final = {
    FrameKind.STRONG: "strong",
    FrameKind.EMPHASIS: "em",
    FrameKind.STRIKE: "del",
    FrameKind.CODE: "code",
}
_BLOCK_TAGS: Final = {
    FrameKind.QUOTE: "blockquote",
    FrameKind.BULLET_LIST: "ul",
    FrameKind.ITEM: "li",
}
_TELEGRAM_TAGS: Final = {
    FrameKind.STRONG: "b",
    FrameKind.EMPHASIS: "i",
    FrameKind.STRIKE: "s",
    FrameKind.CODE: "code",
    FrameKind.HEADING: "b",
    FrameKind.QUOTE: "blockquote",
}


class _Tagged(Dialect):
    tags: ClassVar[dict[FrameKind, str]]

    def opening(self, frame: Frame) -> str:
        if frame.kind in LINK_KINDS:
            return f'<a href="{escape(frame.argument)}">'
        if frame.kind is FrameKind.FENCE:
            language = f' class="language-{escape(frame.argument)}"' if frame.argument else ""
            return f"<pre><code{language}>"
        tag = self.tag(frame)
        return f"<{tag}>" if tag else ""

    def closing(self, frame: Frame) -> str:
        if frame.kind in LINK_KINDS:
            return "</a>"
        if frame.kind is FrameKind.FENCE:
            return "</code></pre>"
        tag = self.tag(frame)
        return f"</{tag.partition(' ')[0]}>" if tag else ""

    def tag(self, frame: Frame) -> str:
        return self.tags.get(frame.kind, "")

    def text(self, text: str, role: Role, *, code: FrameKind | None) -> str:  # noqa: ARG002  (one escape serves all)
        return escape(text)


class WebHtml(_Tagged):
    """Matrix (`org.matrix.custom.html`) and e-mail: blocks are tags, line breaks between them are not needed."""

    tags = _INLINE_TAGS | _BLOCK_TAGS
    hidden = frozenset({Role.GAP, Role.MARKER, Role.TARGET})

    def tag(self, frame: Frame) -> str:
        if frame.kind is FrameKind.PARAGRAPH:
            return "" if frame.argument == "tight" else "p"
        if frame.kind is FrameKind.HEADING:
            return f"h{frame.number}"
        if frame.kind is FrameKind.ORDERED_LIST:
            return "ol" if frame.number == 1 else f'ol start="{frame.number}"'
        return super().tag(frame)

    def lead(self, frame: Frame) -> str:  # noqa: ARG002  (tags do it)
        return ""

    def text(self, text: str, role: Role, *, code: FrameKind | None) -> str:
        if role is Role.BREAK:
            return "<br>"
        if role is Role.RULE:
            return "<hr>"
        return super().text(text, role, code=code)


class TelegramHtml(_Tagged):
    """The tags of the Bot API's HTML mode. Lists and paragraphs are text with line breaks."""

    tags = _TELEGRAM_TAGS
    hidden = frozenset({Role.TARGET})

    def lead(self, frame: Frame) -> str:
        return "" if frame.kind is FrameKind.QUOTE else super().lead(frame)

    def kept(self, stack: Stack) -> Stack:
        """Telegram nests no quotes, and nothing inside or around code."""
        quotes = [frame for frame in stack if frame.kind is FrameKind.QUOTE]
        if len(quotes) > 1:
            stack = tuple(frame for frame in stack if frame not in quotes[1:])
        return without_bold_headings(without_marks_around_code(stack))


class TelegramParsed(TelegramHtml):
    """What Telegram counts: the text that is left after it has read tags and entities."""

    def opening(self, frame: Frame) -> str:  # noqa: ARG002  (tags are gone)
        return ""

    def closing(self, frame: Frame) -> str:  # noqa: ARG002  (tags are gone)
        return ""

    def text(self, text: str, role: Role, *, code: FrameKind | None) -> str:  # noqa: ARG002  (entities are gone)
        return text

"""The HTML formats: Telegram's few tags, Matrix's subset, and e-mail (SPEC 12.2).

Text can never become a tag: `&`, `<`, `>` and quotes are always entities. Tags come from the tables below only.
"""

from html import escape
from typing import ClassVar, Final

from restante.runtime.channels.rendering.dialects import Dialect, without_bold_headings, without_marks_around_code
from restante.runtime.channels.rendering.text_runs import LINK_KINDS, Element, ElementKind, Role, Stack

_INLINE_TAGS: Final = {
    ElementKind.STRONG: "strong",
    ElementKind.EMPHASIS: "em",
    ElementKind.STRIKE: "del",
    ElementKind.CODE: "code",
}
_BLOCK_TAGS: Final = {
    ElementKind.QUOTE: "blockquote",
    ElementKind.BULLET_LIST: "ul",
    ElementKind.ITEM: "li",
}
_TELEGRAM_TAGS: Final = {
    ElementKind.STRONG: "b",
    ElementKind.EMPHASIS: "i",
    ElementKind.STRIKE: "s",
    ElementKind.CODE: "code",
    ElementKind.HEADING: "b",
    ElementKind.QUOTE: "blockquote",
}


class _Tagged(Dialect):
    tags: ClassVar[dict[ElementKind, str]]

    def opening(self, element: Element) -> str:
        if element.kind in LINK_KINDS:
            return f'<a href="{escape(element.argument)}">'
        if element.kind is ElementKind.FENCE:
            language = f' class="language-{escape(element.argument)}"' if element.argument else ""
            return f"<pre><code{language}>"
        tag = self.tag(element)
        return f"<{tag}>" if tag else ""

    def closing(self, element: Element) -> str:
        if element.kind in LINK_KINDS:
            return "</a>"
        if element.kind is ElementKind.FENCE:
            return "</code></pre>"
        tag = self.tag(element)
        return f"</{tag.partition(' ')[0]}>" if tag else ""

    def tag(self, element: Element) -> str:
        return self.tags.get(element.kind, "")

    def text(self, text: str, role: Role, *, code: ElementKind | None) -> str:  # noqa: ARG002  (one escape serves all)
        return escape(text)


class WebHtml(_Tagged):
    """Matrix (`org.matrix.custom.html`) and e-mail: blocks are tags, and need no line breaks between them."""

    tags = _INLINE_TAGS | _BLOCK_TAGS
    hidden = frozenset({Role.GAP, Role.MARKER, Role.TARGET})

    def tag(self, element: Element) -> str:
        if element.kind is ElementKind.PARAGRAPH:
            return "" if element.argument == "tight" else "p"
        if element.kind is ElementKind.HEADING:
            return f"h{element.number}"
        if element.kind is ElementKind.ORDERED_LIST:
            return "ol" if element.number == 1 else f'ol start="{element.number}"'
        return super().tag(element)

    def lead(self, element: Element) -> str:  # noqa: ARG002  (tags do it)
        return ""

    def text(self, text: str, role: Role, *, code: ElementKind | None) -> str:
        if role is Role.BREAK:
            return "<br>"
        if role is Role.RULE:
            return "<hr>"
        return super().text(text, role, code=code)


class TelegramHtml(_Tagged):
    """The tags of the Bot API's HTML mode. Lists and paragraphs are text with line breaks."""

    tags = _TELEGRAM_TAGS
    hidden = frozenset({Role.TARGET})

    def lead(self, element: Element) -> str:
        return "" if element.kind is ElementKind.QUOTE else super().lead(element)

    def expressible(self, stack: Stack) -> Stack:
        """Drop nested quotes, and elements inside or around code, which Telegram does not allow."""
        quotes = [element for element in stack if element.kind is ElementKind.QUOTE]
        if len(quotes) > 1:
            stack = tuple(element for element in stack if element not in quotes[1:])
        return without_bold_headings(without_marks_around_code(stack))


class TelegramParsed(TelegramHtml):
    """The text that is left after Telegram has parsed tags and entities, which is what it counts."""

    def opening(self, element: Element) -> str:  # noqa: ARG002  (tags are gone)
        return ""

    def closing(self, element: Element) -> str:  # noqa: ARG002  (tags are gone)
        return ""

    def text(self, text: str, role: Role, *, code: ElementKind | None) -> str:  # noqa: ARG002  (entities are gone)
        return text

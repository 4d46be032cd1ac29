"""Turn markdown-it's tokens into text runs with their elements (SPEC 12.2), for all platforms.

A soft break stays a line break: chat users see the lines that the author typed.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from markdown_it.token import Token

from restante.runtime.channels.rendering.fast_inline import Step
from restante.runtime.channels.rendering.markdown_parser import Document
from restante.runtime.channels.rendering.safe_links import is_own_label, link_target, shown_address
from restante.runtime.channels.rendering.text_runs import (
    Element,
    ElementKind,
    Role,
    Stack,
    StyledText,
    TextRun,
    assemble,
)
from restante.runtime.channels.rendering.text_tables import aligned

BULLET: Final = "\N{BULLET} "
RULE: Final = "---"
UNNAMED_IMAGE: Final = "image"
MAX_LANGUAGE_CHARS: Final = 32

_LANGUAGE: Final = re.compile(r"[A-Za-z0-9_+#.-]+")
_BREAKS: Final = re.compile(r"\s+")
_LINE_ENDS: Final = re.compile(r"[\n\r\f\v\u2028\u2029]")
_WRAP_OF_STEP: Final = {
    "em_open": ElementKind.EMPHASIS,
    "strong_open": ElementKind.STRONG,
    "s_open": ElementKind.STRIKE,
}


def build(document: Document) -> StyledText:
    builder = _Builder(document.steps)
    builder.blocks(document.blocks)
    return assemble(builder.runs)


def language_of(info: str) -> str:
    """Return the language of a fence, if no format could parse the name as markup."""
    name = info.split(maxsplit=1)[0] if info.strip() else ""
    return name if len(name) <= MAX_LANGUAGE_CHARS and _LANGUAGE.fullmatch(name) else ""


class _Builder:
    """Walks the tokens once. `gap` is the number of line breaks due before the next visible run of a block."""

    def __init__(self, steps: Callable[[str], Sequence[Step]]) -> None:
        self.steps = steps
        self.runs: list[TextRun] = []
        self.elements: dict[tuple[ElementKind, str, int, int], tuple[Element, Element]] = {}
        self.stack: Stack = ()
        self.gap = 0
        self.next_number: list[int] = []
        self.block_of_token: dict[str, Callable[[Token], None]] = {
            "paragraph_open": self._paragraph,
            "heading_open": lambda token: self._open(ElementKind.HEADING, number=int(token.tag[1])),
            "blockquote_open": lambda _: self._open(ElementKind.QUOTE),
            "bullet_list_open": lambda _: self._list(ElementKind.BULLET_LIST),
            "ordered_list_open": self._ordered_list,
            "list_item_open": self._item,
            "paragraph_close": lambda token: self._close(1 if token.hidden else 2),
            "heading_close": lambda _: self._close(2),
            "blockquote_close": lambda _: self._close(2),
            "bullet_list_close": self._list_end,
            "ordered_list_close": self._list_end,
            "list_item_close": lambda _: self._close(1),
            "inline": lambda token: self._inline(self.steps(token.content)),
            "fence": lambda token: self._code(token.content, language_of(token.info)),
            "code_block": lambda token: self._code(token.content, ""),
            "written": lambda token: self._code(token.content, ""),
            "hr": lambda _: self._rule(),
        }

    def blocks(self, tokens: Sequence[Token]) -> None:
        position = 0
        while position < len(tokens):
            token = tokens[position]
            if token.type == "table_open":
                position = self._table(tokens, position)
            else:
                self.block_of_token[token.type](token)
            position += 1

    def _open(self, kind: ElementKind, argument: str = "", number: int = 0) -> None:
        """Open an element. Equal elements in a row alternate between two objects, so that neighbours differ and stacks
        repeat."""
        depth = len(self.stack)
        key = (kind, argument, number, depth)
        pair = self.elements.get(key)
        if pair is None:
            pair = self.elements[key] = (
                Element(kind=kind, argument=argument, number=number),
                Element(kind=kind, argument=argument, number=number),
            )
        last = self.runs[-1].stack if self.runs else ()
        is_taken = depth < len(last) and last[depth] is pair[0]
        self.stack = (*self.stack, pair[is_taken])

    def _close(self, gap: int) -> None:
        self.stack = self.stack[:-1]
        self.gap = max(self.gap, gap)

    def _paragraph(self, token: Token) -> None:
        self._open(ElementKind.PARAGRAPH, "tight" if token.hidden else "")

    def _ordered_list(self, token: Token) -> None:
        first = int(token.attrs.get("start", 1))
        self._list(ElementKind.ORDERED_LIST, first)

    def _list(self, kind: ElementKind, first: int = 0) -> None:
        self._open(kind, number=first)
        self.next_number.append(first)

    def _list_end(self, _: Token) -> None:
        self.next_number.pop()
        self._close(1 if self.next_number else 2)

    def _item(self, _: Token) -> None:
        number = self.next_number[-1]
        self.next_number[-1] += 1
        marker = f"{number}. " if self.stack[-1].kind is ElementKind.ORDERED_LIST else BULLET
        self._open(ElementKind.ITEM, marker, number)
        self._settle_gap()
        self.runs.append(TextRun(marker, self.stack, Role.MARKER))

    def _settle_gap(self) -> None:
        """Add the line breaks that are due, in the elements that the last run and the next have in common."""
        if self.gap and self.runs:
            shared = 0
            for ours, theirs in zip(self.stack, self.runs[-1].stack, strict=False):
                if ours is not theirs:
                    break
                shared += 1
            self.runs.append(TextRun("\n" * self.gap, self.stack[:shared], Role.GAP))
        self.gap = 0

    def _code(self, content: str, language: str) -> None:
        text = content.removesuffix("\n")
        if text.strip():
            self._open(ElementKind.FENCE, language)
            self._settle_gap()
            self.runs.append(TextRun(text, self.stack, Role.CODE))
            self._close(2)

    def _rule(self) -> None:
        self._settle_gap()
        self.runs.append(TextRun(RULE, self.stack, Role.RULE))
        self.gap = 2

    def _table(self, tokens: Sequence[Token], start: int) -> int:
        """Render a table and return where it ends. Cells lose their marks but keep the addresses of links."""
        rows: list[list[str]] = []
        position = start
        while tokens[position].type != "table_close":
            token = tokens[position]
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                cell = _Builder(self.steps)
                cell._inline(self.steps(token.content))
                rows[-1].append("".join(run.text for run in cell.runs).replace("\n", " "))
            position += 1
        self._code(aligned(rows), "")
        return position

    def _inline(self, steps: Sequence[Step]) -> None:
        blocks = self.stack
        links: list[tuple[str, int]] = []
        opened: list[bool] = []
        for kind, text, address in steps:
            if kind == "text":
                self._text(text)
            elif kind == "code_inline":
                self._code_span(text)
            elif kind == "softbreak":
                self._break(blocks)
            elif kind in _WRAP_OF_STEP:
                opened.append(self._mark(_WRAP_OF_STEP[kind]))
            elif kind == "link_open":
                target = link_target(address)
                opened.append(target is not None and self._mark(ElementKind.LINK, target))
                links.append((address, len(self.runs)))
            elif kind == "image":
                self._image(text, address, inside_link=bool(links))
            else:
                if opened.pop():
                    self.stack = self.stack[:-1]
                if kind == "link_close":
                    self._target(*links.pop())
        self.stack = blocks

    def _mark(self, kind: ElementKind, argument: str = "") -> bool:
        """Open a mark unless the same one is open already."""
        for element in self.stack:
            if element.kind is kind:
                return False
        self._open(kind, argument)
        return True

    def _text(self, content: str, role: Role = Role.TEXT) -> None:
        """Add one line of text. A line end that comes from an entity becomes a space."""
        if not content:
            return
        if self.gap:
            self._settle_gap()
        text = content if content.isprintable() else _LINE_ENDS.sub(" ", content)
        self.runs.append(TextRun(text, self.stack, role))

    def _code_span(self, content: str) -> None:
        if content.strip() and self._mark(ElementKind.CODE):
            self._text(content, Role.CODE)
            self.stack = self.stack[:-1]

    def _break(self, blocks: Stack) -> None:
        """Add a line break outside all marks, because in half of the formats a mark must not span lines. In a heading:
        a space."""
        if blocks and blocks[-1].kind is ElementKind.HEADING:
            self._text(" ")
        elif self.runs and not self.gap:
            self.runs.append(TextRun("\n", blocks, Role.BREAK))

    def _target(self, href: str, first_run: int) -> None:
        """Add the address after a label that does not show it. A label that does becomes one run."""
        runs = [run for run in self.runs[first_run:] if run.role is not Role.GAP]
        label = "".join(run.text for run in runs)
        shown = shown_address(href)
        if not shown:
            return
        if is_own_label(href, label) and len(runs) == 1 and runs[0].role is Role.TEXT:
            self.runs[-1] = TextRun(label, _as_address(runs[0].stack), Role.ADDRESS)
        elif not label.strip():
            self._text(shown)
        elif not any(element.kind is ElementKind.LINK for element in self.stack):
            is_link = link_target(href) is not None
            self._text(f" ({shown})", Role.TARGET if is_link else Role.TEXT)

    def _image(self, description: str, href: str, *, inside_link: bool) -> None:
        """Render an image as a link to it. Inside a link, only its description is left."""
        alt = _BREAKS.sub(" ", description).strip() or UNNAMED_IMAGE
        target = None if inside_link else link_target(href)
        opened = target is not None and self._mark(ElementKind.LINK, target or "")
        first = len(self.runs)
        self._text(alt)
        if opened:
            self.stack = self.stack[:-1]
        if not inside_link:
            self._target(href, first)


def _as_address(stack: Stack) -> Stack:
    """Mark the link's element: its label shows the address."""
    return tuple(
        Element(kind=ElementKind.ADDRESS, argument=element.argument) if element.kind is ElementKind.LINK else element
        for element in stack
    )

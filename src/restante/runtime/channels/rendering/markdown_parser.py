"""Parse Markdown into blocks and inline steps, in bounded time (SPEC 12.2).

CommonMark with tables and strikethrough. HTML is text. A document that exceeds a budget below is shown as written, in
whole or in part; no text is lost.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.rules_block import blockquote, list_block
from markdown_it.token import Token

from restante.runtime.channels.rendering.fast_blocks import no_deeper_than, prose
from restante.runtime.channels.rendering.fast_inline import BREAK, Step, is_plain_address, quick_steps

MAX_NESTING: Final = 20
"""Deeper quotes and lists are text."""
MAX_LINES: Final = 60_000
"""A document with more lines is one text: the block rules cost up to 20 µs a line."""
MAX_INLINE_MARKS: Final = 50_000
"""After this many characters that could begin a mark, paragraphs are text: each costs up to 20 µs."""
MAX_TABLE_BARS: Final = 20_000
"""A document with more bars has no tables: each cell costs three tokens."""

_MARK: Final = re.compile(r"[*_`\[\]!<&\\~]")
_INLINE: Final = re.compile(r"[*_`\[\]!<&\\~\n]")
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_INTERRUPTED_BY_QUOTES: Final = ["paragraph", "reference", "blockquote", "list"]
_INTERRUPTED_BY_LISTS: Final = ["paragraph", "reference", "blockquote"]
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


class Document:
    """The blocks of a document. Their inline text is parsed in order, while the budget lasts."""

    def __init__(self, markdown: str) -> None:
        """Parse the blocks. Control characters and lone surrogates become U+FFFD, because no platform accepts them."""
        source = _UNPRINTABLE.sub(_REPLACEMENT, markdown)
        self._env: dict[str, Any] = {}
        self._spent = 0
        if source.count("\n") + source.count("\r") > MAX_LINES:
            self.blocks = _as_written(source)
        else:
            self._parser = _WITHOUT_TABLES if source.count("|") > MAX_TABLE_BARS else _WITH_TABLES
            self.blocks = self._parser.parse(source, self._env)

    def steps(self, text: str) -> Sequence[Step]:
        """Return the steps through the inline text of a block."""
        if _INLINE.search(text) is None:
            return [("text", text, "")]
        if self._spent <= MAX_INLINE_MARKS:
            self._spent += len(_MARK.findall(text))
        if self._spent > MAX_INLINE_MARKS:
            return _lines(text)
        steps = quick_steps(text, has_references="references" in self._env)
        if steps is None:
            steps = _steps_of(self._parser.inline.parse(text, self._parser, self._env, []))
        return steps


def _steps_of(tokens: Sequence[Token]) -> list[Step]:
    """Join adjacent texts; markdown-it makes a token of each escaped character."""
    steps: list[Step] = []
    text = ""
    for token in tokens:
        if token.type in ("text", "text_special"):
            text += token.content
            continue
        if text:
            steps.append(("text", text, ""))
            text = ""
        steps.append(_step_of(token))
    if text:
        steps.append(("text", text, ""))
    return steps


def _step_of(token: Token) -> Step:
    if token.type in ("softbreak", "hardbreak"):
        return BREAK
    if token.type == "image":
        return (token.type, _alternative(token.children or []), str(token.attrs.get("src", "")))
    return (token.type, token.content, str(token.attrs.get("href", "")))


def _alternative(children: Sequence[Token]) -> str:
    """Return the text of an image's description, without its marks."""
    return "".join(
        _alternative(child.children or []) if child.type == "image" else child.content or " " * ("break" in child.type)
        for child in children
    )


def _lines(text: str) -> list[Step]:
    steps: list[Step] = []
    for number, line in enumerate(text.split("\n")):
        if number:
            steps.append(BREAK)
        steps.append(("text", line.strip(" "), ""))
    return steps


def _as_written(source: str) -> list[Token]:
    text = source.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    return [Token("written", "", 0, content=text)]


class QuickLinks(MarkdownIt):
    """Skips the normalisation of plain addresses, which is a tenth of the time of a page and changes nothing."""

    def normalizeLink(self, url: str) -> str:  # noqa: N802  (markdown-it's name)
        return url if is_plain_address(url) else super().normalizeLink(url)


def _parser(*, tables: bool) -> MarkdownIt:
    rules = ["table", "strikethrough"] if tables else ["strikethrough"]
    parser = QuickLinks("commonmark", {"html": False, "maxNesting": MAX_NESTING}).enable(rules)
    parser.disable(["html_block", "html_inline"])
    parser.core.ruler.disable(["inline", "text_join"])
    parser.block.ruler.before("table", "prose", prose)
    quotes, lists = no_deeper_than(MAX_NESTING - 1, blockquote), no_deeper_than(MAX_NESTING - 2, list_block)
    parser.block.ruler.at("blockquote", quotes, {"alt": _INTERRUPTED_BY_QUOTES})
    parser.block.ruler.at("list", lists, {"alt": _INTERRUPTED_BY_LISTS})  # two levels: the list and its item
    return parser


_WITH_TABLES: Final = _parser(tables=True)
_WITHOUT_TABLES: Final = _parser(tables=False)

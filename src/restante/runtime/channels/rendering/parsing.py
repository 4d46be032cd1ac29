"""Markdown in, markdown-it's tokens out: CommonMark with tables and strikethrough, in bounded time (SPEC 12.2).

HTML is not markup here: it stays the text that it is. A document that asks for more work than the budgets below is
shown as it was written, in whole or in part; nothing of it is lost.
"""

import re
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

MAX_NESTING: Final = 20
"""Deeper quotes and lists are text."""
MAX_LINES: Final = 60_000
"""A document with more lines is one text: the block rules cost up to 20 us a line."""
MAX_INLINE_MARKS: Final = 50_000
"""After this many characters that could begin a mark, paragraphs are text: each costs up to 20 us."""
MAX_TABLE_BARS: Final = 20_000
"""A document with more bars has no tables: each cell costs three tokens."""

_MARK: Final = re.compile(r"[*_`\[\]!<&\\~]")
_INLINE: Final = re.compile(r"[*_`\[\]!<&\\~\n]")
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_PLAIN_ADDRESS: Final = re.compile(r"https?://[a-z0-9.-]+(?:/[A-Za-z0-9._~/?=&+,;:-]*)?")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def parse(markdown: str) -> list[Token]:
    """The tokens of the document. Control characters and lone surrogates become U+FFFD: no platform takes them."""
    source = _UNPRINTABLE.sub(_REPLACEMENT, markdown)
    if source.count("\n") + source.count("\r") > MAX_LINES:
        return _as_written(source)
    return (_WITHOUT_TABLES if source.count("|") > MAX_TABLE_BARS else _WITH_TABLES).parse(source)


def _inline_within_budget(state: StateCore) -> None:
    """markdown-it's rule for inline text, with a shortcut for text without marks and an end to its patience."""
    spent = 0
    for token in state.tokens:
        if token.type != "inline":
            continue
        children: list[Token] = []
        token.children = children
        if _INLINE.search(token.content) is None:
            children.append(Token("text", "", 0, content=token.content))
            continue
        if spent <= MAX_INLINE_MARKS:
            spent += len(_MARK.findall(token.content))
        if spent <= MAX_INLINE_MARKS:
            state.md.inline.parse(token.content, state.md, state.env, children)
        else:
            children.extend(_lines(token.content))


def _lines(text: str) -> list[Token]:
    children = []
    for number, line in enumerate(text.split("\n")):
        if number:
            children.append(Token("softbreak", "br", 0))
        children.append(Token("text", "", 0, content=line.strip(" ")))
    return children


def _as_written(source: str) -> list[Token]:
    text = source.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    return [Token("written", "", 0, content=text)]


class QuickLinks(MarkdownIt):
    """Most addresses are plain; normalising those is a tenth of the time of a page and changes nothing."""

    def normalizeLink(self, url: str) -> str:  # noqa: N802  (markdown-it's name)
        return url if _PLAIN_ADDRESS.fullmatch(url) else super().normalizeLink(url)


def _parser(*, tables: bool) -> MarkdownIt:
    rules = ["table", "strikethrough"] if tables else ["strikethrough"]
    parser = QuickLinks("commonmark", {"html": False, "maxNesting": MAX_NESTING}).enable(rules)
    parser.disable(["html_block", "html_inline"])
    parser.core.ruler.at("inline", _inline_within_budget)
    return parser


_WITH_TABLES: Final = _parser(tables=True)
_WITHOUT_TABLES: Final = _parser(tables=False)

"""Parse unambiguous inline Markdown without markdown-it, several times faster.

If CommonMark's rules leave any doubt (marks that could both open and close, references, images, entities), it returns
None and markdown-it parses the paragraph. Otherwise both give the same result. The time is linear in the text.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Final

Step = tuple[str, str, str]
"""One step through a paragraph: markdown-it's token name, its text, its address. Plain tuples, because there are
many."""

BREAK: Final[Step] = ("softbreak", "", "")
LINK_END: Final[Step] = ("link_close", "", "")

_ADDRESS: Final = r"https?://[a-z0-9.-]+(?:/[A-Za-z0-9._~/?=&+,;:-]*)?"
_PLAIN_ADDRESS: Final = re.compile(_ADDRESS)
_TEXT, _RUN, _NEWLINE, _CODE, _LABEL, _TARGET, _AUTOLINK, _ESCAPED, _LITERAL, _BRACKET = range(1, 11)
_ITEM: Final = re.compile(
    r"([^*_`\[!<&\\~\n]+)"
    r"|(\*+|_+|~+)"
    r"|(\n[ \t]*)"
    r"|`([^`]+)`(?!`)"
    rf"|\[([^\[\]\\<]*)\]\(({_ADDRESS})\)"
    rf"|<({_ADDRESS})>"
    r"|\\([!-/:-@\[-`{-~])"
    r"|(!(?!\[)|&(?!#?[A-Za-z0-9]+;)|<(?=[^<>:@]*(?:[<>]|\Z))|\\(?=[A-Za-z0-9]))"
    r"|(\[(?=[^\[\]`\\<!]*\](?!\()))"
    r"|(?s:.)"
)
"""The groups in the order of the names above. Text in none of them is ambiguous."""

_OPENING: Final[dict[str, Step]] = {
    run: (kind, "", "")
    for run, kind in {"*": "em_open", "_": "em_open", "**": "strong_open", "__": "strong_open", "~~": "s_open"}.items()
}
_CLOSING: Final[dict[str, Step]] = {run: (step[0].replace("open", "close"), "", "") for run, step in _OPENING.items()}


def is_plain_address(url: str) -> bool:
    """Return whether the address needs no normalisation."""
    return _PLAIN_ADDRESS.fullmatch(url) is not None


def quick_steps(source: str, *, has_references: bool) -> list[Step] | None:
    """Return the steps through an inline text, or None if markdown-it must parse it."""
    brackets = None if has_references else ("" if "](" in source else "![")
    return _Reader(source, len(source), brackets).steps(0)


class _Reader:
    """Parses one stretch. `brackets` are those that are certainly text; None if even a closed pair may be a link."""

    __slots__ = ("brackets", "end", "opened", "source")

    def __init__(self, source: str, end: int, brackets: str | None) -> None:
        self.source = source
        self.end = end
        self.brackets = brackets
        self.opened: list[str] = []

    def steps(self, begin: int) -> list[Step] | None:
        steps: list[Step] = []
        text = ""
        for found in _ITEM.finditer(self.source, begin, self.end):
            if found.lastindex == _TEXT:
                text += found[0]
                continue
            meaning = self._meaning(found)
            if meaning is None:
                return None
            if isinstance(meaning, str):
                text += meaning
                continue
            if found.lastindex == _NEWLINE:
                text = text.rstrip(" ")
            if text:
                steps.append(("text", text, ""))
                text = ""
            steps += meaning
        if text:
            steps.append(("text", text, ""))
        return None if self.opened else steps

    def _meaning(self, found: re.Match[str]) -> str | tuple[Step, ...] | None:
        """Return the text that an item adds, or its steps."""
        kind = found.lastindex
        if kind == _RUN:
            return self._run(found)
        if kind == _CODE:
            return (("code_inline", code_text(found[_CODE]), ""),)
        if kind == _TARGET:
            return self._link(found)
        if kind == _NEWLINE:
            return (BREAK,)
        if kind == _AUTOLINK:
            return _autolink(found[_AUTOLINK])
        is_text = kind in (_LITERAL, _ESCAPED)
        if self.brackets is not None:
            is_text = is_text or kind == _BRACKET or found[0] in self.brackets
        return found[0][-1] if is_text else None

    def _run(self, found: re.Match[str]) -> str | tuple[Step] | None:
        run = found[0]
        opens, closes = _flanks(self.source, found.start(), found.end(), self.end)
        if run == "~" or not (opens or closes):
            return run
        if (opens and closes) or run not in _OPENING:
            return None
        if opens:
            self.opened.append(run)
            return (_OPENING[run],)
        return (_CLOSING[run],) if self.opened and self.opened.pop() == run else None

    def _link(self, found: re.Match[str]) -> tuple[Step, ...] | None:
        address = found[_TARGET]
        if "&" in address and ";" in address:
            return None
        label = _Reader(self.source, found.end(_LABEL), None).steps(found.start(_LABEL))
        return None if label is None else (("link_open", "", address), *label, LINK_END)


def _autolink(address: str) -> tuple[Step, ...] | None:
    """Show an internationalized name in its own letters."""
    return None if "xn--" in address else (("link_open", "", address), ("text", address, ""), LINK_END)


def code_text(between: str) -> str:
    """Return the text of a code span: one blank on each side belongs to its marks."""
    line = between.replace("\n", " ")
    return line[1:-1] if line[0] == line[-1] == " " and line.strip(" ") else line


def _flanks(source: str, start: int, stop: int, end: int) -> tuple[bool, bool]:
    """Return whether a delimiter run can open and can close, by the characters on both sides."""
    before = _side(source[start - 1] if start else " ")
    after = _side(source[stop] if stop < end else " ")
    return _FLANKS[source[start] == "_", before, after]


_SPACES: Final = "\t\n\v\f\r \u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_WORD, _SPACE, _PUNCTUATION = range(3)


@lru_cache(maxsize=512)
def _side(character: str) -> int:
    if character in _SPACES:
        return _SPACE
    return _PUNCTUATION if unicodedata.category(character)[0] in "PS" else _WORD


def _flanking(is_underscore: bool, before: int, after: int) -> tuple[bool, bool]:
    left = after != _SPACE and not (after == _PUNCTUATION and before == _WORD)
    right = before != _SPACE and not (before == _PUNCTUATION and after == _WORD)
    if is_underscore:
        return left and (not right or before == _PUNCTUATION), right and (not left or after == _PUNCTUATION)
    return left, right


_SIDES: Final = (_WORD, _SPACE, _PUNCTUATION)
_FLANKS: Final = {
    (is_underscore, before, after): _flanking(is_underscore, before, after)
    for is_underscore in (False, True)
    for before in _SIDES
    for after in _SIDES
}

"""Where a text is best cut: between blocks, lines, sentences, words; never inside a grapheme (SPEC 12.3).

Works on visible text and positions in it. What fits is known elsewhere.
"""

from typing import Final

import regex

_GRAPHEME: Final = regex.compile(r"\X")
_SENTENCE_END: Final = regex.compile(
    r"(?r)[.!?\N{HORIZONTAL ELLIPSIS}][\p{Pe}\p{Pf}\"']*(?=\s)|(?r)[\u3002\uff01\uff1f]"
)
_FLAG_LETTER: Final = regex.compile("[\U0001f1e6-\U0001f1ff]")
_FLAG_LETTERS_BEFORE: Final = regex.compile("(?r)[\U0001f1e6-\U0001f1ff]*")
_SPACE: Final = regex.compile(r"(?r)[ \t\n]")


def grapheme_boundary(text: str, start: int, position: int) -> int:
    """The last boundary of a grapheme at or before `position`; `start`, itself one, where there is no other."""
    if position >= len(text):
        return len(text)
    begin = _sure_boundary(text, start, position)
    boundary = begin
    # Only this stretch is shown to regex: for each flag it looks back to where the flags began, however far that is.
    for found in _GRAPHEME.finditer(text[begin : position + 1]):
        boundary = begin + found.start()
    return boundary


def _sure_boundary(text: str, start: int, position: int) -> int:
    """A boundary at or before `position`, as near as can be told from pairs of characters alone."""
    begin = position
    while begin > start and not _surely_apart(text[begin - 1], text[begin]):
        begin -= 1
        if _FLAG_LETTER.match(text, begin):
            first = begin - len(_FLAG_LETTERS_BEFORE.match(text, start, begin)[0])
            begin -= (begin - first) % 2
            if begin > first:  # two of them are a flag, so every second one begins another
                break
    return begin


def _surely_apart(before: str, after: str) -> bool:
    """Two characters of ASCII never share a grapheme, except CR LF, which no rendered text contains."""
    return before < "\x80" and after < "\x80"


def best_cut(text: str, start: int, end: int, *, block: int | None) -> int:
    """The best place to cut after `start` and at or before `end`; `block` is the last gap between blocks in reach.

    A place in the first half is taken only between words: better a cut inside a block than many short messages.
    """
    half = start + (end - start) // 2
    if block is not None and block > half:
        return block
    line = text.rfind("\n", half, end + 1)
    if line > half:
        return grapheme_boundary(text, start, line)
    sentence = _SENTENCE_END.search(text, half, min(end + 1, len(text)))
    if sentence is not None and half < sentence.end() <= end:
        return grapheme_boundary(text, start, sentence.end())
    word = _SPACE.search(text, start + 1, min(end + 1, len(text)))
    if word is not None:
        cut = grapheme_boundary(text, start, word.start())
        if cut > start:
            return cut
    return grapheme_boundary(text, start, end)

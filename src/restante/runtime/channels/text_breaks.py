"""Find the best place to cut a text: between blocks, lines, sentences, words; never inside a grapheme (SPEC 12.3).

It works on positions in the visible text. The caller knows how much fits.
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
    """Return the last grapheme boundary at or before `position`, or `start`, which is one."""
    if position >= len(text):
        return len(text)
    begin = _sure_boundary(text, start, position)
    boundary = begin
    # Pass only this stretch to regex: for each flag it searches back to where the flags begin, however far that is.
    for found in _GRAPHEME.finditer(text[begin : position + 1]):
        boundary = begin + found.start()
    return boundary


def _sure_boundary(text: str, start: int, position: int) -> int:
    """Return a boundary at or before `position`, as close as pairs of characters alone can tell."""
    begin = position
    while begin > start and not _surely_apart(text[begin - 1], text[begin]):
        begin -= 1
        if _FLAG_LETTER.match(text, begin):
            first = begin - len(_FLAG_LETTERS_BEFORE.match(text, start, begin)[0])
            begin -= (begin - first) % 2
            if begin > first:  # two regional indicators are one flag
                break
    return begin


def _surely_apart(before: str, after: str) -> bool:
    """Return whether two characters are certainly in different graphemes. All ASCII ones are, except CR LF."""
    return before < "\x80" and after < "\x80"


def best_cut(text: str, start: int, end: int, *, block: int | None) -> int:
    """Return the best cut after `start` and at or before `end`. `block` is the last gap between blocks in reach.

    A position in the first half is used only between words: a cut inside a block is better than many short messages.
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

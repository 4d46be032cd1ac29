"""Block rules for markdown-it: a fast path for prose, and a nesting limit that loses no text.

Most blocks are paragraphs of lines that begin with a letter. No block construct begins with one, so markdown-it's ten
rules need not be tried on such a line. The resulting paragraph equals that of markdown-it's rules.
"""

import re
from collections.abc import Callable
from typing import Final

from markdown_it.common.utils import mdTrim
from markdown_it.rules_block import StateBlock

BlockRule = Callable[[StateBlock, int, int, bool], bool]

_CODE_INDENT: Final = 4
_ITEM: Final = re.compile(r"(?:[-+*]|\d{1,9}[.)]) [^\W\d_]")
_MAY_UNDERLINE: Final = "-=|:"
"""First characters of a line under a heading or under the head of a table."""


def prose(state: StateBlock, start: int, _end: int, silent: bool) -> bool:
    """Parse a paragraph from the line `start` on, if it is certainly one."""
    begin = state.bMarks[start] + state.tShift[start]
    if silent or not state.src[begin].isalpha() or state.sCount[start] - state.blkIndent >= _CODE_INDENT:
        return False
    stop = _end_of_prose(state, start + 1)
    if stop < 0:
        return False
    if stop == start + 1:
        content = state.src[begin : state.eMarks[start]]
    else:
        content = state.getLines(start, stop, state.blkIndent, False)
    state.line = stop
    state.push("paragraph_open", "p", 1)
    state.push("inline", "", 0).content = mdTrim(content)
    state.push("paragraph_close", "p", -1)
    # Restore what markdown-it sets after each paragraph; it decides whether a list may follow.
    state.parentType = "paragraph"
    return True


def _end_of_prose(state: StateBlock, line: int) -> int:
    """Return the line after the paragraph, or -1 if markdown-it must decide."""
    src, begins, shifts, ends = state.src, state.bMarks, state.tShift, state.eMarks
    while line < state.lineMax:
        at = begins[line] + shifts[line]
        if at >= ends[line]:
            break
        if not src[at].isalpha():
            if src[at] in _MAY_UNDERLINE and _ITEM.match(src, at) is None:
                return -1
            if _interrupts(state, line):
                break
        line += 1
    return line


def _interrupts(state: StateBlock, line: int) -> bool:
    """Return whether another block begins in this line of a paragraph."""
    if state.sCount[line] - state.blkIndent >= _CODE_INDENT or state.sCount[line] < 0:
        return False
    outer, state.parentType = state.parentType, "paragraph"
    found = any(rule(state, line, state.lineMax, True) for rule in state.md.block.ruler.getRules("paragraph"))
    state.parentType = outer
    return found


def no_deeper_than(levels: int, rule: BlockRule) -> BlockRule:
    """Wrap a rule of a construct that contains blocks: nested deeper than `levels`, the line is text.

    Markdown-it itself would omit what is nested too deep.
    """

    def bounded(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        return state.level < levels and rule(state, start, end, silent)

    return bounded

"""The commands that a page of the docs shows, each with what it says."""

import doctest
import re
from pathlib import Path

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_CONSOLE = re.compile(r"^```console\n\$ restante (?P<arguments>.*)\n(?P<output>(?:.*\n)*?)```$", re.MULTILINE)


def shown_commands(page: Path) -> list[tuple[str, str]]:
    """Arguments and output, in the page's order."""
    return [(found["arguments"], found["output"]) for found in _CONSOLE.finditer(page.read_text(encoding="utf-8"))]


def matches(expected: str, got: str) -> bool:
    """As doctest compares: `...` stands for anything, and white space is folded."""
    return doctest.OutputChecker().check_output(expected, got, FLAGS)

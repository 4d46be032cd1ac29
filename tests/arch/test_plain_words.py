"""Pages use present-day words: those of the list are deleted on sight (docs/glossary.md has the words to use)."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERATED = {"api.md", "channels-formats.md", "conformance.md", "journal.md"}
PAGES = sorted(
    page
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if page.name not in GENERATED and page.name != "CHANGELOG.md"
)
AVOIDED = re.compile(
    r"\b(dear|ado|in vain|anew|lest|whoever|somebody|nobody|everybody|for want of|told to|lived out|is asked"
    r"|housekeeping|keeps? house|sealed anew|facts?)\b",
    re.IGNORECASE,
)


def avoided_words(text: str) -> list[str]:
    """List the words to avoid in prose; code and the targets of links are not prose."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [found[0] for found in AVOIDED.finditer(re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", prose))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_uses_plain_words(page: Path) -> None:
    assert avoided_words(page.read_text("utf-8")) == []


def test_words_are_found_in_prose_and_not_in_code() -> None:
    assert avoided_words("Sealed anew for whoever comes; `nobody` is a name.\n```\nanew\n```\n") == [
        "Sealed anew",
        "whoever",
    ]

"""Links between our own pages lead somewhere."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
FRONT = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")
PAGES = sorted([*(ROOT / name for name in FRONT if (ROOT / name).exists()), *(ROOT / "docs").rglob("*.md")])

FENCE = re.compile(r"^ {0,3}(```+|~~~+).*?^ {0,3}\1[`~]*[ \t]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)[^`].*?\1")
INLINE = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+[\"'][^)]*)?\)")
DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)", re.MULTILINE)
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def links(text: str) -> list[str]:
    """The targets inside our own pages, outside code."""
    prose = CODE.sub("", FENCE.sub("", text))
    return [target for target in INLINE.findall(prose) + DEFINITION.findall(prose) if not SCHEME.match(target)]


def anchors(text: str) -> set[str]:
    """The names under which headings can be linked, made as Git hosts make them."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        twin = sum(1 for other in found if re.fullmatch(re.escape(slug) + r"(-\d+)?", other))
        found.add(f"{slug}-{twin}" if twin else slug)
    return found


def problem(page: Path, target: str) -> str | None:
    path, _, anchor = unquote(target).partition("#")
    aim = (page.parent / path).resolve() if path else page
    if not aim.is_relative_to(ROOT):
        return f"{target} leads out of the repository"
    if not aim.exists():
        return f"{target} does not exist"
    if anchor and aim.suffix == ".md" and anchor not in anchors(aim.read_text("utf-8")):
        return f"{target} has no such heading"
    return None


@pytest.mark.parametrize("name", FRONT)
def test_the_front_pages_are_there(name: str) -> None:
    assert (ROOT / name).exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    found = [problem(page, target) for target in links(page.read_text("utf-8"))]
    assert [each for each in found if each] == []


def test_links_are_found_in_prose_and_not_in_code() -> None:
    text = 'see [a](x.md) and ![b](y.png "t")\n\n```\n[c](no.md)\n```\n`[d](no.md)` [e](http://h)\n\n[f]: z.md#q\n'
    assert links(text) == ["x.md", "y.png", "z.md#q"]


def test_headings_become_anchors() -> None:
    text = "# One two\n## `code` & more, 3.1\n## One two\n```\n# no\n```\n"
    assert anchors(text) == {"one-two", "code--more-31", "one-two-1"}


def test_a_broken_link_is_told() -> None:
    assert problem(ROOT / "README.md", "docs/nowhere.md") == "docs/nowhere.md does not exist"
    assert problem(ROOT / "README.md", "../elsewhere") == "../elsewhere leads out of the repository"

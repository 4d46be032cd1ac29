"""Files that ARCHITECTURE.md and docs/changing.md name exist: who moves a module changes the pages with it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "restante"
PAGES = [page for page in (ROOT / "ARCHITECTURE.md", ROOT / "docs" / "changing.md") if page.exists()]

NAMED = re.compile(r"`([a-z_.][\w.-]*(?:/[\w.{},*<>-]*)+)(?:::\w+)?`")
"""A name in code marks with a slash: `core/outbox.py`, `runtime/sqlite/{inbox,outbox}/`, `tests/x.py::test_y`."""

TOP_FOLDERS = {path.name for path in (*ROOT.iterdir(), *PACKAGE.iterdir()) if path.is_dir()}


def expanded(name: str) -> Iterator[str]:
    """Yield a{b,c}d as abd and acd."""
    before, brace, rest = name.partition("{")
    if not brace:
        yield name
        return
    choices, _, after = rest.partition("}")
    for choice in choices.split(","):
        yield from expanded(before + choice + after)


def named_paths(text: str) -> list[str]:
    """List the paths that a page names; what starts with none of our folders is something else, such as a fraction."""
    names = [name for found in NAMED.findall(text) for name in expanded(found)]
    return [name for name in names if name.split("/")[0] in TOP_FOLDERS]


def exists(name: str) -> bool:
    """Whether a file, folder or module has this name, from the repository or from src/restante; * and <x> match any."""
    pattern = re.sub(r"<[^>]*>", "*", name).rstrip("/")
    return any(any(root.glob(form)) for root in (ROOT, PACKAGE) for form in (pattern, f"{pattern}.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    names = named_paths(page.read_text("utf-8"))
    assert len(names) > 10
    assert [name for name in names if not exists(name)] == []


def test_paths_are_found_in_code_marks_with_braces_and_without_suffix() -> None:
    text = "`core/outbox.py`, `runtime/sqlite/{inbox,outbox}/`, `tests/arch/test_x.py::test_y`, `and/or`, core/none.py"
    found = named_paths(text)
    assert found == ["core/outbox.py", "runtime/sqlite/inbox/", "runtime/sqlite/outbox/", "tests/arch/test_x.py"]


def test_a_path_that_does_not_exist_is_noticed() -> None:
    assert exists("policy/retry")
    assert exists("src/restante/policy/retry.py")
    assert exists("docs/decisions/0001-*.md")
    assert not exists("policy/no_such_module.py")

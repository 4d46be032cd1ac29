"""The shape of the source: small rooms, each with a sign on the door."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
MOST_LINES = 400
VAGUE = {"util", "utils", "helper", "helpers", "manager", "managers", "misc", "common"}

WRITTEN = sorted(path for path in SRC.rglob("*.py") if not path.stem.endswith("_pb2"))


def name(path: Path) -> str:
    return str(path.relative_to(SRC))


def test_there_are_modules_to_look_at() -> None:
    assert "restante/model/error_codes.py" in {name(path) for path in WRITTEN}


@pytest.mark.parametrize("path", WRITTEN, ids=name)
def test_a_module_says_what_it_is_about(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text("utf-8")))


@pytest.mark.parametrize("path", WRITTEN, ids=name)
def test_a_module_holds_one_idea(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= MOST_LINES


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert [name(path) for path in SRC.rglob("*") if VAGUE & set(path.stem.lower().split("_"))] == []

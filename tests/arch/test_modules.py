"""The shape of the source: small modules, classes and folders, each with a docstring and a name that says something."""

import ast
from itertools import pairwise
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
MOST_LINES = 400
MOST_PUBLIC_METHODS = 22
MOST_MODULES = 25
VAGUE = {"util", "utils", "helper", "helpers", "manager", "managers", "misc", "common"}

WRITTEN = sorted(path for path in SRC.rglob("*.py") if not path.stem.endswith("_pb2"))
QUERIES = sorted(
    path for path in (SRC / "restante/runtime/sqlite").rglob("*.sql") if "-- name: " in path.read_text("utf-8")
)


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


def public_methods(body: list[ast.stmt]) -> int:
    names = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return sum(not name.startswith("_") for name in names)


def test_no_class_is_the_place_where_everything_meets() -> None:
    classes = [
        (f"{name(path)}: {node.name}", public_methods(node.body))
        for path in WRITTEN
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    assert [found for found in classes if found[1] > MOST_PUBLIC_METHODS] == []


def test_no_folder_holds_more_modules_than_a_reader_can_scan() -> None:
    folders = {path.parent for path in WRITTEN}
    crowded = {name(folder): len(list(folder.glob("*.py"))) for folder in sorted(folders)}
    assert {folder: count for folder, count in crowded.items() if count > MOST_MODULES} == {}


@pytest.mark.parametrize("path", QUERIES, ids=name)
def test_each_query_has_a_comment_that_says_what_it_answers(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    headers = [(line, after) for line, after in pairwise(lines) if line.startswith("-- name: ")]
    assert headers
    assert [header for header, after in headers if not after.startswith("-- ")] == []

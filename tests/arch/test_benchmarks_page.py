"""docs/benchmarks.md shows the results in bench/results."""

import json
from pathlib import Path

import pytest
from bench.page import NAMES, PAGE, render_page

ROOT = Path(__file__).parents[2]


def test_the_page_is_made_from_the_results() -> None:
    assert PAGE.read_text("utf-8") == render_page(), "run `make docs`"


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_of_the_page_is_a_module(name: str) -> None:
    assert (ROOT / "bench" / f"{name}.py").exists() or (ROOT / "bench" / name / "__main__.py").exists()


def test_tables_charts_and_printed_lines_are_shown(tmp_path: Path) -> None:
    table = {"title": "T", "columns": ["n", "rate"], "rows": [["1,000", "2,500"]], "plot": [0, 1]}
    content = {"machine": {"cores": "2"}, "about": "What is compared.", "tables": [table], "output": ["x"]}
    (tmp_path / "relay.json").write_text(json.dumps(content))
    page = render_page(tmp_path)
    assert "cores 2.\n\nWhat is compared.\n\n### T\n" in page
    assert "| n | rate |\n| --- | --- |\n| 1,000 | 2,500 |\n" in page
    assert "  bar [2500]\n" in page
    assert "```text\nx\n```" in page

"""The README's commands and examples, run as they stand there."""

import doctest
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.docs.console_blocks import FLAGS, matches, shown_commands
from support.spec.clauses import clause

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
SHOWN = dict(shown_commands(README))


def run(arguments: str, *, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RESTANTE_")}
    return subprocess.run(
        [sys.executable, "-m", "restante", *arguments.split()],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=cwd,
        env={**environ, "COLUMNS": "80", "NO_COLOR": "1"},
    )


def test_the_readme_shows_the_demo_a_table_a_refusal_and_a_node() -> None:
    assert list(SHOWN) == [
        "demo",
        "policy retry",
        "--set retry.base_ms=50 policy retry",
        "node init post",
    ]


@clause("1.1", "1.2", "1.5", "2.6", "5.4", "8.7", "11.1", "13.4", "13.5")
def test_the_demo_plays_every_chapter_and_balances_as_the_readme_shows() -> None:
    done = run("demo --messages 200")  # as many as the network's faults need to show
    assert done.returncode == 0, done.stdout + done.stderr
    assert matches(SHOWN["demo"], done.stdout), done.stdout
    assert done.stderr == ""


def test_the_policy_table_is_the_one_in_the_readme() -> None:
    done = run("policy retry")
    assert done.returncode == 0
    assert matches(SHOWN["policy retry"], done.stdout), done.stdout


def test_the_refusal_is_the_one_in_the_readme() -> None:
    arguments = "--set retry.base_ms=50 policy retry"
    done = run(arguments)
    assert done.returncode == 2
    assert matches(SHOWN[arguments], done.stderr), done.stderr
    assert done.stdout == ""


def test_a_node_is_made_as_the_readme_shows(tmp_path: Path) -> None:
    done = run("node init post", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert matches(SHOWN["node init post"], done.stdout), done.stdout


@pytest.mark.parametrize(
    ("page", "examples"),
    [(README, 6), (ROOT / "docs" / "tutorial" / "outbox.md", 18), (ROOT / "docs" / "tutorial" / "client.md", 18)],
    ids=["README", "outbox tutorial", "client tutorial"],
)
def test_python_examples_give_what_the_page_says(page: Path, examples: int) -> None:
    failed, tried = doctest.testfile(str(page), module_relative=False, optionflags=FLAGS)
    assert (failed, tried) == (0, examples)

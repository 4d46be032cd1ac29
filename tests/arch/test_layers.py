"""Packages import only what ARCHITECTURE.md allows them; and a wrong import does break the build."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LINT = """
import sys
from importlinter.cli import lint_imports
sys.exit(lint_imports(config_filename="pyproject.toml", no_cache=True, no_logo=True))
"""

BY_LAYER = "Packages import only the packages below them"
PURE = "The pure packages know no clock, dice, socket, file, log, database or Spark"
SPARK = "Only the fleet knows Spark"
PRIMITIVES = "Only crypto touches the primitives"
PROTOBUF = "Only wire speaks protobuf"


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    """The contracts of `root/pyproject.toml` held against `root/src`.

    In a process of its own: the linter looks for the package on sys.path, and must find this one first.
    """
    return subprocess.run(
        [sys.executable, "-c", LINT],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "src"), "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_import_goes_down_the_layers() -> None:
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("policy/retry.py", "import restante.runtime", BY_LAYER),
        ("model/error_codes.py", "import restante.policy", BY_LAYER),
        ("runtime/settings_loader.py", "import restante.fleet", BY_LAYER),
        ("workshop/__init__.py", '"""A package without a layer."""', BY_LAYER),
        ("policy/retry.py", "import time", PURE),
        ("core/__init__.py", "from random import random", PURE),
        ("ports/__init__.py", "import logging", PURE),
        ("runtime/settings_loader.py", "import pyspark.sql", SPARK),
        ("cli/main.py", "from cryptography.hazmat.primitives import hashes", PRIMITIVES),
        ("core/__init__.py", "from google.protobuf import message", PROTOBUF),
    ],
)
def test_a_wrong_import_breaks_its_contract(tmp_path: Path, module: str, line: str, contract: str) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    target = tmp_path / "src" / "restante" / module
    target.parent.mkdir(exist_ok=True)
    with target.open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    result = lint(tmp_path)
    assert result.returncode == 1
    assert f"{contract} BROKEN" in result.stdout, result.stdout + result.stderr

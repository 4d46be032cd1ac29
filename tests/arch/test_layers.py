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


WRONG_IMPORTS = [
    ("policy/retry.py", "import restante.runtime", BY_LAYER, "restante.policy.retry -> restante.runtime"),
    ("model/error_codes.py", "import restante.policy", BY_LAYER, "restante.model.error_codes -> restante.policy"),
    ("runtime/settings_loader.py", "import restante.fleet", BY_LAYER, "runtime.settings_loader -> restante.fleet"),
    ("workshop/__init__.py", '"""A package without a layer."""', BY_LAYER, "workshop"),
    ("policy/retry.py", "import time", PURE, "restante.policy.retry -> time"),
    ("core/__init__.py", "from random import random", PURE, "restante.core -> random"),
    ("ports/__init__.py", "import logging", PURE, "restante.ports -> logging"),
    ("runtime/settings_loader.py", "import pyspark.sql", SPARK, "restante.runtime.settings_loader -> pyspark"),
    ("cli/main.py", "import cryptography.hazmat", PRIMITIVES, "restante.cli.main -> cryptography"),
    ("core/__init__.py", "from google.protobuf import message", PROTOBUF, "restante.core -> google"),
]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """Return what the linter says of a copy with every wrong import in it: one run, because a run takes seconds."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    for module, line, _, _ in WRONG_IMPORTS:
        target = root / "src" / "restante" / module
        target.parent.mkdir(exist_ok=True)
        with target.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
    return lint(root)


@pytest.mark.parametrize(("module", "line", "contract", "named"), WRONG_IMPORTS)
def test_a_wrong_import_breaks_its_contract_and_is_named(
    broken: subprocess.CompletedProcess[str], module: str, line: str, contract: str, named: str
) -> None:
    assert broken.returncode == 1
    assert f"{contract} BROKEN" in broken.stdout, broken.stdout + broken.stderr
    assert named in broken.stdout, f"{line} in {module}: {broken.stdout}"

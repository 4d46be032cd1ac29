"""Command lines that run a module of tests/support in a process of its own."""

import sys
from pathlib import Path
from types import ModuleType

TESTS = Path(__file__).parents[2]


def command(module: ModuleType) -> list[str]:
    """Return the command that runs `module` as a program; the caller appends its arguments."""
    find = f"import runpy, sys; sys.path.insert(0, {str(TESTS)!r})"
    run = f"{find}; runpy.run_module({module.__name__!r}, run_name='__main__')"
    return [sys.executable, "-c", run]

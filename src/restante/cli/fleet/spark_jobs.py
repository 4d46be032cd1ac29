"""Run a Spark job for a command: import it, show its progress, end quietly on Ctrl-C."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from restante.model.errors import EnvironmentUnsuitable, RestanteError

_EXPECTED: Final = (KeyboardInterrupt, RestanteError)
NEEDS_SPARK: Final = "this command needs Spark: pip install 'restante[fleet]'"


@contextmanager
def require_spark() -> Iterator[None]:
    """Import Spark inside this block. If it is not installed, raise an error that names the command to install it."""
    _log_no_expected_errors()
    try:
        yield
    except ImportError as missing:
        raise EnvironmentUnsuitable(NEEDS_SPARK) from missing


def _log_no_expected_errors() -> None:
    """Keep py4j from logging a traceback for Ctrl-C and for errors of ours, which a command reports in one line.

    It logs through the root logger; all else passes.
    """
    root = logging.getLogger()
    if not root.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], _EXPECTED)))
        root.addHandler(handler)


@contextmanager
def step_bars(*, quiet: bool) -> Iterator[Callable[[Any], None]]:
    """Yield a function that shows a `JobProgress` as one bar for each step, on standard error."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True, quiet=quiet)) as bars:
        tasks: dict[str, TaskID] = {}

        def show(progress: Any) -> None:
            if progress.step not in tasks:
                tasks[progress.step] = bars.add_task(progress.step, total=None)
            bars.update(tasks[progress.step], completed=progress.done, total=progress.total or None)

        yield show


@contextmanager
def stage_bar(out: Console, *, stages: int, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the name of the next of `stages` stages beside one bar, if `out` is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True, disable=quiet or not out.is_terminal) as progress:
        task = progress.add_task("starting Spark", total=stages + 1)
        yield lambda stage: progress.update(task, description=stage, advance=1)

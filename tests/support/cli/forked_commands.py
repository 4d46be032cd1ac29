"""Commands as processes of their own, forked from one that has imported them: most of a short command is its imports.

Arguments, directory, environment, streams and exit status are as for any process. How the installed command starts is
shown by the tests that do start it (test_cli).
"""

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from typing import Final

from restante.__main__ import main

IMPORTED: Final = (
    "restante.cli.main",
    "restante.cli.client.database_file",
    "restante.cli.client.dead_letter_export",
    "restante.cli.fleet.journal_file",
    "restante.runtime.journal.segment_writer",
    "typer._adapters",  # pydantic, too
    "typer.rich_utils",
)
"""What has no state and starts no thread, so that a fork can go on with it."""
MODES: Final = ("r", "w", "w")

_FORKED: Final = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(list(IMPORTED))


def run_forked(
    *arguments: str, cwd: Path, env: Mapping[str, str], text: str = "", timeout_s: float = 60
) -> CompletedProcess[str]:
    """Run `restante`, as `subprocess.run` would. `text` is what it can read."""
    with tempfile.TemporaryDirectory() as made:
        streams = Path(made)
        (streams / "0").write_text(text, "utf-8")
        process = _FORKED.Process(target=_run, args=(arguments, str(cwd), dict(env), str(streams)))
        process.start()
        try:
            process.join(timeout_s)
            status = process.exitcode
            if status is None:
                raise TimeoutExpired(arguments, timeout_s)
        finally:
            process.kill()
            process.join()
            process.close()
        said, problems = ((streams / number).read_text("utf-8") for number in "12")
    return CompletedProcess(arguments, status, said, problems)


def _run(arguments: Sequence[str], cwd: str, env: Mapping[str, str], streams: str) -> None:
    for number, mode in enumerate(MODES):
        with Path(streams, str(number)).open(mode) as file:
            os.dup2(file.fileno(), number)
    opened = [os.fdopen(number, mode, encoding="utf-8", closefd=False) for number, mode in enumerate(MODES)]
    sys.stdin, sys.stdout, sys.stderr = opened  # and kept here: the command puts its own in their place
    sys.argv = ["restante", *arguments]
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    main()

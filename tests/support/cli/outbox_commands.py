"""`restante outbox` and `restante dlq` as an operator runs them, on one client's file."""

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw

from support.cli.forked_commands import run_forked
from support.cli.populated_client_file import short, shown

COMMAND = str(Path(sys.executable).with_name("restante"))
READING = ("outbox list", "outbox stats", "outbox check", "dlq list", "dlq export")
REPORTING_FAILURES = ("outbox stats", "dlq list")
"""They exit with status 3 if there are dead letters."""
READING_ONE = ("outbox show", "dlq show", "dlq history")
CHANGING_ONE = ("outbox cancel --yes", "dlq recover", "dlq delete --yes")


class Operator:
    """Runs commands on one client's file, which the variable names."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "mail.db"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RESTANTE_", "FORCE_COLOR"))}
        self.env = kept | {"COLUMNS": "80", "TERM": "xterm", "NO_COLOR": "1", "RESTANTE_FILE": "mail.db"}

    def run(self, command: str, *more: str, status: int = 0, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        done = run_forked(*command.split(), *more, cwd=self.directory, env=self.env, timeout_s=timeout_s)
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    def json(self, command: str, *more: str, status: int = 0) -> Any:
        return json.loads(self.run(command, *more, "--json", status=status).stdout)

    def answering(self, answer: str, command: str) -> tuple[int, str]:
        """At a terminal, where one question is answered."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [COMMAND, *command.split()], cwd=self.directory, env=self.env, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        seen = b""
        with contextlib.suppress(OSError):  # Linux answers EIO once the other side is closed
            while piece := os.read(ours, 65_536):
                seen += piece
        os.close(ours)
        return process.wait(timeout=60), seen.decode()

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        connection = apsw.Connection(str(self.path))
        try:
            return list(connection.execute(statement))
        finally:
            connection.close()

    def state(self, name: str) -> str | None:
        found: str | None = self.json("outbox show", shown(name))["state"]
        return found

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.directory.iterdir()}


def cells(output: str, name: str) -> list[str]:
    [line] = [line for line in output.splitlines() if line.startswith(short(name))]
    return line.split()

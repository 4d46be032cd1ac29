"""The commands of docs/howto/node.md, run one after the other, say what the page says."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from support.docs.console_blocks import matches, shown_commands
from support.relay.node_processes import COMMAND, clean_environ, free_port
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "node.md"


@contextlib.contextmanager
def on_a_terminal(arguments: str, directory: Path, expected: str) -> Iterator[None]:
    """A command that goes on, once it has said as many lines as the page shows."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, *arguments.split()],
        cwd=directory,
        env=clean_environ(),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    with os.fdopen(ours, "r", encoding="utf-8") as terminal:
        said = "".join(terminal.readline() for _ in expected.splitlines())
        rest = threading.Thread(target=_read_on, args=(terminal,))
        rest.start()
        try:
            assert matches(expected, said), said
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            status = process.wait(LIMIT_S)
            rest.join()
    assert status == 0


def _read_on(terminal: Iterator[str]) -> None:
    with contextlib.suppress(OSError):  # Linux answers EIO once the other side is closed
        for _ in terminal:
            pass


def with_ports_of_its_own(config: Path) -> dict[str, str]:
    """The usual ports may be taken where tests run."""
    ports = {"7431": str(free_port()), "7432": str(free_port())}
    text = config.read_text("utf-8")
    for usual, free in ports.items():
        text = text.replace(f":{usual}", f":{free}")
    config.write_text(text, "utf-8")
    return ports


@clause("6.9")
def test_every_command_of_the_page_gives_what_the_page_shows(tmp_path: Path) -> None:
    examples = shown_commands(PAGE)
    assert len(examples) == 8
    ports: dict[str, str] = {}
    relay = ""
    with contextlib.ExitStack() as stack:
        for arguments, shown in examples:
            expected = shown
            for usual, free in ports.items():
                expected = expected.replace(f":{usual}", f":{free}")
            if arguments == "node run post":
                stack.enter_context(on_a_terminal(arguments, tmp_path, expected))
                continue
            done = subprocess.run(
                [COMMAND, *arguments.split()],
                capture_output=True,
                text=True,
                check=False,
                timeout=LIMIT_S,
                cwd=tmp_path,
                env=clean_environ(RESTANTE_RELAY=relay),
            )
            refused = expected.startswith("error")
            assert done.returncode == (2 if refused else 0), done.stdout + done.stderr
            assert matches(expected, done.stderr if refused else done.stdout), done.stdout + done.stderr
            if arguments == "node init post":
                ports = with_ports_of_its_own(tmp_path / "post" / "node.toml")
            if arguments == "node status post":
                note = json.loads((tmp_path / "post" / "lock").read_text("utf-8"))
                [key] = re.findall(r"^([0-9a-f]{64})@", done.stdout, re.MULTILINE)
                relay = f"{key}@{note['listen']}"

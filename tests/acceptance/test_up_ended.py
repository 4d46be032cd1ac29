"""`restante up` ends its nodes when it is ended, goes on while a node is dead, and fails when all are."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.relay.node_processes import COMMAND, clean_environ, free_port
from support.system.wait_until import LIMIT_S, until

NEEDS_PROC = pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at /proc to find processes")


def node_pids(directory: Path) -> list[int]:
    """The processes that run a node below `directory`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue  # it ended while we looked
        if b"node" in words and any(word.startswith(bytes(directory)) for word in words):
            found.append(int(entry.parent.name))
    return found


@contextlib.contextmanager
def running_network(home: Path) -> Iterator[subprocess.Popen[str]]:
    """`restante up` with two nodes, from the time when they run."""
    words = ["up", "--nodes", "2", "--directory", str(home)]
    ports = ["--port", str(free_port()), "--status-port", str(free_port())]
    process = subprocess.Popen(
        [COMMAND, *words, *ports], env=clean_environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert any("Ctrl-C" in line for line in process.stdout)
        yield process
    finally:
        process.kill()
        for pid in node_pids(home):
            os.kill(pid, signal.SIGKILL)


@NEEDS_PROC
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_no_node_outlives_the_command(tmp_path: Path, ending: signal.Signals) -> None:
    home = tmp_path / "nodes"
    with running_network(home) as process:
        first, second = node_pids(home)
        os.kill(first, signal.SIGKILL)
        until(lambda: len(node_pids(home)) == 1)
        assert process.poll() is None
        assert node_pids(home) == [second]
        process.send_signal(ending)
        _, errors = process.communicate(timeout=LIMIT_S)
        assert errors == ""
        assert process.returncode == 0
        assert node_pids(home) == []


@NEEDS_PROC
def test_when_every_node_has_ended_the_command_says_so_and_fails(tmp_path: Path) -> None:
    home = tmp_path / "nodes"
    with running_network(home) as process:
        for pid in node_pids(home):
            os.kill(pid, signal.SIGKILL)
        _, errors = process.communicate(timeout=LIMIT_S)
        assert (process.returncode, errors) == (1, "warning: every node has ended\n")

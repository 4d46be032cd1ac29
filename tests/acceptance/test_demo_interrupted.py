"""A demo that is stopped in the middle leaves no process behind, and one that is interrupted no files either."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.system.wait_until import LIMIT_S, until


def start(home: Path) -> subprocess.Popen[str]:
    """A demo whose temporary files go to `home`."""
    return subprocess.Popen(
        [sys.executable, "-m", "restante", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(home), "NO_COLOR": "1"},
    )


def actors(home: Path) -> list[int]:
    """The node processes of the demo below `home`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue  # it ended while we looked
        if b"restante.cli.demo.node_process" in words and str(home).encode() in b" ".join(words):
            found.append(int(entry.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at /proc to find processes")
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_no_actor_outlives_the_stage(ending: signal.Signals) -> None:
    with tempfile.TemporaryDirectory() as made:
        home = Path(made)
        process = start(home)
        until(lambda: process.poll() is not None or len(actors(home)) == 8)
        assert process.poll() is None, process.communicate()
        process.send_signal(ending)
        _, errors = process.communicate(timeout=LIMIT_S)
        until(lambda: not actors(home))
        if ending is signal.SIGINT:
            assert process.returncode == 130
            assert errors == ""
            assert list(home.iterdir()) == []

"""The commands of docs/howto/client.md, run one after the other, say what the page says."""

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.docs.console_blocks import matches, shown_commands
from support.relay.node_processes import COMMAND, NodeHome, clean_environ, restante, running_node
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "client.md"


@contextmanager
def running_client(home: Path) -> Iterator[subprocess.Popen[str]]:
    """`restante run`, from its first line on; killed if it still runs after the block."""
    command = [COMMAND, "run", "--home", str(home)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=clean_environ()) as client:
        try:
            assert client.stderr is not None
            assert "The client is running" in client.stderr.readline()
            yield client
        finally:
            client.kill()


@clause("8.7")
def test_every_command_of_the_page_gives_what_the_page_shows(tmp_path: Path) -> None:
    """The directory is copied before the second message. The client is killed while it has a log beside its file, and
    the copy restored as the page says before the third command."""
    home, backup = tmp_path / "me", tmp_path / "backup"
    with running_node(NodeHome.made(tmp_path / "node")) as node:
        for name in ("me", "bob"):
            restante("id", "new", str(tmp_path / name), "--relay", str(node.relay), "--no-passphrase")
            restante("id", "export", "--home", str(tmp_path / name), "-o", str(tmp_path / f"{name}.json"))
        restante("contact", "add", "bob", str(tmp_path / "bob.json"), "--home", str(home))
        examples = shown_commands(PAGE)
        assert len(examples) == 4
        for number, (arguments, expected) in enumerate(examples):
            if number == 1:
                shutil.copytree(home, backup)
                with running_client(home) as client:
                    show(arguments, expected, home)
                    client.kill()
                assert (home / "client.db-wal").stat().st_size
                continue
            if number == 2:
                restore(home, backup)
                restante("inbox", "--home", str(home))
            show(arguments, expected, home)


def show(arguments: str, expected: str, home: Path) -> None:
    done = subprocess.run(
        [COMMAND, *shlex.split(arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        env=clean_environ(RESTANTE_HOME=str(home)),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert matches(expected, done.stdout), done.stdout


def restore(home: Path, backup: Path) -> None:
    home.rename(home.with_name("away"))
    shutil.copytree(backup, home)
    (home / "client.db-counter").unlink()

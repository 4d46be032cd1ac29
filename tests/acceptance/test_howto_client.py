"""The commands of docs/howto/client.md, run one after the other, say what the page says."""

import shlex
import shutil
import subprocess
from pathlib import Path

from support.docs.console_blocks import matches, shown_commands
from support.relay.node_processes import COMMAND, NodeHome, clean_environ, restante, running_node
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "client.md"


@clause("8.7")
def test_every_command_of_the_page_gives_what_the_page_shows(tmp_path: Path) -> None:
    """The directory is copied before the second message, and all but the counter put back before the third command."""
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
            if number == 2:
                (backup / "client.db-counter").unlink()
                shutil.copytree(backup, home, dirs_exist_ok=True)
                restante("inbox", "--home", str(home))
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

"""The commands of docs/howto/outbox.md, run one after the other on one file, say what the page says."""

import os
import stat
import subprocess
import sys
from pathlib import Path

from restante.runtime.system import SystemClock
from support.cli.populated_client_file import fill
from support.docs.console_blocks import matches, shown_commands
from support.spec.clauses import clause

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "outbox.md"


@clause("5.4")
def test_every_command_of_the_page_gives_what_the_page_shows(tmp_path: Path) -> None:
    fill(tmp_path / "mail.db", now_ms=SystemClock().now_ms())
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RESTANTE_")}
    examples = shown_commands(PAGE)
    assert len(examples) == 10
    for arguments, output in examples:
        done = subprocess.run(
            [sys.executable, "-m", "restante", *arguments.split()],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
            env={**environ, "COLUMNS": "80", "NO_COLOR": "1"},
        )
        assert done.stderr == "", arguments
        expected = 3 if arguments.startswith(("outbox stats", "dlq list")) else int("refused" in output)
        assert done.returncode == expected, arguments
        assert matches(output, done.stdout), done.stdout
    assert stat.S_IMODE((tmp_path / "letters.jsonl").stat().st_mode) == 0o600

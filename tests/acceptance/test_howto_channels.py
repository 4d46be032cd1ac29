"""The commands of docs/howto/channels.md, with the configuration and the adapter that stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

from support.docs.console_blocks import matches, shown_commands

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "channels.md"
TOML = re.compile(r"^```toml\n((?:.*\n)*?)```$", re.MULTILINE)
ADAPTER = re.compile(r"^```python\n(from pathlib(?:.*\n)*?)```$", re.MULTILINE)
MOST_LINES = 20
NEWS = "**Disk full** on `db1`\n\n- since noon\n"


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RESTANTE_")}
    paths = os.pathsep.join(filter(None, [str(directory), environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-m", "restante", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=directory,
        env={**environ, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONPATH": paths},
    )


def test_every_command_of_the_page_gives_what_the_page_shows(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    [configuration], [adapter] = TOML.findall(page), ADAPTER.findall(page)
    (tmp_path / "restante.toml").write_text(configuration)
    (tmp_path / "logbook.py").write_text(adapter)
    (tmp_path / "news.md").write_text(NEWS)
    examples = shown_commands(PAGE)
    assert len(examples) == 5
    for arguments, output in examples:
        done = run(tmp_path, *arguments.split())
        assert done.stderr == "", arguments
        assert done.returncode == int("E107" in output), arguments
        assert matches(output, done.stdout), done.stdout
    [line] = (tmp_path / "logbook.txt").read_text().split("\n\n")[:1]
    assert re.fullmatch(r"[0-9a-f]{32} ops: Disk full on db1", line)


def test_the_adapter_of_the_page_has_at_most_twenty_lines() -> None:
    [adapter] = ADAPTER.findall(PAGE.read_text(encoding="utf-8"))
    assert len([line for line in adapter.splitlines() if line.strip()]) <= MOST_LINES

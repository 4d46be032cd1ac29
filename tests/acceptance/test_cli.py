"""The installed command, run as a user runs it."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import restante
from restante.cli.main import EXAMPLES
from support.spec.clauses import clause

COMMAND = str(Path(sys.executable).with_name("restante"))


class Shell:
    """Runs `restante` in an empty directory, with none of the caller's settings."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        ours = ("RESTANTE_", "FORCE_COLOR", "NO_COLOR", "TERMINAL_WIDTH", "GITHUB_ACTIONS", "PY_COLORS")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self.env |= {"COLUMNS": "80", "TERM": "xterm"}

    def run(self, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, *args],
            cwd=self.directory,
            env=self.env | environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def on_a_terminal(self, *args: str, **environ: str) -> str:
        """What a terminal is sent, both streams together."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [COMMAND, *args], cwd=self.directory, env=self.env | environ, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 65_536):
                shown += piece
        except OSError:  # Linux answers EIO once the other side is closed
            pass
        finally:
            os.close(ours)
            process.wait(timeout=60)
        return shown.decode()

    def json(self, *args: str, **environ: str) -> Any:
        result = self.run(*args, **environ)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_the_version_is_that_of_the_package(shell: Shell) -> None:
    assert shell.run("--version").stdout == f"restante {restante.__version__}\n"


def test_the_module_runs_as_the_command_does(shell: Shell) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "restante", "--version"], capture_output=True, text=True, check=True, env=shell.env
    )
    assert result.stdout == shell.run("--version").stdout


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_lists_the_commands_with_examples_and_fits_eighty_columns(shell: Shell, flag: str) -> None:
    result = shell.run(flag)
    assert result.returncode == 0
    for expected in ("policy", "config", "--set", "--config", "--version", "Examples", "restante policy retry --json"):
        assert expected in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_no_example_of_the_help_is_wrapped(shell: Shell) -> None:
    shown = shell.run("--help").stdout
    for line in EXAMPLES.replace("[bold]", "").replace("[/bold]", "").splitlines():
        assert line.strip() in shown


def test_without_a_command_the_help_is_shown(shell: Shell) -> None:
    result = shell.run()
    assert "Usage: restante" in result.stdout
    assert result.returncode == 2


def test_an_unknown_command_is_refused_with_the_nearest(shell: Shell) -> None:
    result = shell.run("polcy")
    assert result.returncode == 2
    assert "Did you mean 'policy'?" in result.stderr
    assert result.stdout == ""


def test_an_unknown_topic_is_refused_with_all_topics(shell: Shell) -> None:
    result = shell.run("policy", "kind")
    assert result.returncode == 2
    for topic in ("kinds", "retry", "errors", "settings"):
        assert topic in result.stderr


def test_policy_prints_all_tables_within_eighty_columns_and_without_colours(shell: Shell) -> None:
    result = shell.run("policy")
    assert result.returncode == 0
    for title in ("Kinds of message", "Wait after each failed attempt", "Delivery codes", "Refusals", "Settings"):
        assert title in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "\x1b" not in result.stdout


def test_a_topic_prints_only_its_own_table(shell: Shell) -> None:
    result = shell.run("policy", "kinds")
    assert "disappearing" in result.stdout
    assert "E001" not in result.stdout


@clause("4.1", "4.2")
def test_the_json_of_the_policy_has_the_fifteen_delays(shell: Shell) -> None:
    data = shell.json("policy", "--json")
    assert list(data) == ["kinds", "retry", "errors", "settings"]
    assert data["retry"]["mesh_relay"]["delays_s"] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] + [3600] * 5
    assert data["retry"]["channel"]["delays_s"] == [5, 25, 120, 600, 600]


def test_the_json_of_a_topic_has_the_same_shape(shell: Shell) -> None:
    assert shell.json("policy", "retry", "--json") == {"retry": shell.json("policy", "--json")["retry"]}


def test_flags_change_what_is_in_force(shell: Shell) -> None:
    data = shell.json("--set", "retry.base_ms=200", "--set", "retry.max_attempts=5", "policy", "retry", "--json")
    assert data["retry"]["mesh_relay"]["delays_s"] == [0.2, 0.4, 0.8, 1.6, 3.2]


def test_config_tells_where_each_setting_came_from(shell: Shell) -> None:
    (shell.directory / "restante.toml").write_text("[retry]\nbase_ms = 200\nmax_attempts = 6\n", "utf-8")
    data = shell.json("--set", "acks.max_ids=9", "config", "--json", RESTANTE_RETRY__MAX_ATTEMPTS="7")
    assert data["file"] == "restante.toml"
    assert data["settings"]["retry.base_ms"] == {"value": 200, "source": "restante.toml"}
    assert data["settings"]["retry.max_attempts"] == {"value": 7, "source": "RESTANTE_RETRY__MAX_ATTEMPTS"}
    assert data["settings"]["acks.max_ids"] == {"value": 9, "source": "--set acks.max_ids"}
    assert data["settings"]["retry.jitter"] == {"value": 0.2, "source": "default"}


def test_the_file_asked_for_is_read_instead_of_the_usual_one(shell: Shell) -> None:
    (shell.directory / "restante.toml").write_text("[retry]\nbase_ms = 200\n", "utf-8")
    (shell.directory / "mine.toml").write_text("[retry]\nbase_ms = 300\n", "utf-8")
    (shell.directory / "yours.toml").write_text("[retry]\nbase_ms = 400\n", "utf-8")
    assert shell.json("config", "--json")["settings"]["retry.base_ms"]["value"] == 200
    by_variable = shell.json("config", "--json", RESTANTE_CONFIG="yours.toml")
    assert by_variable["settings"]["retry.base_ms"]["value"] == 400
    by_flag = shell.json("--config", "mine.toml", "config", "--json", RESTANTE_CONFIG="yours.toml")
    assert by_flag["settings"]["retry.base_ms"]["value"] == 300


def test_config_prints_a_table_with_values_and_sources(shell: Shell) -> None:
    result = shell.run("--set", "retry.base_ms=200", "config")
    rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "retry.base_ms 200 ms --set retry.base_ms" in rows
    assert "dedup.window_ms 30 d default" in rows
    assert max(map(len, result.stdout.splitlines())) <= 80


@clause("4.1")
def test_a_value_outside_its_range_is_refused_with_the_range_and_its_source(shell: Shell) -> None:
    result = shell.run("policy", RESTANTE_RETRY__BASE_MS="50")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.splitlines()[:2] == [
        "error E102: retry.base_ms = 50 is outside 100..10000 ms",
        "  set by RESTANTE_RETRY__BASE_MS",
    ]


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("retry.base_ms", "has no '='"),
        ("retry.base=200", "Did you mean retry.base_ms? Section retry has base_ms, max_delay_ms, jitter, max_attempts"),
        ("retri.base_ms=200", "Did you mean retry?"),
        ("retry.base_ms=fast", "retry.base_ms must be an integer of ms, not 'fast' (--set retry.base_ms)"),
    ],
)
def test_a_bad_assignment_is_refused_with_what_is_right(shell: Shell, assignment: str, expected: str) -> None:
    result = shell.run("--set", assignment, "config")
    assert result.returncode == 2
    assert result.stderr.startswith("error E107: ")
    assert expected in result.stderr
    assert "hint: " in result.stderr
    assert "Traceback" not in result.stderr


def test_a_broken_file_is_refused_with_its_name_and_line(shell: Shell) -> None:
    (shell.directory / "bad.toml").write_text("[retry]\nbase_ms = = 3\n", "utf-8")
    result = shell.run("--config", "bad.toml", "policy")
    assert result.returncode == 2
    assert result.stderr.startswith("error E107: bad.toml is not valid TOML")
    assert "line 2" in result.stderr


def test_a_missing_file_is_refused(shell: Shell) -> None:
    result = shell.run("--config", "absent.toml", "policy")
    assert result.returncode == 2
    assert result.stderr.startswith("error E107: cannot read absent.toml: No such file")


def test_help_works_beside_a_broken_file(shell: Shell) -> None:
    (shell.directory / "restante.toml").write_text("= broken", "utf-8")
    assert shell.run("policy", "--help").returncode == 0


def test_colours_are_for_terminals_that_want_them(shell: Shell) -> None:
    red = "\x1b[1;31m"
    assert red in shell.on_a_terminal("--set", "x=1", "policy")
    assert "31m" not in shell.on_a_terminal("--set", "x=1", "policy", NO_COLOR="1")
    assert "\x1b" not in shell.run("--set", "x=1", "policy").stderr


def test_a_reader_that_leaves_early_sees_no_traceback(shell: Shell) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        result = subprocess.run(
            [COMMAND, "policy"], stdout=closed, stderr=subprocess.PIPE, env=shell.env, text=True, check=False
        )
    assert "Traceback" not in result.stderr

"""What a command prints where its output cannot be written, cannot show a character, or is read by a program."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = str(Path(sys.executable).with_name("restante"))


def started(*args: str, stdout: int = subprocess.PIPE, **environ: str) -> subprocess.Popen[str]:
    ours = ("RESTANTE_", "FORCE_COLOR", "PYTHONIOENCODING", "PYTHONUTF8", "LC_ALL", "LANG")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.Popen(
        [COMMAND, *args],
        env=env | {"COLUMNS": "80", "NO_COLOR": "1"} | environ,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("arguments", [("policy",), ("policy", "--json"), ("config", "--reference"), ("--help",)])
def test_a_full_disk_under_the_output_is_one_error_line_and_status_1(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        process = started(*arguments, stdout=full.fileno())
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the output could not be written: No space left on device" in errors.splitlines()[0]
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors


@pytest.mark.parametrize("arguments", [("policy",), ("policy", "nonsense"), ("id", "new", "here", "--relay", "x")])
def test_a_closed_output_is_no_success_and_no_traceback(arguments: tuple[str, ...], tmp_path: Path) -> None:
    shell = f'"{COMMAND}" "$@" >&-'
    done = subprocess.run(
        ["/bin/sh", "-c", shell, "sh", *arguments],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == (1 if arguments == ("policy",) else 2)
    assert "Traceback" not in done.stderr


def test_an_interrupt_while_the_command_is_imported_is_no_traceback() -> None:
    program = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path, target=None):
        if name == "restante.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from restante.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_reader_that_closes_the_pipe_gets_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = started("policy", stdout=writing)
    os.close(writing)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (1, "")


def test_ascii_output_shows_substitutes_instead_of_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "news.md").write_text("café → bar …", "utf-8")
    process = started("channel", "render", str(tmp_path / "news.md"), "--platform", "irc", PYTHONIOENCODING="ascii")
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert "caf? -> bar ..." in output


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (("outbox", "list", "--file", "absent.db", "--json"), 1, "E109"),
        (("outbox", "list", "--json"), 2, "E107"),
        (("outbox", "show", "xyz", "--file", "absent.db", "--json"), 2, "E101"),
        (("outbox", "list", "--limit", "none", "--json"), 2, "E107"),
        (("outbox", "lits", "--json"), 2, "E107"),
    ],
)
def test_with_json_every_error_is_json_too(arguments: tuple[str, ...], status: int, code: str) -> None:
    process = started(*arguments)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (status, "")
    error = json.loads(errors)["error"]
    assert error["code"] == code
    assert error["text"]
    assert error["hint"].endswith(".")


def test_ctrl_c_while_spark_works_logs_no_traceback_and_other_log_lines_stay() -> None:
    code = (
        "import logging; from restante.cli.fleet.spark_jobs import require_spark\n"
        "with require_spark():\n"
        "    logging.warning('worth knowing')\n"
        "    try:\n"
        "        raise KeyboardInterrupt\n"
        "    except KeyboardInterrupt:\n"
        "        logging.exception('as py4j does')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == "worth knowing\n"

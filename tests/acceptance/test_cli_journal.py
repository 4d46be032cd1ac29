"""`restante journal` as an operator runs it, on a client's file and on a node's."""

import random
import signal
import subprocess
from pathlib import Path

import pytest

from restante.crypto.identity import Identity
from restante.model.journal import JournalKind
from restante.wire.segment_manifest import decode_manifest
from support.cli.outbox_commands import COMMAND, Operator
from support.fleet.journal_files import shipped_numbers
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, NodeFile, open_client_file, open_node_file
from support.system.wait_until import LIMIT_S


def note(file: NodeFile, count: int) -> None:
    with file.database.transaction():
        for _ in range(count):
            file.journal.append(JournalKind.SECURITY, at_ms=NOW_MS, code="E101")


@clause("13.1")
def test_a_nodes_facts_leave_once_and_the_next_time_only_what_is_new(tmp_path: Path) -> None:
    operator = Operator(tmp_path)
    node = open_node_file(operator.path)
    note(node, 3)
    assert "1 segment written to out; shipped through event 3" in operator.run("journal ship --to out").stdout
    told, key, _ = operator.run("journal status").stdout.split("\n")
    assert told == "a node's journal: 3 events, 0 of them unshipped"
    [manifest] = (tmp_path / "out").glob("_*.json")
    assert key == f"its segments are signed by the key {decode_manifest(manifest.read_bytes()).key}"
    assert operator.json("journal ship --to out")["segments"] == []
    note(node, 1)
    again = operator.json("journal ship --to out")
    assert (again["kind"], again["writer"], again["shipped_through"]) == ("node", node.journal.writer.hex(), 4)
    assert shipped_numbers(tmp_path / "out") == [1, 2, 3, 4]
    node.database.close()


def test_a_clients_file_is_recognised(tmp_path: Path) -> None:
    operator = Operator(tmp_path)
    open_client_file(operator.path, owner=Identity(b"o" * 32)).database.close()
    assert operator.json("journal status")["kind"] == "client"


@pytest.mark.parametrize("content", [b"", b"no database at all" * 100])
def test_a_file_that_is_no_journal_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    operator = Operator(tmp_path)
    operator.path.write_bytes(content)
    refused = operator.run("journal ship --to out", status=1)
    assert "error E106: mail.db is not the file of a client or node" in refused.stderr
    assert operator.files() == {"mail.db": content}


def test_bad_paths_are_named(tmp_path: Path) -> None:
    operator = Operator(tmp_path)
    assert "there is no file mail.db" in operator.run("journal ship --to out", status=1).stderr
    node = open_node_file(operator.path)
    note(node, 1)
    node.database.close()
    (tmp_path / "out").touch()
    assert "a journal segment cannot be written" in operator.run("journal ship --to out", status=1).stderr
    assert "1 of them unshipped" in operator.run("journal status").stdout


@clause("13.1")
def test_killed_at_any_moment_no_fact_is_lost(tmp_path: Path) -> None:
    operator = Operator(tmp_path)
    node = open_node_file(operator.path)
    dice = random.Random(20_260_106)  # noqa: S311 - where the kill falls, not a secret
    total = killed = 0
    longest_s = 1.0
    while killed < 4:
        note(node, 10_000)
        total += 10_000
        process = subprocess.Popen([COMMAND, "journal", "ship", "--to", "out"], cwd=tmp_path, env=operator.env)
        try:
            process.wait(dice.uniform(longest_s / 4, longest_s))
        except subprocess.TimeoutExpired:
            process.kill()
        if process.wait(LIMIT_S) == -signal.SIGKILL:
            killed += 1
        else:
            longest_s *= 0.7  # it was done before
    operator.run("journal ship --to out")
    assert set(shipped_numbers(tmp_path / "out")) == set(range(1, total + 1))
    node.database.close()

"""`restante run` keeps a client connected; `send` and `inbox` use it; what fails is said with an exit status."""

import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from restante.model.ids import NodeKey
from support.relay.node_processes import (
    COMMAND,
    Done,
    NodeHome,
    NodeProcess,
    clean_environ,
    free_port,
    restante,
    running_node,
    spawned,
)
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S, until


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with running_node(NodeHome.made(tmp_path_factory.mktemp("relay") / "node")) as node:
        yield node


@pytest.fixture
def pair(node: NodeProcess, tmp_path: Path) -> Path:
    introduced(tmp_path, str(node.relay))
    return tmp_path


def introduced(home: Path, relay: str) -> None:
    for name in ("alice", "bob"):
        restante("id", "new", str(home / name), "--relay", relay, "--no-passphrase")
        restante("id", "export", "--home", str(home / name), "-o", str(home / f"{name}.json"))
    for name, other in (("alice", "bob"), ("bob", "alice")):
        restante("contact", "add", other, str(home / f"{other}.json"), "--home", str(home / name))


def by(home: Path, name: str, *args: str, status: int = 0) -> Done:
    return restante(*args, status=status, RESTANTE_HOME=str(home / name))


@contextlib.contextmanager
def kept_connected(home: Path, name: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [COMMAND, "run"],
        env=clean_environ(RESTANTE_HOME=str(home / name)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: (home / name / "run.lock").exists() and (home / name / "run.lock").read_text())
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT_S)


@clause("1.1", "10.4")
def test_a_message_waited_for_is_delivered_to_a_client_that_is_kept_connected(pair: Path) -> None:
    with kept_connected(pair, "bob") as bob, kept_connected(pair, "alice"):
        sent = json.loads(by(pair, "alice", "send", "bob", "hello", "--wait", "--json").stdout)
        assert (sent["state"], sent["is_delivered"]) == ("delivered", True)
        assert by(pair, "bob", "inbox", "--idle-timeout-ms", "100").stdout.endswith("  alice  hello\n")
        again = spawned("run", "--home", str(pair / "bob"), status=1)
        assert "is in use by another process" in again.stderr
    assert bob.returncode == 0
    assert by(pair, "bob", "history", "alice").stdout.endswith("  alice  hello\n")
    assert by(pair, "bob", "inbox", "--all").stdout.endswith("  alice  hello\n")


def test_a_message_nobody_fetches_is_not_delivered_and_the_status_says_so(pair: Path) -> None:
    sent = by(pair, "alice", "send", "bob", "hello", "--wait", "--timeout-s", "0.5", status=1)
    stored, why = sent.stdout.splitlines()
    assert stored.endswith(" is stored for the recipient")
    assert why == "The recipient did not fetch it within 0.5 s; nothing more has to be done."


def test_without_a_relay_send_says_when_the_message_leaves_and_inbox_fails(tmp_path: Path, node: NodeProcess) -> None:
    introduced(tmp_path, str(replace(node.relay, port=free_port())))
    sent = by(tmp_path, "alice", "send", "bob", "hello", "--timeout-s", "0.5")
    assert sent.stdout.endswith("not sent yet; it leaves with the next 'restante run', 'send' or 'inbox'\n")
    refused = by(tmp_path, "alice", "inbox", "--idle-timeout-ms", "100", status=1)
    assert refused.stderr.startswith("error E001: the relay could not be reached")
    as_json = by(tmp_path, "alice", "inbox", "--idle-timeout-ms", "100", "--json", status=1)
    assert json.loads(as_json.stderr)["error"]["code"] == "E001"


def test_another_node_at_the_relays_place_is_an_error_and_a_security_event(tmp_path: Path, node: NodeProcess) -> None:
    introduced(tmp_path, str(replace(node.relay, node_key=NodeKey(bytes(31) + b"\x09"))))
    refused = by(tmp_path, "alice", "send", "bob", "hello", "--timeout-s", "1", status=1)
    assert refused.stderr.startswith("error E103: another node answers at the relay's place")
    refused = by(tmp_path, "alice", "inbox", "--idle-timeout-ms", "100", status=1)
    assert refused.stderr.startswith("error E103: another node answers at the relay's place")
    events = json.loads(by(tmp_path, "alice", "security", "--json").stdout)
    assert {event["code"] for event in events} == {"wrong_node_key"}

"""`restante run` keeps a client connected; `send` and `inbox` use it; what fails is said with an exit status."""

import asyncio
import contextlib
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from restante.client.client import Client
from restante.model.errors import OutboxFull
from restante.model.ids import NodeKey
from restante.model.states import Route
from restante.policy.capacity import OutboxLimits
from restante.policy.settings import Settings
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
    assert sent.stdout.endswith(
        "not sent yet (E001 network unreachable); it leaves with the next 'restante run', 'send' or 'inbox'\n"
    )
    behind = json.loads(by(tmp_path, "alice", "send", "bob", "hello", "--timeout-s", "0", "--json").stdout)
    assert (behind["state"], behind["last_error"], behind["dropped"]) == ("pending", "E001", None)
    typing = json.loads(by(tmp_path, "alice", "send", "bob", "x", "--kind", "typing", "--json", status=1).stdout)
    assert (typing["state"], typing["dropped"]) == ("dropped", "RealTimeDuringDisconnect")
    refused = by(tmp_path, "alice", "inbox", "--idle-timeout-ms", "100", status=1)
    assert refused.stderr.startswith("error E001: none of your places could be reached")
    as_json = by(tmp_path, "alice", "inbox", "--idle-timeout-ms", "100", "--json", status=1)
    assert json.loads(as_json.stderr)["error"]["code"] == "E001"


def test_inbox_beside_a_run_that_reaches_nobody_says_where_and_since_when(tmp_path: Path, node: NodeProcess) -> None:
    relay = replace(node.relay, port=free_port())
    introduced(tmp_path, str(relay))
    with kept_connected(tmp_path, "alice"):
        refused = by(tmp_path, "alice", "inbox", "--idle-timeout-ms", "100", status=1)
        as_json = by(tmp_path, "alice", "inbox", "--idle-timeout-ms", "100", "--json", status=1)
        requests = by(tmp_path, "alice", "requests", status=1)
    error, hint = refused.stderr.splitlines()
    assert re.fullmatch(
        "error E001: the running client can't read your inboxes: "
        rf"127\.0\.0\.1:{relay.port} since 20\d\d-.* UTC \(the node does not answer\)",
        error,
    )
    assert hint == "  hint: It keeps trying. Check the network, and 'restante places show'."
    assert refused.stdout == requests.stdout == ""
    assert json.loads(as_json.stderr)["error"]["code"] == "E001"
    assert requests.stderr.startswith("error E001: the running client can't read your inboxes: ")


def test_inbox_beside_a_run_shows_what_arrived_before_the_relay_was_lost(tmp_path: Path) -> None:
    home = NodeHome.made(tmp_path / "node")
    introduced(tmp_path, str(home.relay))
    with kept_connected(tmp_path, "alice"):
        with running_node(home):
            sent = by(tmp_path, "bob", "send", "alice", "hello", "--wait")
            assert sent.stdout.endswith(" was received\n")
        refused = by(tmp_path, "alice", "inbox", "--idle-timeout-ms", "100", status=1)
        assert refused.stdout.endswith("  bob  hello\n")
        assert refused.stderr.startswith("error E001: the running client can't read your inboxes: ")


@clause("3.5")
def test_what_a_killed_run_was_sending_leaves_at_once_when_it_is_started_again(pair: Path) -> None:
    """A process that was killed leaves its note in the lock, and its lease in the file."""

    async def lease_and_die() -> None:
        alice = Client.open(pair / "alice")
        await alice.send("bob", "hello")
        store, owner, now_ms = alice.outbox.store, alice.outbox.lease_owner, alice.now_ms()
        await alice.file.run(lambda: store.lease(owner=owner, routes=tuple(Route), limit=1, now_ms=now_ms))
        (pair / "alice" / "run.lock").write_text(json.dumps({"lease_owner": owner}))
        await alice.close()

    asyncio.run(lease_and_die())
    assert "sending" in by(pair, "alice", "outbox", "list").stdout
    began_s = time.monotonic()
    with kept_connected(pair, "alice"):
        until(lambda: " sent " in by(pair, "alice", "outbox", "list").stdout)
    assert time.monotonic() - began_s < OutboxLimits().lease_ms / 1_000 / 2


def test_another_node_at_the_relays_place_is_an_error_and_a_security_event(tmp_path: Path, node: NodeProcess) -> None:
    introduced(tmp_path, str(replace(node.relay, node_key=NodeKey(bytes(31) + b"\x09"))))
    refused = by(tmp_path, "alice", "send", "bob", "hello", "--timeout-s", "1", status=1)
    assert refused.stderr.startswith("error E103: another node answers at the relay's place")
    behind = by(tmp_path, "alice", "send", "bob", "hello", "--timeout-s", "0", status=1)
    assert behind.stderr.startswith("error E103: another node answers at the relay's place"), "its lane waits for it"
    assert re.search(r"\(E103 authentication failed\); .*, not before 20\d\d-.* UTC\n$", behind.stdout)
    refused = by(tmp_path, "alice", "inbox", "--idle-timeout-ms", "100", status=1)
    assert refused.stderr.startswith("error E103: another node answers at the relay's place")
    events = json.loads(by(tmp_path, "alice", "security", "--json").stdout)
    assert {event["code"] for event in events} == {"wrong_node_key"}


@pytest.mark.parametrize("command", ["run", "inbox --follow", "inbox --follow beside a run"])
def test_what_stays_connected_says_why_nothing_can_be_received_and_when_it_can_be_again(
    tmp_path: Path, command: str
) -> None:
    home = NodeHome.made(tmp_path / "node")
    introduced(tmp_path, str(home.relay))
    args, beside, _ = command.partition(" beside")
    with contextlib.ExitStack() as stack:
        if beside:
            stack.enter_context(kept_connected(tmp_path, "alice"))
        process = subprocess.Popen(
            [COMMAND, *args.split()],
            env=clean_environ(RESTANTE_HOME=str(tmp_path / "alice")),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        try:
            lines = (line for line in process.stderr if line.startswith("warning: "))
            first = next(lines)
            if beside:
                assert first.startswith("warning: the running client can't read your inboxes: ")
                assert first.endswith(" UTC (the node does not answer); it keeps trying\n")
            else:
                assert first == "warning: no messages can be received: the node does not answer (E001); trying again\n"
            with running_node(home):
                # The two inboxes are reached one after the other.
                later = (line for line in lines if "can't read all of your inboxes" not in line)
                assert next(later) == "warning: messages are received again\n"
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=LIMIT_S)


@clause("3.6")
def test_send_makes_space_in_a_full_outbox_by_sending_what_is_there(pair: Path) -> None:
    settings = Settings(outbox=OutboxLimits(max_entries=100))

    async def fill() -> int:
        alice = Client.open(pair / "alice", settings=settings)
        with pytest.raises(OutboxFull) as full:
            await alice.send_many("bob", map(str, range(100)), wait=False)
        await alice.close()
        return full.value.accepted

    assert asyncio.run(fill()) == 80
    with kept_connected(pair, "bob"):
        sent = by(pair, "alice", "--set", "outbox.max_entries=100", "send", "bob", "more", "--timeout-s", "60")
    assert sent.stdout.endswith(" is stored for the recipient\n")


def test_an_interrupted_send_says_that_the_message_stays_in_the_outbox(pair: Path) -> None:
    process = subprocess.Popen(
        [COMMAND, "send", "bob", "hello", "--wait"],
        env=clean_environ(RESTANTE_HOME=str(pair / "alice")),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: "sent" in by(pair, "alice", "outbox", "list").stdout)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out) == (130, "")
    assert err.endswith(" is in the outbox and is sent\n")

"""A node's life as its operator sees it: made, run, asked, cleared out, stopped."""

import contextlib
import json
import os
import pty
import re
import resource
import signal
import sqlite3
import stat
import subprocess
from pathlib import Path

import apsw
import pytest

from support.relay.node_processes import COMMAND, NodeHome, clean_environ, free_port, restante, running_node, spawned
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S, looks


@pytest.fixture
def home(tmp_path: Path) -> NodeHome:
    return NodeHome.made(tmp_path / "node")


def put(home: NodeHome, count: int) -> None:
    restante("relay", "put", "--identity", str(home.key), "--count", str(count), RESTANTE_RELAY=str(home.relay))


def expire_all(home: NodeHome) -> None:
    """Nobody waits an hour here: let the blobs have been stored for a shorter time."""
    connection = apsw.Connection(str(home.database))
    connection.set_busy_timeout(5_000)
    connection.execute("UPDATE blob SET expires_at_ms = 1")
    connection.execute("UPDATE blob_index SET expires_at_ms = 1")
    connection.close()


def test_init_makes_a_private_directory_and_says_what_comes_next(tmp_path: Path) -> None:
    done = spawned("node", "init", "node", cwd=tmp_path)
    assert re.search(r"^[0-9a-f]{64}@127\.0\.0\.1:7431$", done.stdout, re.MULTILINE)
    assert "Next: restante node run node" in done.stdout
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "node").iterdir()}
    assert modes == {"key": 0o600, "node.toml": 0o600}
    assert stat.S_IMODE((tmp_path / "node").stat().st_mode) == 0o700


def test_init_overwrites_nothing(home: NodeHome) -> None:
    before = home.key.read_bytes(), home.config.read_bytes()
    refused = restante("node", "init", str(home.path), status=1)
    assert refused.stderr.startswith("error E106:")
    assert "is not empty" in refused.stderr
    assert "hint: Name a new directory" in refused.stderr
    assert (home.key.read_bytes(), home.config.read_bytes()) == before


def test_a_fresh_configuration_runs_as_it_is_and_names_every_setting_of_a_node(home: NodeHome) -> None:
    text = home.config.read_text("utf-8")
    assert "# put_rate_per_s = 0\n" in text
    assert "# the time between two removals of expired blobs: 1 s .. 1 d\n" in text
    home.config.write_text(re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE), "utf-8")
    with running_node(home) as node:
        assert node.health() == 200
        assert node.terminate() == 0


@clause("6.9")
def test_a_node_runs_is_asked_and_stops(home: NodeHome) -> None:
    with running_node(home) as node:
        put(home, 3)
        told = json.loads(restante("node", "status", str(home.path), "--json").stdout)
        assert told["running"] is True
        assert told["relay_address"] == str(home.relay)
        assert told["health"] == {
            "usable": True,
            "reason": None,
            "code": None,
            "reaping": "working",
            "damaged_blobs": 0,
        }
        assert (told["store"]["blobs"], told["store"]["mailboxes"]) == (3, 1)
        assert told["relay"]["puts_stored_total"] == 3
        shown = restante("node", "status", str(home.path)).stdout
        assert "running" in shown
        assert "3 messages" in shown
        assert max(len(line) for line in shown.splitlines() if "@" not in line) <= 80
        assert node.get("/healthz")[0] == 200
        metrics = node.get("/metrics")[1].decode()
        assert "\nrestante_relay_puts_stored_total 3.0\n" in metrics
        assert 'restante_relay_refusals_total{code="E007"} 0.0' in metrics
        assert node.terminate() == 0
        assert node.events() == ["node.listening", "store.reaped", "node.stopping", "node.stopped"]
    stopped = restante("node", "status", str(home.path), status=1).stdout
    assert "not running" in stopped
    assert "3 messages" in stopped


def test_ctrl_c_stops_a_node_as_sigterm_does_and_sighup_does_nothing(home: NodeHome) -> None:
    with running_node(home) as node:
        node.process.send_signal(signal.SIGHUP)
        assert node.health() == 200
        node.process.send_signal(signal.SIGINT)
        assert node.ended() == 0
        assert node.events()[-1] == "node.stopped"


@pytest.mark.parametrize("again", [signal.SIGINT, signal.SIGTERM])
def test_a_node_told_to_stop_again_and_again_still_ends_cleanly(home: NodeHome, again: signal.Signals) -> None:
    with running_node(home) as node:
        while node.process.poll() is None:
            node.process.send_signal(again)
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.process.wait(0.005)
        assert node.ended() == 0
        assert node.events()[-1] == "node.stopped"


@clause("6.1")
def test_gc_beside_a_running_node_lets_the_node_do_it(home: NodeHome) -> None:
    with running_node(home) as node:
        put(home, 5)
        assert "deleted 0 expired" in restante("node", "gc", str(home.path)).stdout
        expire_all(home)
        assert json.loads(restante("node", "gc", str(home.path), "--json").stdout) == {
            "reaped": 5,
            "by_running_node": True,
        }
        assert node.stats()["blobs_reaped_total"] == 5
    assert json.loads(restante("node", "status", str(home.path), "--json", status=1).stdout)["store"]["blobs"] == 0


@clause("6.10")
def test_a_node_whose_clock_jumped_reaps_nothing_for_a_day_says_so_and_gc_reaps_at_once(home: NodeHome) -> None:
    with running_node(home):
        put(home, 3)
    expire_all(home)
    with contextlib.closing(sqlite3.connect(home.database)) as database, database:
        database.execute("UPDATE journal SET at_ms = at_ms - 2 * 86400000")
    for _ in range(2):  # a restart does not end the delay
        with running_node(home) as node:
            assert json.loads(node.get("/healthz")[1])["reaping"].startswith("delayed")
            assert any("store.reap_delayed" in node.events() for _ in looks())
            assert node.stats()["blobs_reaped_total"] == 0
    with running_node(home):
        assert "deleted 3 expired" in restante("node", "gc", str(home.path)).stdout


@clause("6.1")
def test_gc_of_a_stopped_node_does_it_itself_and_journals_it(home: NodeHome) -> None:
    assert restante("node", "gc", str(home.path)).stdout == "Deleted 0 expired messages.\n"  # it has never run
    with running_node(home):
        put(home, 2)
    expire_all(home)
    assert restante("node", "gc", str(home.path)).stdout == "Deleted 2 expired messages.\n"
    store = json.loads(restante("node", "status", str(home.path), "--json", status=1).stdout)["store"]
    assert (store["blobs"], store["events"]) == (0, 5)  # started, stored and reaped twice each


@clause("6.1")
def test_a_node_reaps_when_it_starts_and_then_as_often_as_it_is_told(home: NodeHome) -> None:
    with running_node(home):
        put(home, 2)
    expire_all(home)
    with running_node(home, "--set", "relay.reap_interval_ms=1000") as node:
        while node.events().count("store.reaped") < 2:
            assert node.health() == 200
        reaped = [line["blobs"] for line in node.logged() if line["event"] == "store.reaped"]
        assert reaped[:2] == [2, 0]


def test_a_second_process_in_the_same_directory_is_refused_and_the_first_goes_on(home: NodeHome) -> None:
    with running_node(home) as node:
        refused = spawned("node", "run", str(home.path), status=1)
        assert refused.stderr.startswith("error E106:")
        assert "in use by another process" in refused.stderr
        put(home, 1)
        assert node.terminate() == 0
    with running_node(home) as again:
        assert again.health() == 200


def test_a_node_killed_outright_leaves_no_lock(home: NodeHome) -> None:
    with running_node(home) as node:
        node.kill()
    assert "not running" in restante("node", "status", str(home.path), status=1).stdout
    with running_node(home) as again:
        assert again.health() == 200


def test_a_place_that_is_taken_is_named(home: NodeHome, tmp_path: Path) -> None:
    with running_node(home) as node:
        other = NodeHome.made(tmp_path / "other")
        listen = f"{home.relay.host}:{home.relay.port}"
        other.set("node", listen=listen)
        refused = spawned("node", "run", str(other.path), status=1)
        assert f"error E110: node.listen = {listen} cannot be listened at: Address" in refused.stderr
        assert "hint: Stop the process that" in refused.stderr
        assert "install" not in refused.stderr, "nothing is missing: the port is taken"
        other.set("node", listen=f"127.0.0.1:{free_port()}", status=str(node.status))
        refused = spawned("node", "run", str(other.path), status=1)
        assert f"error E110: node.status = {node.status} cannot be listened at: Address" in refused.stderr


def test_a_bad_configuration_is_refused_with_key_and_range_before_any_file_is_made(home: NodeHome) -> None:
    home.set("relay", idle_timeout_ms=5)
    refused = spawned("node", "run", str(home.path), status=2)
    assert refused.stderr.startswith("error E102: relay.idle_timeout_ms = 5 is outside 50..3600000 ms\n  set by ")
    assert str(home.config) in refused.stderr
    assert not home.database.exists()


def test_more_connections_than_the_system_allows_are_refused(home: NodeHome) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if not 0 < hard < 100_000:
        pytest.skip("this system lets a process have as many open files as a node may ask for")
    refused = spawned("--set", f"relay.max_connections={hard}", "node", "run", str(home.path), status=2)
    assert (
        f"relay.max_connections = {hard} needs {hard + 128} open files, this process may have {hard}" in refused.stderr
    )


def test_another_file_of_settings_is_not_for_a_node(home: NodeHome) -> None:
    refused = restante("--config", "x.toml", "node", "status", str(home.path), status=2)
    assert "a node reads only DIR/node.toml" in refused.stderr


@pytest.mark.parametrize("command", ["run", "status", "gc"])
def test_what_is_no_nodes_directory_is_told_and_left_alone(tmp_path: Path, command: str) -> None:
    refused = restante("node", command, str(tmp_path), status=1)
    assert refused.stderr.startswith("error E109:")
    assert "restante node init" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_key_that_others_may_read_is_not_used(home: NodeHome) -> None:
    home.key.chmod(0o644)
    assert "key is accessible to other users" in spawned("node", "run", str(home.path), status=1).stderr


def test_a_terminal_gets_a_log_that_people_can_read(home: NodeHome) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, "node", "run", str(home.path)], env=clean_environ(), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # Linux answers EIO once the other side is closed
        while piece := os.read(ours, 65_536):
            seen += piece
            if b"store.reaped" in seen:
                process.send_signal(signal.SIGINT)  # more than once, as an impatient hand does
    os.close(ours)
    assert process.wait(LIMIT_S) == 0
    assert re.search(rb"^\S+Z info    node\.listening pid=\d+\r$", seen, re.MULTILINE), seen
    assert b"node.stopped clean=True" in seen


@pytest.mark.parametrize("words", [["node"], ["relay"], ["node", "init"], ["node", "run"], ["relay", "put"]])
def test_help_fits_eighty_columns_and_teaches(words: list[str]) -> None:
    shown = restante(*words, "--help").stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "Usage: restante" in shown
    assert len(words) > 1 or f"restante {words[0]} " in shown.partition("Examples")[2]

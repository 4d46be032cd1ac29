"""`restante relay` against a running node: what an operator tries when something is wrong."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from restante.core.inboxes.relay_inbox import relay_inbox_key
from restante.crypto.identity import Identity
from restante.model.ids import InboxKey, NodeKey
from restante.runtime.identity_files import create_identity
from restante.runtime.system import SystemClock, SystemEntropy
from restante.wire.address import show_address
from restante.wire.envelope import Envelope, encode_envelope
from support.relay.node_processes import NodeHome, NodeProcess, free_port, restante, running_node
from support.spec.clauses import clause

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    home = NodeHome.made(tmp_path_factory.mktemp("relay") / "node")
    with running_node(home) as node:
        yield node


@pytest.fixture
def reader(tmp_path: Path) -> Identity:
    return create_identity(tmp_path / "reader.key", SystemEntropy())


@pytest.fixture
def key(tmp_path: Path, reader: Identity) -> str:
    assert reader.address
    return str(tmp_path / "reader.key")


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def flushed(node: NodeProcess, key: str, *more: str, count: int | None = None) -> list[dict[str, object]]:
    """The first `count`, however long they take to come; without it, all that come before it is quiet for a while."""
    patient = ["--limit", str(count), "--idle-timeout-ms", "60000"] if count is not None else []
    done = restante("relay", "flush", "--identity", key, "--relay", str(node.relay), *patient, *more, "--json")
    messages: list[dict[str, object]] = json.loads(done.stdout)["messages"]
    return messages


@clause("6.1")
def test_what_was_put_is_listed_in_order_and_stays_until_it_is_deleted(node: NodeProcess, key: str) -> None:
    put = restante("relay", "put", "--identity", key, "--count", "20", "--json", RESTANTE_RELAY=str(node.relay))
    stored = [one["payload_hash"] for one in json.loads(put.stdout)["stored"]]
    assert len(set(stored)) == 20
    assert [one["payload_hash"] for one in flushed(node, key, count=20)] == stored
    assert [one["payload_hash"] for one in flushed(node, key, count=3)] == stored[:3]
    assert [one["payload_hash"] for one in flushed(node, key, "--delete", count=20)] == stored
    assert flushed(node, key) == []


@clause("6.3")
def test_a_damaged_blob_is_not_served_and_shows_in_health_metrics_and_journal(tmp_path: Path) -> None:
    create_identity(tmp_path / "reader.key", SystemEntropy())
    key = str(tmp_path / "reader.key")
    home = NodeHome.made(tmp_path / "node")
    with running_node(home) as node:
        restante("relay", "put", "--identity", key, "--count", "3", RESTANTE_RELAY=str(node.relay))
        assert json.loads(node.get("/status")[1])["health"]["damaged_blobs"] == 0
        disk = apsw.Connection(str(home.database))
        second = "(SELECT id FROM blob ORDER BY id LIMIT 1 OFFSET 1)"
        disk.execute(f"UPDATE blob SET envelope = zeroblob(length(envelope)) WHERE id = {second}")  # noqa: S608 - of this test
        assert len(flushed(node, key)) == 2
        assert node.health() == 200
        assert json.loads(node.get("/status")[1])["health"]["damaged_blobs"] == 1
        assert b"restante_relay_blobs_damaged_total 1.0" in node.get("/metrics")[1]
        [(journaled,)] = disk.execute("SELECT count(*) FROM journal WHERE kind = 'damaged'")
        disk.close()
    assert journaled == 1


def test_a_flush_that_stops_at_its_limit_says_so(node: NodeProcess, key: str) -> None:
    restante("relay", "put", "--identity", key, "--count", "4", RESTANTE_RELAY=str(node.relay))
    flush = ("relay", "flush", "--identity", key, "--relay", str(node.relay), "--idle-timeout-ms", "60000", "--limit")
    stopped = restante(*flush, "3")
    assert "stopped after 3 messages, there may be more: raise --limit" in stopped.stderr
    assert json.loads(restante(*flush, "3", "--json").stdout)["limit_reached"] is True
    whole = restante("relay", "flush", "--identity", key, "--relay", str(node.relay), "--limit", "5", "--json")
    assert json.loads(whole.stdout)["limit_reached"] is False
    assert "stopped after" not in whole.stderr


def test_the_tables_are_for_people(node: NodeProcess, key: str, reader: Identity) -> None:
    to = show_address(reader.address)
    shown = restante("relay", "put", "--address", to, "--size", "100", RESTANTE_RELAY=str(node.relay)).stdout
    assert "1 on the relay's disk, " in shown
    one = ("relay", "flush", "--identity", key, "--limit", "1", "--idle-timeout-ms", "60000")
    shown = restante(*one, RESTANTE_RELAY=str(node.relay)).stdout
    assert shown.startswith("Stored: 1\n")
    assert max(map(len, shown.splitlines())) <= 80
    shown = restante(*one, "--delete", RESTANTE_RELAY=str(node.relay)).stdout
    assert shown.startswith("Listed and deleted: 1\n")
    shown = restante("relay", "flush", "--identity", key, RESTANTE_RELAY=str(node.relay)).stdout
    assert shown == "The relay stores nothing for this identity.\n"


def test_an_envelope_from_a_file_is_put_as_it_is(node: NodeProcess, tmp_path: Path, key: str, reader: Identity) -> None:
    expires_at_ms = (SystemClock().now_ms() // HOUR_MS + 48) * HOUR_MS
    inbox = relay_inbox_key(reader.address, node.relay.node_key)
    raw = encode_envelope(Envelope(inbox_key=inbox, expires_at_ms=expires_at_ms, sealed=b"sealed"))
    file = tmp_path / "letter.bin"
    file.write_bytes(raw)
    restante("relay", "put", str(file), RESTANTE_RELAY=str(node.relay))
    [held] = flushed(node, key, count=1)
    assert (held["expires_at_ms"], held["size_bytes"]) == (expires_at_ms, len(raw))


def test_another_identity_sees_nothing_of_it(node: NodeProcess, tmp_path: Path, key: str) -> None:
    restante("relay", "put", "--identity", key, RESTANTE_RELAY=str(node.relay))
    create_identity(tmp_path / "other.key", SystemEntropy())
    assert flushed(node, str(tmp_path / "other.key"), "--delete") == []
    assert len(flushed(node, key, count=1)) == 1


@clause("6.7")
def test_a_refusal_is_told_with_its_code(node: NodeProcess, tmp_path: Path) -> None:
    expired = Envelope(inbox_key=InboxKey(b"i" * 32), expires_at_ms=3_600_000, sealed=b"sealed")
    (tmp_path / "expired.bin").write_bytes(encode_envelope(expired))
    refused = restante("relay", "put", str(tmp_path / "expired.bin"), status=1, RESTANTE_RELAY=str(node.relay))
    assert refused.stderr.startswith("error E004: less than 3600000 ms remain until the expiry")
    assert "0 of 1 were stored" in refused.stderr


def test_another_node_at_the_same_place_is_refused(node: NodeProcess, key: str) -> None:
    wrong = replace(node.relay, node_key=NodeKey(bytes(32)))
    refused = restante("relay", "put", "--identity", key, status=1, RESTANTE_RELAY=str(wrong))
    assert refused.stderr.startswith("error E103:")


def test_nobody_at_the_place_is_told(node: NodeProcess, key: str) -> None:
    silent = replace(node.relay, port=free_port())
    assert restante("relay", "put", "--identity", key, status=1, RESTANTE_RELAY=str(silent)).stderr.startswith(
        "error E001:"
    )


@pytest.mark.parametrize(
    ("words", "status", "expected"),
    [
        (["put"], 2, "give one of FILE, --identity FILE and --address ADDRESS"),
        (["put", "a", "--address", "b"], 2, "give one of FILE"),
        (["put", "absent.bin"], 1, "absent.bin cannot be read: No such file"),
        (["put", "--address", "rst1x"], 2, "error E101: an address must have"),
        (["put", "--identity", "absent.key"], 1, "error E109: the identity file cannot be read"),
        (["put", "--address", "x", "--relay", "nonsense"], 2, "error E101: a relay or node is named KEY@HOST:PORT"),
        (["flush"], 2, "no identity given: add --identity FILE"),
        (["put", "/dev/null"], 2, "error E101: only version 1 of the envelope is known"),
    ],
)
def test_bad_input_is_refused_before_anything_is_sent(
    node: NodeProcess, nowhere: Path, words: list[str], status: int, expected: str
) -> None:
    assert list(nowhere.iterdir()) == []
    refused = restante("relay", *words, status=status, RESTANTE_RELAY=str(node.relay))
    assert expected in refused.stderr


def test_a_relay_must_be_named() -> None:
    assert "no relay given: add --relay KEY@HOST:PORT" in restante("relay", "flush", status=2).stderr


@clause("6.3")
def test_node_check_names_damaged_blobs_beside_a_running_node_and_without_it(tmp_path: Path) -> None:
    home = NodeHome.made(tmp_path / "node")
    check = ("node", "check", str(home.path))
    assert json.loads(restante(*check, "--json").stdout) == {"sound": True, "checks": []}, "it has never run"
    create_identity(tmp_path / "reader.key", SystemEntropy())
    with running_node(home) as node:
        key = str(tmp_path / "reader.key")
        restante("relay", "put", "--identity", key, "--count", "3", RESTANTE_RELAY=str(node.relay))
        assert "each blob has its hash" in restante(*check).stdout
        disk = apsw.Connection(str(home.database))
        disk.execute("UPDATE blob SET envelope = zeroblob(length(envelope)) WHERE id = 2")
        disk.close()
        assert "blob 2 of a mailbox differs from its hash" in restante(*check, status=1).stdout
    found = json.loads(restante(*check, "--json", status=1).stdout)
    assert found["sound"] is False
    assert [len(each["findings"]) for each in found["checks"]] == [0, 1, 0, 0]

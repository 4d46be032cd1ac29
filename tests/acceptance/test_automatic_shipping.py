"""A real node and real clients that ship their journals by themselves: killed, hindered, and read for names."""

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import parquet

from restante.client.client import Client
from restante.client.home import ClientDirectory
from restante.core.inboxes.relay_inbox import relay_inbox_key
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.system import SystemEntropy
from restante.runtime.transport.relay_connection import TlsRelayConnection
from restante.wire.address import show_address
from support.fleet.journal_files import shipped_numbers
from support.relay.node_processes import NodeHome, NodeProcess, clean_environ, restante, running_node
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S, LOOK_S, until


def shipping_home(tmp_path: Path) -> NodeHome:
    home = NodeHome.made(tmp_path / "node")
    home.set("journal", ship_interval_ms=100, ship_to=str(tmp_path / "out"))
    return home


async def put_many(node: NodeProcess, count: int, *, size: int = 100) -> None:
    place = node.relay
    link = await TlsRelayConnection.connect(place.host, place.port, node=place.node_key)
    try:
        await asyncio.gather(*map(link.put, node.home.envelopes(*(b"%d" % n + bytes(size) for n in range(count)))))
    finally:
        await link.close()


def last_fact(home: NodeHome) -> int:
    database = Database(home.database, schema="node", read_only=True)
    try:
        return Journal(database, SystemEntropy()).last_number()
    finally:
        database.close()


@clause("13.1")
def test_a_nodes_facts_leave_while_it_works_and_the_last_ones_when_it_is_stopped(tmp_path: Path) -> None:
    home = shipping_home(tmp_path)
    with running_node(home) as node:
        asyncio.run(put_many(node, 200))
        until(lambda: len(shipped_numbers(tmp_path / "out")) == 201)  # and the fact of its start
        asyncio.run(put_many(node, 50))
        assert node.terminate() == 0
    assert shipped_numbers(tmp_path / "out") == list(range(1, 252))
    assert last_fact(home) == 251
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]


@clause("13.1", "6.9")
def test_a_depot_that_fails_delays_facts_and_no_put_and_is_told_without_naming_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("in the way", "utf-8")
    home = shipping_home(tmp_path)
    with running_node(home) as node:
        asyncio.run(put_many(node, 100))
        until(lambda: "journal.ship_failed" in node.events())
        status, body = node.get("/healthz")
        assert (status, json.loads(body)["shipping"]) == (200, "failing")
        metrics = node.get("/metrics")[1].decode()
        assert "restante_journal_ship_failing 1.0" in metrics
        assert "failing, " in restante("node", "status", str(home.path)).stdout
        out.unlink()
        until(lambda: "journal.ship_recovered" in node.events())
        assert json.loads(node.get("/healthz")[1])["shipping"] == "working"
        assert "restante_journal_shipped_events_total 101.0" in node.get("/metrics")[1].decode()
        assert node.terminate() == 0
        [failed] = [line for line in node.logged() if line["event"] == "journal.ship_failed"]
        assert (failed["level"], failed["error"], failed["code"]) == ("warning", "StoreUnusable", "E106")
        assert str(tmp_path) not in b"".join(node.log).decode()
    assert shipped_numbers(out) == list(range(1, 102))


@clause("13.1", "13.9")
def test_a_node_killed_again_and_again_while_it_ships_loses_no_fact(tmp_path: Path) -> None:
    home = shipping_home(tmp_path)
    dice = random.Random(20_261_116)  # noqa: S311 - where the kills fall, not a secret
    for _ in range(2):
        with running_node(home) as node:
            asyncio.run(put_many(node, 300, size=1_000))
            time.sleep(dice.uniform(0.0, 0.25))  # the moment of the kill, not a wait for anything
            node.kill()
    with running_node(home) as node:
        assert node.terminate() == 0
    assert set(shipped_numbers(tmp_path / "out")) == set(range(1, last_fact(home) + 1))
    assert last_fact(home) == 603


DIES = """
import os, signal, sys, threading
from restante.cli.main import app, run
from restante.runtime.sqlite.file.journal import Journal

moment, directory = sys.argv[1:]
seen = []

def die(name):
    seen.append(name)
    if f"{name}{seen.count(name)}" == moment:
        os.kill(os.getpid(), signal.SIGKILL)

sync, mark = os.fsync, Journal.mark_shipped

def synced(handle):
    if threading.current_thread().name == "restante-shipping":
        die("sync")
    sync(handle)

def marked(self, through, **more):
    die("mark")
    mark(self, through, **more)

os.fsync, Journal.mark_shipped = synced, marked
run(app, ["node", "run", directory])
"""
# The syncs of a manifest, of the directory, of its segment, of the directory again; then the mark.
MOMENTS = ("sync1", "sync2", "sync3", "sync4", "mark1")


@clause("13.1", "13.9")
def test_a_node_killed_at_each_step_of_shipping_ships_twice_at_worst(tmp_path: Path) -> None:
    home = shipping_home(tmp_path)
    for starts, moment in enumerate(MOMENTS, start=1):
        process = subprocess.run(
            [sys.executable, "-c", DIES, moment, str(home.path)],
            env=clean_environ(),
            capture_output=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert process.returncode == -signal.SIGKILL, process.stderr.decode()
        assert last_fact(home) == starts
    out = tmp_path / "out"
    assert shipped_numbers(out).count(1) > 1  # it was shipped again, in longer and longer segments
    with running_node(home) as node:
        assert node.terminate() == 0
    assert set(shipped_numbers(out)) == set(range(1, len(MOMENTS) + 2))
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


async def correspond(home: Path, node: NodeProcess, out: str) -> list[bytes]:
    """Alice writes to Bob by a real node; both ship. What must be in no byte of what they shipped."""
    for name in ("alice", "bob"):
        ClientDirectory(home / name).create(node.relay, SystemEntropy())
    alice, bob = (Client.open(home / name, ship_to=out) for name in ("alice", "bob"))
    for one, other in ((alice, bob), (bob, alice)):
        one.contacts.add(replace(await other.as_contact(), name="peer"))
    working = [asyncio.create_task(client.run()) for client in (alice, bob)]
    await alice.send(bob.identity.address, b"hello")
    async with asyncio.timeout(LIMIT_S):
        session = (await anext(bob.inbox())).entry.session_id
        while not (await alice.is_settled() and await bob.is_settled()):  # noqa: ASYNC110 - receipts take their time
            await asyncio.sleep(LOOK_S)
    for client in (alice, bob):
        await client.close()
        assert (stats := client.shipping.stats()) is not None
        assert stats.events_total > 1
    await asyncio.gather(*working)
    people = (alice.identity, bob.identity)
    inboxes = [relay_inbox_key(who.address, node.relay.node_key) for who in people]
    secrets = [*(who.address for who in people), *inboxes, session]
    texts = [show_address(who.address).encode() for who in people]
    return texts + [form for raw in secrets for form in (raw, raw[:16], raw[16:], raw.hex().encode()) if form]


@clause("13.1")
def test_what_a_node_and_clients_really_shipped_names_no_address_inbox_or_session(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with running_node(shipping_home(tmp_path)) as node:
        never = asyncio.run(correspond(tmp_path, node, str(out)))
        assert node.terminate() == 0
    segments = list(out.glob("*.parquet"))
    assert len({path.name.partition("-")[0] for path in segments}) == 3  # writers
    for path in out.iterdir():
        assert not [form for form in never if form in path.read_bytes() or form in path.name.encode()]
    cells = 0
    for path in segments:  # unpacked: compression would hide an address from a search of the bytes
        for column in parquet.read_table(path).to_pydict().values():
            values = [
                str(cell).encode() if isinstance(cell, str | int) else cell for cell in column if cell is not None
            ]
            cells += len(values)
            assert not [form for form in never for value in values if form in value]
    assert cells > 100


@pytest.mark.parametrize(
    ("ship_to", "problem"),
    [("out", "must be an absolute path"), ("ftp://host/out", "ftp:// is not known; the schemes are file, s3")],
)
def test_a_depot_that_is_none_is_refused_at_the_start(tmp_path: Path, ship_to: str, problem: str) -> None:
    home = NodeHome.made(tmp_path / "node")
    refused = restante("--set", f"journal.ship_to={ship_to}", "node", "run", str(home.path), status=2)
    assert f"error E107: journal.ship_to{':' if ':' in ship_to else ''} {problem}" in refused.stderr

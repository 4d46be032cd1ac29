"""Codes that circuits, exits and the nodes behind them give, on real processes: where it failed, and what the outbox
decides (SPEC 4.3, 4.4, 11.7). E001 and E002 are in `test_circuits_end_to_end`.

Six nodes are hops and store nothing, two others store: what fails at a node leaves the circuits whole.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from restante.cli.node.local_network import LocalNode, start, stop, wait_until_answering
from restante.client.circuits.circuit import short_key
from restante.client.client import Client
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.model.kinds import Kind
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import State
from restante.policy.retry import RetrySchedule
from restante.policy.settings import Settings
from restante.wire.inbox_keys import node_id_of
from support.circuit.people import kill, known_nodes, made_nodes, pair, received
from support.mesh.bad_node import command
from support.spec.clauses import clause
from support.system.wait_until import LOOK_S, looks, until

HOPS, STORING = 6, 2
SETTINGS = Settings(retry=RetrySchedule(base_ms=100))
KEY = "[0-9a-f]{8}"
NOBODY = Identity(b"n" * 32).address


@dataclass
class Mesh:
    nodes: list[LocalNode]
    firewall: Path

    @property
    def storing(self) -> list[LocalNode]:
        return self.nodes[HOPS:]

    def start(self, node: LocalNode) -> None:
        start(node, command("refuses_stores", self.firewall))

    @property
    def refuses_stores(self) -> Path:
        return self.firewall.with_name("refuses_stores")


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    base = tmp_path_factory.mktemp("mesh")
    made = Mesh(made_nodes(base, HOPS + STORING), base / "firewall")
    for number, node in enumerate(made.nodes):
        config = node.directory.config
        role = "hop" if number < HOPS else "storage"
        text, count = re.subn(r"^roles = .*", f'roles = ["{role}"]', config.read_text("utf-8"), flags=re.MULTILINE)
        assert count == 1
        config.write_text(text, "utf-8")
    try:
        for node in made.nodes:
            made.start(node)
        wait_until_answering(made.nodes)
        until(lambda: all(known_nodes(each) == len(made.nodes) for each in made.nodes))
        yield made
    finally:
        stop(made.nodes)


async def until_outbox(client: Client, condition: Callable[[OutboxEntry], object]) -> OutboxEntry:
    """Wait until the only text in the outbox that is not stored fulfils the condition; return it."""
    for _ in looks():
        entries = await client.file.run(partial(client.outbox.store.entries, limit=100))
        match [each for each in entries if each.kind is Kind.TEXT and not each.times_stored]:
            case [entry] if condition(entry):
                return entry
        await asyncio.sleep(LOOK_S)
    raise AssertionError


async def fails_with(client: Client, code: Code) -> tuple[OutboxEntry, str]:
    """Return the entry as the outbox decided, and where the attempt failed."""
    entry = await until_outbox(client, lambda each: each.last_error is code and each.state is State.PENDING)
    assert client.running_mesh is not None
    last = client.running_mesh.last_failure()
    assert last is not None
    assert last[1].code is code
    return entry, str(last[1])


async def sessions(client: Client) -> list[object]:
    read = "SELECT session_id, generation, is_deleted, next_sequence FROM session ORDER BY session"
    return await client.file.run(lambda: list(client.file.database.rows(read)))


@clause("4.3", "4.4", "11.3", "11.7")
async def test_e004_names_the_node_that_its_exit_cannot_reach_and_counts_as_an_attempt(
    mesh: Mesh, tmp_path: Path
) -> None:
    async with pair(tmp_path, mesh.nodes, settings=SETTINGS) as (alice, bob):
        await alice.send("peer", "two copies")
        assert await received(bob, 1) == ["two copies"]
        dead = mesh.storing[0]
        kill(dead)
        await alice.send("peer", "one copy is too few")
        entry, where = await fails_with(alice, Code.STORAGE_FAILED)
        assert entry.attempts >= 1
        before = await sessions(alice)
        again = await until_outbox(alice, lambda each: each.attempts > entry.attempts and each.state is State.PENDING)
        assert again.payload == entry.payload, "the same sealed bytes"
        assert await sessions(alice) == before, "nothing that a node says touches a session"
        key = short_key(node_id_of(dead.place.node_key))
        said = f"the node {key} can't be reached from the exit {KEY}|the connection to the node is gone"
        assert re.fullmatch(f"1 nodes stored the message, at least 2 must: ({said})", where), where

        assert alice.running_mesh is not None
        with pytest.raises(RestanteError, match="too few nodes of the mesh answer") as unknown:
            await alice.running_mesh.prekeys.fetch(NOBODY)
        assert unknown.value.code is Code.DHT_LOOKUP_FAILED, "one of two nodes is silent: it may hold the keys"

        mesh.start(dead)
        await asyncio.to_thread(wait_until_answering, [dead])
        assert await received(bob, 1) == ["one copy is too few"]


@clause("4.4", "7.6", "11.7")
async def test_e005_is_given_if_the_nodes_behind_the_circuits_say_that_there_are_no_keys(
    mesh: Mesh, tmp_path: Path
) -> None:
    async with pair(tmp_path, mesh.nodes) as (alice, _), alice.mesh_host() as host:
        with pytest.raises(RestanteError, match="no keys are published in the mesh for this address") as raised:
            await host.prekeys.fetch(NOBODY)
        assert raised.value.code is Code.RECIPIENT_NOT_FOUND


@clause("4.3", "4.4", "11.2", "11.7")
async def test_e007_of_exits_is_waited_for_as_they_say_and_counts_as_no_attempt(mesh: Mesh, tmp_path: Path) -> None:
    async with pair(tmp_path, mesh.nodes, settings=SETTINGS) as (alice, bob):
        mesh.refuses_stores.touch()
        try:
            await alice.send("peer", "later")
            entry, where = await fails_with(alice, Code.RATE_LIMITED)
            assert entry.attempts == 0
            assert entry.next_attempt_at_ms - alice.now_ms() > 1_000, "2 s, and not the first wait of the schedule"
            assert re.fullmatch(f"the exit {KEY} takes no more STOREs for now", where)
        finally:
            mesh.refuses_stores.unlink()
        assert await received(bob, 1) == ["later"]


@clause("4.3", "4.4", "11.7")
async def test_e003_is_given_if_no_node_of_the_mesh_is_known_and_counts_as_no_attempt(tmp_path: Path) -> None:
    nowhere = made_nodes(tmp_path / "never started", 3)
    async with pair(tmp_path, nowhere, settings=SETTINGS) as (alone, _):
        await alone.send("peer", "hello")
        entry, where = await fails_with(alone, Code.DHT_LOOKUP_FAILED)
        assert (entry.attempts, where) == (0, "none of the known mesh nodes answers")

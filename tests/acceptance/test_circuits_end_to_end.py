"""The whole way on real processes: clients that require circuits, hops that record what they see, kill -9."""

import asyncio
import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from restante.cli.node.local_network import LocalNode, wait_until_answering
from restante.client.circuits.circuit import CircuitFailed, short_key
from restante.client.client import Client
from restante.client.home import ClientDirectory
from restante.client.mesh.host import CircuitMode
from restante.model.error_codes import Code
from restante.model.kinds import Kind
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import State
from restante.policy.circuits.limits import CircuitLimits
from restante.policy.retry import RetrySchedule
from restante.policy.settings import Settings
from restante.wire.circuit.cells import BODY_BYTES
from restante.wire.circuit.frames import CircuitFrameType, decode_create
from restante.wire.frames.mesh import decode_mesh_body
from restante.wire.frames.mesh_storage import MeshPut
from restante.wire.frames.mesh_types import MeshFrameType
from restante.wire.frames.types import FrameType
from restante.wire.inbox_keys import node_id_of
from support.circuit.busy_people import Load, everything_arrives_once_in_order
from support.circuit.people import home_of, kill, pair, received
from support.circuit.recording_node import Seen, recording_nodes, seen_by, start_recording
from support.relay.node_processes import COMMAND, clean_environ, restante
from support.spec.clauses import clause
from support.system.wait_until import LOOK_S, looks, until

NODES = 7
LIMIT_S = 60.0
COMPARED = 80  # cells of a node that are compared with those of others
PIECE = 16
CIRCUIT_FRAMES = frozenset(CircuitFrameType)
DIRECTORY_FRAMES = frozenset({MeshFrameType.SYNC_DIRECTORY, MeshFrameType.FIND_NODE})


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[LocalNode]]:
    with recording_nodes(tmp_path_factory.mktemp("mesh"), NODES) as made:
        yield made


async def exchange(tmp_path: Path, nodes: list[LocalNode], monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, int]]:
    """Let mail travel both ways; return where the two clients dialled, and from which ports."""
    loop = asyncio.get_running_loop()
    ports: set[tuple[str, int]] = set()
    dial = loop.create_connection

    async def noted(*args: Any, **kwargs: Any) -> Any:
        transport, protocol = await dial(*args, **kwargs)
        ports.add((transport.get_extra_info("peername")[0], transport.get_extra_info("sockname")[1]))
        return transport, protocol

    monkeypatch.setattr(loop, "create_connection", noted)
    async with pair(tmp_path, nodes) as (alice, bob), asyncio.timeout(60):
        texts = [f"there {number}" for number in range(12)]
        sent = await alice.send_many("peer", texts)
        assert await received(bob, len(texts)) == texts
        await bob.send("peer", "and back")
        assert await received(alice, 1) == ["and back"]
        for each in sent:
            await each.delivered()
    return ports


def circuit_bodies(seen: list[Seen]) -> list[bytes]:
    return [each.body for each in seen if each.type in CIRCUIT_FRAMES]


def windows(bodies: list[bytes], *, offsets: int) -> "np.ndarray[Any, np.dtype[np.uint64]]":
    """Return all 8-byte words of the bodies, at each of the first `offsets` places and then every 8 bytes."""
    parts = [(body[at:], (len(body) - at) // 8) for body in bodies for at in range(offsets)]
    return np.concatenate([np.frombuffer(part, np.uint64, count) for part, count in parts])


@clause("1.1", "11.1", "11.5", "11.6", "11.7")
async def test_mail_arrives_through_circuits_and_no_node_sees_both_who_and_what(
    nodes: list[LocalNode], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialled = await exchange(tmp_path, nodes, monkeypatch)
    seen = {node_id_of(node.place.node_key): seen_by(node) for node in nodes}
    by_host = [(node.place.host, each) for node in nodes for each in seen[node_id_of(node.place.node_key)]]
    from_clients = [each for host, each in by_host if (host, each.port) in dialled]
    others = [each for host, each in by_host if (host, each.port) not in dialled]

    # Who: a client's own connections carry circuits, whose first hop is the node itself, and copies of the directory.
    greetings = {FrameType.START, FrameType.PING, FrameType.PONG}
    assert {each.type for each in from_clients} <= CIRCUIT_FRAMES | DIRECTORY_FRAMES | greetings
    creates = [each for each in from_clients if each.type == CircuitFrameType.CREATE]
    assert creates
    assert {decode_create(each.body).hop for each in creates} == {1}
    # Exits and middles hear of circuits from nodes that proved their key, never from a client.
    further = [each for each in others if each.type == CircuitFrameType.CREATE]
    assert {decode_create(each.body).hop for each in further} == {2, 3}
    assert all(each.is_node for each in further)

    # What: mail, proofs and keys reach nodes over other nodes' connections only.
    puts = [decode_mesh_body(each.type, each.body) for each in others if each.type == MeshFrameType.MESH_PUT]
    assert len(puts) >= 26, "13 messages, at least two copies each"
    asked = {each.type for each in others}
    assert {MeshFrameType.MESH_SUBSCRIBE, MeshFrameType.MESH_DELETE, MeshFrameType.PUT_RECORD} <= asked

    # No hop reads a destination, an inbox key or sealed bytes in what passes through it.
    secrets = {bytes(node_id) for node_id in seen}
    for put in puts:
        assert isinstance(put, MeshPut)
        at = len(put.envelope) // 2
        secrets |= {bytes(put.blinded), put.envelope[at : at + PIECE], put.envelope[-PIECE:]}
    for frames in seen.values():
        passed = b"".join(each.body for each in frames if each.type == CircuitFrameType.CELL)
        assert not any(secret in passed for secret in secrets)

    # No two hops share a byte string of 15 bytes or more, wherever it is in a frame.
    bodies = [circuit_bodies(frames)[:COMPARED] for frames in seen.values()]
    every = [windows(each, offsets=8) for each in bodies if each]
    aligned = [windows(each, offsets=1) for each in bodies if each]
    assert len(every) >= 3
    for one, other in permutations(range(len(every)), 2):
        assert not np.intersect1d(every[one], aligned[other]).size

    # Sizes are the two listed, whatever is inside.
    sizes = {len(body) for frames in seen.values() for body in circuit_bodies(frames)}
    assert sizes <= set(BODY_BYTES.values())


@clause("11.4")
def test_a_client_uses_the_same_guard_after_a_restart_and_other_hops_behind_it(
    nodes: list[LocalNode], tmp_path: Path
) -> None:
    home = home_of(tmp_path / "carol", nodes)
    paths = set()
    for _ in range(4):
        data = json.loads(restante("circuits", "--home", str(home), "--json").stdout)
        assert not data["is_running"]
        paths |= {tuple(each["hops"]) for each in data["pool"]["circuits"]}
    assert len({guard for guard, _, _ in paths}) == 1
    assert len(paths) > 1
    assert all(len(set(path)) == 3 for path in paths)


@clause("11.7")
def test_the_circuits_of_a_running_client_are_shown(nodes: list[LocalNode], tmp_path: Path) -> None:
    home = home_of(tmp_path / "dora", nodes)
    running = subprocess.Popen([COMMAND, "run", "--home", str(home)], env=clean_environ())
    try:
        until(lambda: (home / "run.lock").is_file() and b"token" in (home / "run.lock").read_bytes())

        def uses() -> set[str]:
            pool = json.loads(restante("circuits", "--home", str(home), "--json").stdout)["pool"]
            return set() if pool is None else {each["use"] for each in pool["circuits"]}

        until(lambda: uses() >= {"public inbox", "contacts inbox"})
        shown = restante("circuits", "--home", str(home)).stdout
        key = "[0-9a-f]{8}"
        assert re.search(rf"^{key} {key} {key} +(public|contacts) inbox +\d+ +\d+ s +\d+ ms", shown, re.MULTILINE)
        assert re.search(r"failed builds +none|failed builds +\d+ (at the|by time-out)", shown)
        assert re.search(r"gone silent +\d+", shown)
    finally:
        running.send_signal(signal.SIGTERM)
        assert running.wait(LIMIT_S) == 0


@clause("11.7")
def test_circuits_are_required_unless_a_person_switches_them_off_and_then_the_cost_is_said(
    nodes: list[LocalNode], tmp_path: Path
) -> None:
    places = ",".join(str(node.place) for node in nodes[:3])
    home = tmp_path / "eva"
    restante("id", "new", str(home), "--mesh", places, "--no-passphrase")
    access = ClientDirectory(home).mesh_access()
    assert access is not None
    assert access.circuits is CircuitMode.REQUIRED
    assert re.search(r"circuits +required", restante("mesh", "status", "--home", str(home)).stdout)
    shown = restante("circuits", "use", "off", "--home", str(home)).stdout
    assert "Circuits are off: each node that stores or hands out mail sees this machine's network address" in shown
    assert "off: each node" in restante("mesh", "status", "--home", str(home), COLUMNS="200").stdout
    assert "Circuits are off" in restante("circuits", "--home", str(home)).stdout
    failed = restante("circuits", "use", "perhaps", "--home", str(home), status=2)
    assert "circuits are required or off, not 'perhaps'" in failed.stderr


@clause("11.3")
async def test_a_killed_hop_costs_a_circuit_and_no_message(nodes: list[LocalNode], tmp_path: Path) -> None:
    async with pair(tmp_path, nodes) as (alice, bob):
        before = [f"before {number}" for number in range(5)]
        await alice.send_many("peer", before)
        assert await received(bob, 5) == before
        assert alice.running_mesh is not None
        assert alice.running_mesh.circuits is not None
        middles = {each.hops[1] for each in alice.running_mesh.circuits.pool.status().circuits}
        victim = next(node for node in nodes if short_key(node_id_of(node.place.node_key)) in middles)
        kill(victim)
        after = [f"after {number}" for number in range(5)]
        await alice.send_many("peer", after)
        assert await received(bob, 5) == after
        start_recording(victim)
        await asyncio.to_thread(wait_until_answering, [victim])


@clause("1.1", "1.2", "11.3")
async def test_everything_arrives_once_in_order_for_people_who_come_and_go_while_a_node_is_killed(
    nodes: list[LocalNode], tmp_path: Path
) -> None:
    await everything_arrives_once_in_order(tmp_path, nodes, Load(people=3, messages=16, visits=2, kills=1))


@pytest.mark.soak  # all nodes die and come back, and the waits of the outbox are real
@clause("4.3", "4.4", "11.7")
async def test_failures_name_their_place_and_the_outbox_waits_without_counting_an_attempt(
    nodes: list[LocalNode], tmp_path: Path
) -> None:
    settings = Settings(retry=RetrySchedule(base_ms=100))
    async with pair(tmp_path, nodes, settings=settings) as (alice, bob):
        await alice.send("peer", "before")
        assert await received(bob, 1) == ["before"]
        assert alice.running_mesh is not None
        assert alice.running_mesh.circuits is not None
        pool = alice.running_mesh.circuits.pool
        in_use = short_key(pool._guards._state.guards[0].node_id)
        kept = next(node for node in nodes if short_key(node_id_of(node.place.node_key)) == in_use)
        for node in nodes:
            if node is not kept:
                kill(node)

        async def failed_with(code: Code) -> None:
            def is_so(entries: list[OutboxEntry]) -> bool:
                unsent = [(each.last_error, each.attempts) for each in entries if each.times_stored == 0]
                return unsent == [(code, 0)]

            await until_outbox(alice, is_so)

        await alice.send("peer", "after")
        await failed_with(Code.CIRCUIT_BUILD_FAILED)
        with pytest.raises(CircuitFailed, match=r"the circuit failed at the middle [0-9a-f]{8}"):
            await pool.acquire("try")
        kill(kept)
        await failed_with(Code.NETWORK_UNREACHABLE)
        with pytest.raises(CircuitFailed, match=r"the guard [0-9a-f]{8} can't be reached"):
            await pool.acquire("try")
        for node in nodes:
            start_recording(node)
        await asyncio.to_thread(wait_until_answering, nodes)
        assert await received(bob, 1) == ["after"]


@clause("11.2")
async def test_a_client_that_sends_too_fast_waits_as_long_as_its_own_limit_says(
    nodes: list[LocalNode], tmp_path: Path
) -> None:
    settings = Settings(circuits=CircuitLimits(messages_per_minute=3))
    async with pair(tmp_path, nodes, settings=settings) as (alice, _):
        await alice.send_many("peer", [f"message {number}" for number in range(6)])

        def limited(entries: list[OutboxEntry]) -> list[OutboxEntry]:
            return [each for each in entries if each.last_error is Code.RATE_LIMITED and each.state is State.PENDING]

        waiting = limited(await until_outbox(alice, limited))
        waits = [(each.attempts, each.next_attempt_at_ms - alice.now_ms()) for each in waiting]
        assert all(attempts == 0 for attempts, _ in waits), waits
        assert 5_000 < max(wait_ms for _, wait_ms in waits) <= 20_000, waits  # one of three a minute


async def until_outbox(client: Client, condition: Callable[[list[OutboxEntry]], object]) -> list[OutboxEntry]:
    """Wait until the condition holds for the texts in the outbox; return them."""
    for _ in looks():
        entries = await client.file.run(partial(client.outbox.store.entries, limit=100))
        texts = [each for each in entries if each.kind is Kind.TEXT]
        if condition(texts):
            return texts
        await asyncio.sleep(LOOK_S)
    raise AssertionError

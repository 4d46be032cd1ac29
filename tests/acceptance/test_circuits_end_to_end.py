"""The whole way on real processes: clients that require circuits, hops and storage of `restante up`, kill -9."""

import asyncio
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.cli.node.local_network import LocalNode, start, wait_until_answering
from restante.client.circuits.circuit import short_key
from restante.client.home import ClientDirectory
from restante.client.mesh.host import CircuitMode
from restante.wire.inbox_keys import node_id_of
from support.circuit.people import home_of, kill, node_processes, pair, received
from support.relay.node_processes import COMMAND, clean_environ, restante
from support.spec.clauses import clause
from support.system.wait_until import until

NODES = 7
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[LocalNode]]:
    with node_processes(tmp_path_factory.mktemp("mesh"), NODES) as made:
        yield made


@clause("1.1", "11.1", "11.6", "11.7")
async def test_mail_arrives_through_circuits_once_in_order_and_acks_come_back(
    nodes: list[LocalNode], tmp_path: Path
) -> None:
    async with pair(tmp_path, nodes) as (alice, bob):
        texts = [f"message {number}" for number in range(20)]
        sent = await alice.send_many("peer", texts)
        assert await received(bob, 20) == texts
        async with asyncio.timeout(LIMIT_S):
            for each in sent:
                await each.delivered()


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
    running = subprocess.Popen([COMMAND, "run", "--home", str(home)], env=clean_environ(), stderr=subprocess.PIPE)
    try:
        until(lambda: (home / "run.lock").is_file() and b"token" in (home / "run.lock").read_bytes())

        def uses() -> set[str]:
            pool = json.loads(restante("circuits", "--home", str(home), "--json").stdout)["pool"]
            return set() if pool is None else {each["use"] for each in pool["circuits"]}

        until(lambda: uses() >= {"public inbox", "contacts inbox"})
        shown = restante("circuits", "--home", str(home)).stdout
        key = "[0-9a-f]{8}"
        assert re.search(rf"^{key} {key} {key} +(public|contacts) inbox +\d+ +\d+ s +\d+ ms", shown, re.MULTILINE)
        assert re.search(r"failed builds +none|failed builds +\d+ at the", shown)
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
        start(victim)
        await asyncio.to_thread(wait_until_answering, [victim])

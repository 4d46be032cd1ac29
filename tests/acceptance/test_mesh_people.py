"""People over a mesh of node processes: mail for someone who is away, nodes that die, the commands of the README."""

import asyncio
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from restante.cli.node.local_network import LocalNode, make_nodes, start, stop, wait_until_answering
from restante.client.client import Client
from restante.client.home import ClientDirectory
from restante.client.mesh.host import CircuitMode
from restante.model.journal import STATE_AFTER
from restante.model.states import State
from restante.runtime.system import SystemClock, SystemEntropy
from support.relay.node_processes import COMMAND, clean_environ, free_port, spawned
from support.spec.clauses import clause
from support.system.soak import first_now_rest_in_soak
from support.system.wait_until import LIMIT_S

NODES = 12
KILLED = 4
README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[LocalNode]]:
    """Twelve nodes, and the directories of four more, which take the place of those that are killed."""
    made = make_nodes(tmp_path / "nodes", NODES + KILLED, port=free_port(), status_port=free_port())
    for node in made[:NODES]:
        start(node)
    try:
        wait_until_answering(made[:NODES])
        yield made
    finally:
        for node in made:
            if node.process is not None:
                node.process.kill()
        stop(made)


def person(home: Path, nodes: list[LocalNode]) -> Path:
    bootstrap = [node.place for node in nodes[:3]]
    ClientDirectory(home).create(
        None, SystemEntropy(), mesh=bootstrap, circuits=CircuitMode.OFF, now_ms=SystemClock().now_ms()
    )
    return home


def opened(home: Path) -> Client:
    return Client.open(home, receive_delay_s=0.0)


async def introduced(alice: Client, bob: Client) -> None:
    for one, other in ((alice, bob), (bob, alice)):
        one.contacts.add(replace(await other.as_contact(), name="peer"))


def replace_one(nodes: list[LocalNode], at: int) -> None:
    """Kill a node that was there from the beginning, and start one that was not."""
    victim = nodes[3 + at]
    assert victim.process is not None
    victim.process.kill()
    start(nodes[NODES + at])


@clause("1.4", "7.3", "7.9")
@pytest.mark.parametrize("count", first_now_rest_in_soak([160, 4_000]))
async def test_everything_arrives_once_in_order_although_a_third_of_the_nodes_is_killed(
    tmp_path: Path, nodes: list[LocalNode], count: int
) -> None:
    homes = [person(tmp_path / name, nodes) for name in ("alice", "bob")]
    before = opened(homes[1])
    async with opened(homes[0]) as alice, asyncio.timeout(60 + count / 10):
        await introduced(alice, before)
        await before.close()
        texts = [f"message {number}" for number in range(count)]
        sent = []
        for at, part in enumerate(_parts(texts, count // KILLED)):
            sent += await alice.send_many("peer", part)
            replace_one(nodes, at)
        while (await alice.outbox.counts()).keys() & {State.PENDING, State.SENDING}:  # noqa: ASYNC110 - nodes answer
            await asyncio.sleep(0.05)
        async with opened(homes[1]) as bob:
            got = []
            async for message in bob.inbox():
                got.append(message.text)
                if len(got) == count:
                    break
            for each in sent:
                await each.delivered(timeout=LIMIT_S)
        assert got == texts
        final = {
            row.message_id: STATE_AFTER[row.kind]
            for row in alice.journal.events(after=0, limit=1_000_000)
            if row.kind in STATE_AFTER and row.message_id is not None
        }
    assert Counter(final[each.message_id] for each in sent) == {State.DELIVERED: count}
    addresses = [ClientDirectory(home).identity().address for home in homes]
    for node in nodes:
        for file in node.directory.path.rglob("*"):
            if file.is_file():
                raw = file.read_bytes()
                assert not any(bytes(each) in raw or each.hex().encode() in raw for each in addresses), file.name


def _parts(texts: list[str], size: int) -> list[list[str]]:
    return [texts[at : at + size] for at in range(0, len(texts), size)]


def commands() -> list[list[str]]:
    """The commands of the README's section on a local mesh."""
    section = README.read_text("utf-8").split("## Two people on a local mesh", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("$ restante ")]
    return [line.removeprefix("$ restante ").split() for line in lines]


@clause("7.6")
def test_the_commands_of_the_readme_let_two_people_read_each_others_first_message(tmp_path: Path) -> None:
    up, new_alice, new_bob, *rest = commands()
    assert len(rest) + 3 <= 7
    ports = ["--port", str(free_port()), "--status-port", str(free_port())]
    network = subprocess.Popen(
        [COMMAND, *up, *ports], cwd=tmp_path, env=clean_environ(COLUMNS="1000"), stdout=subprocess.PIPE, text=True
    )
    try:
        assert network.stdout is not None
        mesh = next(found.group(1) for line in network.stdout if (found := re.search(r"--mesh (\S+)", line)))
        known = {"NODES": mesh}
        shown = ""
        for command in (new_alice, new_bob, *rest):
            words = [known.get(word, word) for word in command]
            shown = spawned(*words, cwd=tmp_path).stdout
            if command[:2] == ["id", "new"]:
                known[f"{command[2].upper()}_ADDRESS"] = re.findall(r"rst1\w+", shown)[0]
            if command[0] == "requests":
                assert "alice" in shown
                assert "hello" in shown
        assert "bob" in shown
        assert "hi" in shown
    finally:
        network.send_signal(signal.SIGINT)
        network.communicate(timeout=LIMIT_S)

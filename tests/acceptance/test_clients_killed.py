"""Two clients and a node, three processes and real TLS; the clients are killed with SIGKILL again and again."""

import asyncio
import random
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from restante.client.client import Client
from restante.client.home import ClientDirectory
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from restante.model.places import RelayPlace
from restante.runtime.sqlite.file.integrity import check_file
from restante.runtime.system import SystemClock, SystemEntropy
from support.client import sending_process
from support.client.client_pairs import facts, security
from support.relay.node_processes import NodeHome, running_node
from support.spec.clauses import clause
from support.system.programs import command
from support.system.soak import first_now_rest_in_soak
from support.system.wait_until import LIMIT_S

LOOK_S = 0.1
NAMES = ("alice", "bob")


def introduce(home: Path, relay: RelayPlace) -> None:
    async def work() -> None:
        clients = {name: Client.open(home / name) for name in NAMES}
        for name, peer in (NAMES, NAMES[::-1]):
            clients[name].contacts.add(replace(await clients[peer].as_contact(), name=peer))
        for client in clients.values():
            await client.close()

    for name in NAMES:
        ClientDirectory(home / name).create(relay, SystemEntropy())
    asyncio.run(work())


def start(home: Path, name: str, peer: str, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*command(sending_process), str(home / name), peer, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def hear(process: subprocess.Popen[bytes], lines: int, count: int) -> None:
    """So many lines, or the one for the last message if that comes first."""
    assert process.stdout is not None
    for _ in range(lines):
        if process.stdout.readline() in {b"", b"%d\n" % (count - 1)}:
            return


async def settled(home: Path) -> None:
    """With both online in this process, until nothing is in flight."""
    clients = [Client.open(home / name, settings=sending_process.SETTINGS) for name in NAMES]
    working = [asyncio.create_task(client.run()) for client in clients]
    for _ in range(int(LIMIT_S / LOOK_S)):
        if all([await client.is_settled() for client in clients]):
            break
        await asyncio.sleep(LOOK_S)
    for client in clients:
        await client.close()
    await asyncio.gather(*working)


async def look(home: Path, name: str) -> tuple[list[bytes], list[str | None], dict[bytes | None, list[int | None]]]:
    """What the application has, what looked like an attack, and the numbers given in each session."""
    client = Client.open(home / name)
    now_ms = SystemClock().now_ms()
    bodies = [entry.plaintext for _, entry in client.received.released(after=0, limit=10_000, now_ms=now_ms)]
    numbers: dict[bytes | None, list[int | None]] = {}
    for event in facts(client, JournalKind.ATTEMPTED):
        if event.sequence is not None:  # a message gets its number with its first lease
            numbers.setdefault(event.session_tag, []).append(event.sequence)
    kinds = {row.message_kind for row in facts(client, JournalKind.ACCEPTED)}
    assert kinds == {Kind.TEXT, Kind.CONTROL}
    found = bodies, security(client), numbers
    assert not any(check.findings for check in check_file(client.outbox.store.dead_letters._database))
    await client.close()
    return found


@clause("1.1", "3.11", "8.4")
@pytest.mark.parametrize(("kills", "count"), first_now_rest_in_soak([(3, 120), (8, 300), (40, 1_500)]))
def test_clients_that_are_killed_lose_nothing_show_nothing_twice_and_use_no_key_twice(
    tmp_path: Path, kills: int, count: int
) -> None:
    moments = random.Random(20_260_102)  # noqa: S311 - where the kills fall, not a secret
    with running_node(NodeHome.made(tmp_path / "node")) as node:
        introduce(tmp_path, node.relay)
        processes = {name: start(tmp_path, name, peer, count) for name, peer in (NAMES, NAMES[::-1])}
        try:
            for kill in range(kills):
                name, peer = NAMES if kill % 2 else NAMES[::-1]
                hear(processes[name], moments.randint(10, 60), count)
                processes[name].kill()
                processes[name].communicate()
                processes[name] = start(tmp_path, name, peer, count)
            for process in processes.values():
                hear(process, count, count)
                process.communicate(timeout=LIMIT_S)  # its input ends: it leaves
        finally:
            for process in processes.values():
                process.kill()
                process.wait()
        asyncio.run(settled(tmp_path))
    for name in NAMES:
        bodies, suspicions, numbers = asyncio.run(look(tmp_path, name))
        assert sorted(map(int, bodies)) == list(range(count)), "each once"
        assert suspicions == [], "a key used twice would be a replay to its reader, or would not open"
        for given in numbers.values():
            assert given == list(range(len(given))), "no number twice, none left out"

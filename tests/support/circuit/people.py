"""Real clients that reach a mesh of node processes through circuits, or directly."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from restante.cli.node.local_network import LocalNode, make_nodes, running, wait_until_answering
from restante.client.client import Client
from restante.client.home import ClientDirectory
from restante.client.mesh.host import CircuitMode
from restante.policy.settings import Settings
from restante.runtime.system import SystemClock, SystemEntropy
from support.relay.node_processes import free_port
from support.system.wait_until import until

ARRIVES_S = 60.0


@contextlib.contextmanager
def node_processes(base: Path, count: int) -> Iterator[list[LocalNode]]:
    """Nodes with all roles that know each other."""
    made = made_nodes(base, count)
    with running(made):
        wait_until_answering(made)
        until(lambda: all(known_nodes(each) == count for each in made))
        yield made


def made_nodes(base: Path, count: int) -> list[LocalNode]:
    """Make nodes that ping twice a second, so that they soon know of each other."""
    made = make_nodes(base, count, port=free_port(), status_port=free_port())
    for node in made:
        text = node.directory.config.read_text("utf-8")
        text = re.sub(r"# ping_interval_ms = .*", "ping_interval_ms = 500", text, count=1)
        node.directory.config.write_text(text, "utf-8")
    return made


def known_nodes(node: LocalNode) -> int:
    return 1 + len(((node.look() or {}).get("mesh") or {}).get("peers", ()))


def kill(node: LocalNode) -> None:
    """End the process as `kill -9` does."""
    assert node.process is not None
    node.process.kill()
    node.process.wait()


def home_of(base: Path, nodes: Sequence[LocalNode], circuits: CircuitMode = CircuitMode.REQUIRED) -> Path:
    """Make the directory of a client of this mesh."""
    bootstrap = [node.place for node in nodes[:3]]
    home = ClientDirectory(base)
    home.create(None, SystemEntropy(), mesh=bootstrap, circuits=circuits, now_ms=SystemClock().now_ms())
    return base


@contextlib.asynccontextmanager
async def pair(
    base: Path, nodes: Sequence[LocalNode], *, settings: Settings | None = None
) -> AsyncIterator[tuple[Client, Client]]:
    """Two running clients that are contacts of each other, each under the name `peer`."""
    homes = [home_of(base / name, nodes) for name in ("alice", "bob")]
    async with (
        Client.open(homes[0], settings=settings, receive_delay_s=0.0) as alice,
        Client.open(homes[1], receive_delay_s=0.0) as bob,
    ):
        await introduce(alice, bob)
        yield alice, bob


async def introduce(one: Client, other: Client, *, names: tuple[str, str] = ("peer", "peer")) -> None:
    one.contacts.add(replace(await other.as_contact(), name=names[0]))
    other.contacts.add(replace(await one.as_contact(), name=names[1]))


async def received(reader: Client, count: int, *, within_s: float = ARRIVES_S) -> list[str]:
    """Return the texts of the next messages, acknowledged."""
    texts: list[str] = []
    async with asyncio.timeout(within_s):
        async for message in reader.inbox(explicit_acks=True):
            texts.append(message.text)
            await message.ack()
            if len(texts) == count:
                break
    return texts

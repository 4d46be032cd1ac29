"""People over a mesh in memory, on virtual time."""

import asyncio
from dataclasses import replace
from pathlib import Path

from restante.client.client import Client
from restante.client.contacts import ContactBook
from restante.client.mesh.host import CircuitMode, MeshAccess
from restante.crypto.identity import Identity
from restante.model.ids import InboxKey
from restante.model.places import MeshPlace
from restante.policy.mesh.time_buckets import bucket_at
from restante.policy.settings import Settings
from restante.testing.deterministic import FakeClock, SeededEntropy
from restante.testing.memory_mesh import MemoryMesh

NODES = 12


class World:
    """A mesh and people in it, on virtual time."""

    def __init__(self, home: Path, *, nodes: int = NODES, uses_circuits: bool = False) -> None:
        """Clients use circuits only with `support.circuit.memory_circuits`: the nodes are in this memory."""
        self.home = home
        self._circuits = CircuitMode.REQUIRED if uses_circuits else CircuitMode.OFF
        self.clock = FakeClock()
        self.mesh = MemoryMesh(nodes, self.clock)
        self.began = bucket_at(self.clock.now_ms())

    def reads(self) -> int:
        """Return how many FETCH and SUBSCRIBE requests the nodes got."""
        return sum(each in ("fetch", "mesh_subscribe") for node in self.mesh.nodes for each in node.requests)

    def keys(self) -> set[InboxKey]:
        """Return the inbox keys under which any node stores mail."""
        return {key for _, key, _ in self.mesh.holders()}

    def client(self, name: str, **more: int | None) -> Client:
        """Return a client. `since` is the first bucket in which it can have mail; None reads all of 30 days.

        `run` is another number for each run of a client that sends in several: its random bytes follow from it.
        """
        seed = int.from_bytes(name.encode(), "big") + (more.get("run") or 0)
        access = MeshAccess(
            bootstrap=self.mesh.bootstrap(),
            since=more.get("since", self.began),
            connect=self.mesh.connect,
            circuits=self._circuits,
        )
        return Client(
            self.home / f"{name}.db",
            Identity(name.encode().ljust(32, b"!")),
            contacts=ContactBook(self.home / f"contacts of {name}"),
            places=(MeshPlace(),),
            settings=Settings(),
            clock=self.clock,
            entropy=SeededEntropy(seed),
            mesh=access,
            receive_delay_s=0.0,
        )


async def introduced(alice: Client, bob: Client) -> None:
    for one, other in ((alice, bob), (bob, alice)):
        one.contacts.add(replace(await other.as_contact(), name="peer"))


async def received(client: Client, count: int) -> list[str]:
    texts: list[str] = []
    async with asyncio.timeout(3_600):
        async for message in client.inbox():
            texts.append(message.text)
            if len(texts) == count:
                return texts
    return texts


async def until_connected(client: Client) -> None:
    """Return when the client has read both its inboxes."""
    async with asyncio.timeout(600):
        while not client.was_connected:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.1)

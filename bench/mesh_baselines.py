"""`kademlia` (PyPI) as a peer of the mesh: node processes on loopback and one client node that sets and gets.

It runs as its documentation shows, with its default k of 20 and alpha of 3, and with receive buffers that lose nothing.

The client keeps no values itself: with fewer nodes than its k of 20 it would be among the closest of every key, and a
get would end in its own memory.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import IO, Final

from kademlia.network import Server
from kademlia.storage import ForgetfulStorage

from bench.kademlia_node import LOOPBACK, listening
from bench.measure import Cost, cost_of, in_flight

ROUTING_SETTLES_S: Final = 1.0


class KeepsNothing(ForgetfulStorage):  # type: ignore[misc]  # the package has no types
    """The storage of a node that only asks others."""

    def __setitem__(self, key: bytes, value: object) -> None:
        pass


class KademliaNode:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._lines: tuple[IO[str], IO[str]] = process.stdin, process.stdout
        self.pid = process.pid
        assert self._lines[1].readline() == "ready\n"

    def values(self) -> int:
        """Return how many values the node holds."""
        asked, answers = self._lines
        asked.write("\n")
        asked.flush()
        return int(answers.readline())


@contextmanager
def kademlia_nodes(count: int, *, port: int) -> Iterator[list[KademliaNode]]:
    """Run the nodes; all bootstrap from the first."""
    with ExitStack() as stack:
        nodes = []
        for number in range(count):
            bootstrap = [str(port)] if number else []
            command = [sys.executable, "-m", "bench.kademlia_node", str(port + number), *bootstrap]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.callback(process.communicate)  # its standard input ends
            nodes.append(process)
        yield [KademliaNode(process) for process in nodes]


@dataclass(frozen=True, slots=True, kw_only=True)
class KademliaCosts:
    """What sets and gets cost, and how many nodes held each value. `narrow_get` asks one node at a time (alpha 1)."""

    set: Cost
    get: Cost
    narrow_get: Cost
    copies: float


async def measure_kademlia(
    nodes: list[KademliaNode], *, port: int, sets: int, gets: int, width: int, value: bytes
) -> KademliaCosts:
    """Set and get so many values, `width` at a time, through one client node."""
    wide, narrow = Server(storage=KeepsNothing()), Server(storage=KeepsNothing(), alpha=1)
    processes = [os.getpid(), *(node.pid for node in nodes)]
    warm_up = sets // 5
    missed: list[int] = []

    async def store(number: int) -> None:
        assert await wide.set(f"key {number}", value)

    async def get(client: Server, number: int) -> None:
        missed.extend([number] if await client.get(f"key {number % sets}") != value else [])

    try:
        for number, client in enumerate((wide, narrow)):
            await listening(client, port + len(nodes) + number)
            await client.bootstrap([(LOOPBACK, port + each) for each in range(len(nodes))])
        await asyncio.sleep(ROUTING_SETTLES_S)  # its nodes welcome new ones in the background
        await in_flight(store, range(sets, sets + warm_up), width)
        set_cost = await cost_of(store, range(sets), width, processes=processes)
        held = sum(node.values() for node in nodes)
        get_cost = await cost_of(partial(get, wide), range(gets), width, processes=processes)
        narrow_cost = await cost_of(partial(get, narrow), range(gets), width, processes=processes)
    finally:
        wide.stop()
        narrow.stop()
    if missed:
        print(f"kademlia did not find {len(missed)} of {2 * gets} values")
    return KademliaCosts(set=set_cost, get=get_cost, narrow_get=narrow_cost, copies=held / (sets + warm_up))

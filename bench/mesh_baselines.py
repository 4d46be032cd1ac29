"""`kademlia` (PyPI) as a peer of the mesh: node processes on loopback and one client node that sets and gets.

It runs as its documentation shows, with its default k of 20 and alpha of 3, and with receive buffers that lose nothing.

The client keeps no values itself: with fewer nodes than its k of 20 it would be among the closest of every key, and a
get would end in its own memory.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, Final

from kademlia.network import Server
from kademlia.storage import ForgetfulStorage

from bench.kademlia_node import LOOPBACK, listening
from bench.measure import in_flight

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
class KademliaRates:
    """Sets and gets a second, and how many nodes held each value. `narrow_gets` ask one node at a time (alpha 1)."""

    sets: float
    gets: float
    narrow_gets: float
    copies: float


async def measure_kademlia(
    nodes: list[KademliaNode], *, port: int, sets: int, gets: int, width: int, value: bytes
) -> KademliaRates:
    """Set and get so many values, `width` at a time, through one client node."""
    wide, narrow = Server(storage=KeepsNothing()), Server(storage=KeepsNothing(), alpha=1)
    try:
        for number, client in enumerate((wide, narrow)):
            await listening(client, port + len(nodes) + number)
            await client.bootstrap([(LOOPBACK, port + each) for each in range(len(nodes))])
        await asyncio.sleep(ROUTING_SETTLES_S)  # its nodes welcome new ones in the background

        async def store(number: int) -> None:
            assert await wide.set(f"key {number}", value)

        began = time.perf_counter()
        await in_flight(store, range(sets), width)
        stored_s = time.perf_counter() - began
        held = sum(node.values() for node in nodes)
        return KademliaRates(
            sets=sets / stored_s,
            gets=await _get_rate(wide, keys=sets, gets=gets, width=width, value=value),
            narrow_gets=await _get_rate(narrow, keys=sets, gets=gets, width=width, value=value),
            copies=held / sets,
        )
    finally:
        wide.stop()
        narrow.stop()


async def _get_rate(client: Server, *, keys: int, gets: int, width: int, value: bytes) -> float:
    missed: list[int] = []

    async def get(number: int) -> None:
        missed.extend([number] if await client.get(f"key {number % keys}") != value else [])

    began = time.perf_counter()
    await in_flight(get, range(gets), width)
    took_s = time.perf_counter() - began
    if missed:
        print(f"kademlia did not find {len(missed)} of {gets} values")
    return (gets - len(missed)) / took_s

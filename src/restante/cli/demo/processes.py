"""The demo's actors, each a process of its own: one relay and two clients, on loopback.

Started by cli/demo/orchestrator as `python -m restante.cli.demo.processes '{...}'`. Each reports what it does as JSON
lines on its standard output, and ships its journal before it ends.
"""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from restante.client.client import Client
from restante.client.home import ClientDirectory
from restante.client.relay.connector import connect_by_tls
from restante.crypto.identity import Identity
from restante.model.ids import Address
from restante.model.places import RelayPlace
from restante.node.relay import Relay
from restante.policy.retry import RetrySchedule
from restante.policy.settings import Settings
from restante.ports.relay_connection import RelayConnection
from restante.runtime.identity_files import load_identity
from restante.runtime.journal.node_identity import append_node_started
from restante.runtime.journal.segment_directory import DirectoryDepot
from restante.runtime.journal.segment_writer import ship
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.group_commit import GroupCommit
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.mailbox.store import SqliteMailbox
from restante.runtime.system import SystemClock, SystemEntropy
from restante.testing.deterministic import SeededEntropy
from restante.testing.lossy_connection import FaultCounts, Faults, LossyConnection
from restante.wire.inbox_keys import node_id_of

LOOPBACK: Final = "127.0.0.1"
BACKLOG: Final = 64  # messages the sender keeps waiting; a relay lane would evict beyond 256 (SPEC 3.6)
TICK_S: Final = 0.05
SETTINGS: Final = Settings(retry=RetrySchedule(base_ms=100))  # the shortest SPEC 4.1 allows: a demo should not wait
DEMO_FAULTS: Final = Faults(request_lost=0.04, answer_lost=0.04, put_twice=0.05, blob_twice=0.05, blob_late=0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one process is told. `port` 0 lets the relay choose."""

    role: str
    home: str
    segments: str
    port: int = 0
    peer: str = ""
    messages: int = 0
    seed: int = 0


def message_text(number: int) -> bytes:
    return f"message {number}".encode()


def say(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


async def play_relay(part: Part) -> None:
    identity = load_identity(Path(part.home) / "identity")
    database = Database(Path(part.home) / "node.db", schema="node")
    journal = Journal(database, SystemEntropy())
    store = SqliteMailbox(database, journal, tag_secret=identity.tag_secret)
    append_node_started(database, journal, node_id_of(identity.node_key), now_ms=SystemClock().now_ms())
    commits = GroupCommit(database)
    relay = Relay(identity, store, commits=commits, settings=SETTINGS, clock=SystemClock(), entropy=SystemEntropy())
    server = await relay.listen(LOOPBACK, part.port)
    say(event="listening", port=server.sockets[0].getsockname()[1])
    await _asked_to_stop()
    await relay.stop()
    commits.close()
    store.close()
    say(event="done", segments=_shipped(journal, part))
    database.close()


def _shipped(journal: Journal, part: Part) -> int:
    return len(ship(journal, DirectoryDepot(Path(part.segments))))


def _shipped_by_client(part: Part) -> int:
    """Once it is closed: until then a commit may still be under way, and the file has one writer."""
    database = Database(ClientDirectory(Path(part.home)).database, schema="client")
    try:
        return _shipped(Journal(database, SystemEntropy()), part)
    finally:
        database.close()


async def play_sender(part: Part) -> None:
    client = _open_client(part)
    counts = FaultCounts()
    accepted = 0
    async with _connected(client, part, counts):
        while accepted < part.messages or await _in_flight(client):
            while accepted < part.messages and await _in_flight(client) < BACKLOG:
                await client.send(_peer(client, part), message_text(accepted))
                accepted += 1
            say(event="progress", accepted=accepted)
            await asyncio.sleep(TICK_S)
    await client.close()
    say(event="done", segments=_shipped_by_client(part), faults=asdict(counts), accepted=accepted)


async def play_receiver(part: Part) -> None:
    client = _open_client(part)
    counts = FaultCounts()
    stopping = asyncio.ensure_future(_asked_to_stop())
    bodies: list[str] = []
    async with _connected(client, part, counts):
        while not (stopping.done() and await client.is_settled()):
            bodies += [message.text async for message in client.inbox(follow=False)]
            say(event="progress", received=len(bodies))
            await asyncio.sleep(TICK_S)
    await client.close()
    say(event="done", segments=_shipped_by_client(part), faults=asdict(counts), bodies=bodies)


def _open_client(part: Part) -> Client:
    return Client.open(part.home, settings=SETTINGS)


def _peer(client: Client, part: Part) -> Address:
    return client.contacts.named(part.peer).address


async def _in_flight(client: Client) -> int:
    return sum((await client.outbox.counts()).values())


@contextlib.asynccontextmanager
async def _connected(client: Client, part: Part, counts: FaultCounts) -> AsyncIterator[None]:
    """The client works over a bad network until the block ends."""
    dice = SeededEntropy(part.seed)

    async def connect(relay: RelayPlace, owner: Identity | None) -> RelayConnection:
        return LossyConnection(await connect_by_tls(relay, owner), DEMO_FAULTS, dice, counts)

    working = asyncio.create_task(client.run(connect))
    try:
        yield
        if working.done():
            await working
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def _asked_to_stop() -> None:
    """Until SIGTERM."""
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    await asked.wait()


async def _play(part: Part) -> None:
    """One part to its end, or until the stage that started it is gone."""
    play: dict[str, Callable[[Part], Coroutine[None, None, None]]] = {
        "relay": play_relay,
        "sender": play_sender,
        "receiver": play_receiver,
    }
    playing = asyncio.create_task(play[part.role](part))
    stage_gone = asyncio.create_task(_stage_gone())
    done, waiting = await asyncio.wait({playing, stage_gone}, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await asyncio.gather(*done)


async def _stage_gone() -> None:
    """Until standard input ends, which happens even when the stage is killed."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


def main() -> None:
    part = Part(**json.loads(sys.argv[1]))
    asyncio.run(_play(part))


if __name__ == "__main__":
    main()

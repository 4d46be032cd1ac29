"""The processes of the demo: one relay and two clients, on loopback.

Started by cli/demo/orchestrator as `python -m restante.cli.demo.processes '{...}'`. Each prints its progress as
JSON lines and ships its journal before it ends.
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
from restante.core.inboxes.relay_inbox import OwnInbox
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
SETTINGS: Final = Settings(
    retry=RetrySchedule(base_ms=100)
)  # the shortest that SPEC 4.1 allows, so that the demo is quick
DEMO_FAULTS: Final = Faults(request_lost=0.04, answer_lost=0.04, put_twice=0.05, blob_twice=0.05, blob_late=0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessConfig:
    """The arguments of one process. With `port` 0 the relay chooses one."""

    role: str
    home: str
    segments: str
    port: int = 0
    peer: str = ""
    messages: int = 0
    seed: int = 0


def message_text(number: int) -> bytes:
    return f"message {number}".encode()


def report(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


async def run_relay(config: ProcessConfig) -> None:
    identity = load_identity(Path(config.home) / "identity")
    database = Database(Path(config.home) / "node.db", schema="node")
    journal = Journal(database, SystemEntropy())
    store = SqliteMailbox(database, journal, tag_secret=identity.tag_secret)
    append_node_started(database, journal, node_id_of(identity.node_key), now_ms=SystemClock().now_ms())
    commits = GroupCommit(database)
    relay = Relay(identity, store, commits=commits, settings=SETTINGS, clock=SystemClock(), entropy=SystemEntropy())
    server = await relay.listen(LOOPBACK, config.port)
    report(event="listening", port=server.sockets[0].getsockname()[1])
    await _asked_to_stop()
    await relay.stop()
    commits.close()
    store.close()
    report(event="done", segments=_shipped(journal, config))
    database.close()


def _shipped(journal: Journal, config: ProcessConfig) -> int:
    return len(ship(journal, DirectoryDepot(Path(config.segments))))


def _shipped_by_client(config: ProcessConfig) -> int:
    """Ship the journal of a closed client. An open one may be committing, and a file has one writer."""
    database = Database(ClientDirectory(Path(config.home)).database, schema="client")
    try:
        return _shipped(Journal(database, SystemEntropy()), config)
    finally:
        database.close()


async def run_sender(config: ProcessConfig) -> None:
    client = _open_client(config)
    counts = FaultCounts()
    accepted = 0
    async with _connected(client, config, counts):
        while accepted < config.messages or await _in_flight(client):
            while accepted < config.messages and await _in_flight(client) < BACKLOG:
                await client.send(_peer(client, config), message_text(accepted))
                accepted += 1
            report(event="progress", accepted=accepted)
            await asyncio.sleep(TICK_S)
    await client.close()
    report(event="done", segments=_shipped_by_client(config), faults=asdict(counts), accepted=accepted)


async def run_receiver(config: ProcessConfig) -> None:
    client = _open_client(config)
    counts = FaultCounts()
    stopping = asyncio.ensure_future(_asked_to_stop())
    bodies: list[str] = []
    async with _connected(client, config, counts):
        while not (stopping.done() and await client.is_settled()):
            bodies += [message.text async for message in client.inbox(follow=False)]
            report(event="progress", received=len(bodies))
            await asyncio.sleep(TICK_S)
    await client.close()
    report(event="done", segments=_shipped_by_client(config), faults=asdict(counts), bodies=bodies)


def _open_client(config: ProcessConfig) -> Client:
    return Client.open(config.home, settings=SETTINGS)


def _peer(client: Client, config: ProcessConfig) -> Address:
    return client.contacts.named(config.peer).address


async def _in_flight(client: Client) -> int:
    return sum((await client.outbox.counts()).values())


@contextlib.asynccontextmanager
async def _connected(client: Client, config: ProcessConfig, counts: FaultCounts) -> AsyncIterator[None]:
    """Run the client over a lossy network until the block ends."""
    dice = SeededEntropy(config.seed)

    async def connect(relay: RelayPlace, inbox: OwnInbox | None) -> RelayConnection:
        return LossyConnection(await connect_by_tls(relay, inbox), DEMO_FAULTS, dice, counts)

    working = asyncio.create_task(client.run(connect))
    try:
        yield
        if working.done():
            await working
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def _asked_to_stop() -> None:
    """Wait for SIGTERM."""
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    await asked.wait()


async def _run(config: ProcessConfig) -> None:
    """Run one role until it is done, or until the process that started it ends."""
    roles: dict[str, Callable[[ProcessConfig], Coroutine[None, None, None]]] = {
        "relay": run_relay,
        "sender": run_sender,
        "receiver": run_receiver,
    }
    running = asyncio.create_task(roles[config.role](config))
    parent_gone = asyncio.create_task(_parent_gone())
    done, waiting = await asyncio.wait({running, parent_gone}, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await asyncio.gather(*done)


async def _parent_gone() -> None:
    """Wait until standard input is closed, which happens even if the parent is killed."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


def main() -> None:
    config = ProcessConfig(**json.loads(sys.argv[1]))
    asyncio.run(_run(config))


if __name__ == "__main__":
    main()

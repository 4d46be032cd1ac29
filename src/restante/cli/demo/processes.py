"""The processes of the demo: one relay and two clients, on loopback.

Started by cli/demo/orchestrator as `python -m restante.cli.demo.processes '{...}'`. Each prints its progress as
JSON lines and ships its journal before it ends.
"""

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from restante.client.client import Client
from restante.client.home import ClientDirectory
from restante.client.relay.connector import connect_by_tls
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.core.outbox_events import OutboxEventType
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
TICK_S: Final = 0.05
SINGLE_MESSAGES: Final = 40
SINGLE_PAUSE_S: Final = 0.02
"""After the loop the sender sends some messages with pauses, to show the latency of one message."""
SETTINGS: Final = Settings(
    retry=RetrySchedule(base_ms=100)
)  # the shortest that SPEC 4.1 allows, so that the demo is quick
DEMO_FAULTS: Final = Faults(request_lost=0.04, answer_lost=0.04, put_twice=0.05, blob_twice=0.05, blob_late=0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessConfig:
    """The arguments of one process. With `port` 0 the relay chooses one.

    In the lossy part the network has faults, and the clients ship their journals at the end.
    """

    role: str
    home: str
    segments: str
    port: int = 0
    peer: str = ""
    messages: int = 0
    seed: int = 0
    is_lossy: bool = False


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
    _ship(journal, config)
    report(event="done")
    database.close()


def _ship(journal: Journal, config: ProcessConfig) -> None:
    ship(journal, DirectoryDepot(Path(config.segments)))


def _ship_of_client(config: ProcessConfig) -> None:
    """Ship the journal of a closed client. An open one may be committing, and a file has one writer."""
    database = Database(ClientDirectory(Path(config.home)).database, schema="client")
    try:
        _ship(Journal(database, SystemEntropy()), config)
    finally:
        database.close()


async def run_sender(config: ProcessConfig) -> None:
    """Send messages in a loop. Each has its number and the time at which it was sent, by a clock of this machine."""
    client = _open_client(config)
    counts = FaultCounts()
    ended: Counter[OutboxEventType] = Counter()
    client.outbox.on_event(lambda event: ended.update([event.notice]))
    async with _connected(client, config, counts):
        began_ns = time.monotonic_ns()
        for number in range(config.messages):
            await _send(client, config, number)
        await _until_receipted(client)
        for number in range(config.messages, config.messages + (0 if config.is_lossy else SINGLE_MESSAGES)):
            await _send(client, config, number)
            await asyncio.sleep(SINGLE_PAUSE_S)
        await _until_receipted(client)
    await client.close()
    if config.is_lossy:
        _ship_of_client(config)
    report(event="done", faults=asdict(counts), began_ns=began_ns, evicted=ended[OutboxEventType.EVICTED])


async def run_receiver(config: ProcessConfig) -> None:
    client = _open_client(config)
    counts = FaultCounts()
    stopping = asyncio.ensure_future(_asked_to_stop())
    numbers: list[int] = []
    sent_ns: list[int] = []
    arrived_ns: list[int] = []

    async def read() -> None:
        async for message in client.inbox():
            arrived_ns.append(time.monotonic_ns())
            number, at_ns = message.text.split()
            numbers.append(int(number))
            sent_ns.append(int(at_ns))

    async with _connected(client, config, counts):
        reading = asyncio.create_task(read())
        while not (stopping.done() and await client.is_settled()):
            report(event="progress", received=len(numbers))
            await asyncio.sleep(TICK_S)
    await client.close()
    await reading
    if config.is_lossy:
        _ship_of_client(config)
    report(event="done", faults=asdict(counts), numbers=numbers, sent_ns=sent_ns, arrived_ns=arrived_ns)


async def _send(client: Client, config: ProcessConfig, number: int) -> None:
    await client.send(config.peer, f"{number} {time.monotonic_ns()}")


async def _until_receipted(client: Client) -> None:
    while sum((await client.outbox.counts()).values()):  # noqa: ASYNC110 - acks of its own count, too: no event for all
        await asyncio.sleep(TICK_S)


def _open_client(config: ProcessConfig) -> Client:
    # Without the random delay that hides which connections belong together (SPEC 6.5): here they all do.
    return Client.open(config.home, settings=SETTINGS, receive_delay_s=0.0)


@contextlib.asynccontextmanager
async def _connected(client: Client, config: ProcessConfig, counts: FaultCounts) -> AsyncIterator[None]:
    """Run the client until the block ends, in the lossy part over a lossy network."""
    dice = SeededEntropy(config.seed)
    faults = DEMO_FAULTS if config.is_lossy else Faults()

    async def connect(relay: RelayPlace, inbox: OwnInbox | None) -> RelayConnection:
        return LossyConnection(await connect_by_tls(relay, inbox), faults, dice, counts)

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

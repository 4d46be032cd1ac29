"""The processes of the end-to-end benchmark: one that sends and one that receives, each with one client or several.

Run as a program with its part as JSON: `python -m bench.end_to_end_actors '{"role": "send", …}'`. It answers with one
JSON object a line. When its standard input ends it waits until nothing is in flight, says its final states and ends.
All that is known of the `Client` API is in this module.
"""

import asyncio
import json
import socket
import struct
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from restante.client.client import Client
from restante.client.relay.receiver import RECEIVE_DELAY_S
from restante.model.errors import OutboxFull
from restante.model.journal import STATE_AFTER, JournalKind
from restante.model.kinds import Kind

BODY_BYTES: Final = 1_024
HEAD: Final = struct.Struct(">IQ")  # number in its conversation, monotonic time of the call of `send` in ns
TELL_EACH: Final = 20
SETTLE_S: Final = 120.0
FULL_PAUSE_S: Final = 0.02
JOURNAL_PAGE: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a process does. `contacts` names the recipients of each home; `count` is for each conversation."""

    role: str
    homes: list[str]
    contacts: list[list[str]] = field(default_factory=list)
    count: int = 0
    turns: str | None = None
    """A socket at which the recipient says that its application has a message: then the next one is sent."""
    pause_s: float = 0.0
    """Between two messages of a conversation; conversations begin at different moments of a pause."""
    receive_delay_s: float = RECEIVE_DELAY_S
    """The longest random wait before the first receiving connection: only a start takes longer with it."""
    warm_up: int = 0
    """So many messages of each conversation are not counted in latencies: the first one opens a session."""

    def as_text(self) -> str:
        return json.dumps(asdict(self))


def tell(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


class Sender:
    def __init__(self, part: Part) -> None:
        self._part = part
        self.accepted = 0
        self.refused = 0
        self.first_ns = 0
        self._turns: asyncio.Queue[bytes] = asyncio.Queue()

    async def converse(self, client: Client, contact: str, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        padding = bytes(BODY_BYTES - HEAD.size)
        for number in range(self._part.count):
            now_ns = time.monotonic_ns()
            self.first_ns = self.first_ns or now_ns
            body = HEAD.pack(number, now_ns) + padding
            while True:
                try:
                    await client.send(contact, body)
                    break
                except OutboxFull:
                    self.refused += 1
                    await asyncio.sleep(FULL_PAUSE_S)
            self.accepted += 1
            if self.accepted % TELL_EACH == 0:
                tell(accepted=self.accepted)
            if self._part.turns is not None:
                await self._turns.get()
            if self._part.pause_s:
                await asyncio.sleep(self._part.pause_s)

    async def run(self, clients: list[Client]) -> None:
        if self._part.turns is not None:
            await self._listen(self._part.turns)
        pairs = [
            (client, contact)
            for client, contacts in zip(clients, self._part.contacts, strict=True)
            for contact in contacts
        ]
        step_s = self._part.pause_s / len(pairs)
        await asyncio.gather(*(self.converse(*pair, step_s * at) for at, pair in enumerate(pairs)))
        tell(done=self.accepted, refused=self.refused, first_ns=self.first_ns, last_ns=time.monotonic_ns())

    async def _listen(self, path: str) -> None:
        turns = self._turns

        class Turns(asyncio.DatagramProtocol):
            def datagram_received(self, data: bytes, _from: object) -> None:
                turns.put_nowait(data)

        taken = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        taken.bind(path)
        await asyncio.get_running_loop().create_datagram_endpoint(Turns, sock=taken)


class Receiver:
    def __init__(self, part: Part) -> None:
        self._part = part
        self._turns = None if part.turns is None else socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._all = asyncio.Event()
        self.arrived = 0
        self.out_of_order = 0
        self.last_ns = 0
        self.latencies_ns: list[int] = []

    async def receive(self, client: Client) -> None:
        expected: Counter[bytes] = Counter()
        async for message in client.inbox():
            now_ns = time.monotonic_ns()
            number, sent_ns = HEAD.unpack_from(message.body)
            self.out_of_order += number != expected[message.sender]
            expected[message.sender] = number + 1
            if number >= self._part.warm_up:
                self.latencies_ns.append(now_ns - sent_ns)
            self.arrived += 1
            self.last_ns = now_ns
            if self._turns is not None and self._part.turns is not None:
                self._turns.sendto(b"", self._part.turns)
            if self.arrived % TELL_EACH == 0:
                tell(arrived=self.arrived)
            if self.arrived == self._part.count:
                self._all.set()

    async def run(self, clients: list[Client]) -> None:
        tasks = [asyncio.create_task(self.receive(client)) for client in clients]
        ended = asyncio.create_task(self._all.wait())
        await asyncio.wait([ended, *tasks], return_when=asyncio.FIRST_COMPLETED)
        tell(
            done=self.arrived,
            out_of_order=self.out_of_order,
            last_ns=self.last_ns,
            latencies_us=[round(latency / 1_000) for latency in self.latencies_ns],
        )


async def settle(clients: list[Client]) -> None:
    """Until every message of these clients has its receipt; not longer than `SETTLE_S`."""
    until = time.monotonic() + SETTLE_S
    while time.monotonic() < until:
        if all([await client.is_settled() for client in clients]):
            return
        await asyncio.sleep(0.1)


def states(client: Client) -> Counter[str]:
    """The last state of each text message that this client accepted, as its journal has it."""
    last: dict[bytes, str] = {}
    after = 0
    while rows := list(client.journal.events(after=after, limit=JOURNAL_PAGE)):
        after += len(rows)
        for row in rows:
            if row.message_id is None or (row.kind is JournalKind.ACCEPTED and row.message_kind is not Kind.TEXT):
                continue
            if row.kind in STATE_AFTER and (row.kind is JournalKind.ACCEPTED or row.message_id in last):
                last[row.message_id] = STATE_AFTER[row.kind].value
    return Counter(last.values())


async def play(part: Part) -> None:
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(Client.open(home, receive_delay_s=part.receive_delay_s))
            for home in part.homes
        ]
        while not all(client.was_connected for client in clients):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
        tell(ready=len(clients))
        actor: Sender | Receiver = Sender(part) if part.role == "send" else Receiver(part)
        work = asyncio.create_task(actor.run(clients))
        await loop.run_in_executor(None, sys.stdin.buffer.read)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await settle(clients)
        found: Counter[str] = Counter()
        for client in clients:
            found += states(client)
    tell(states=dict(found))


def main(argv: list[str]) -> None:
    values: dict[str, Any] = json.loads(argv[0])
    asyncio.run(play(Part(**values)))


if __name__ == "__main__":
    Path(".run").mkdir(exist_ok=True)
    main(sys.argv[1:])

"""The people of the demo: each has a client's directory, as `restante id new` makes it, and the `Client` of it."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from restante.client.application.sent_message import SentMessage
from restante.client.client import Client
from restante.client.home import ClientDirectory
from restante.model.places import RelayPlace
from restante.policy.retry import RetrySchedule
from restante.policy.settings import Settings
from restante.runtime.system import SystemClock, SystemEntropy

LOOK_S: Final = 0.05
ARRIVES_S: Final = 60.0
SETTINGS: Final = Settings(retry=RetrySchedule(base_ms=100, max_attempts=5))
"""The shortest waits and the fewest attempts that SPEC 4.1 allows, so that the demo is quick."""


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    home: ClientDirectory
    segments: Path

    def open(self) -> Client:
        # Without the random delay that hides which connections belong together (SPEC 6.5): here they all do.
        return Client.open(self.home.path, settings=SETTINGS, ship_to=str(self.segments), receive_delay_s=0.0)


class Arrived(NamedTuple):
    """The text of a message and how long it took to its reader, by the clock of this machine."""

    text: str
    latency_ms: float


def create(
    base: Path, name: str, segments: Path, *, mesh: Sequence[RelayPlace] = (), relay: RelayPlace | None = None
) -> Person:
    person = Person(name, ClientDirectory(base / name), segments)
    person.home.create(relay, SystemEntropy(), mesh=mesh, now_ms=SystemClock().now_ms())
    return person


async def meet(one: Person, other: Person) -> None:
    """Let both add the other's contact file, as `restante id export` and `restante contact add` do."""
    first, second = one.open(), other.open()
    first.contacts.add(replace(await second.as_contact(), name=other.name))
    second.contacts.add(replace(await first.as_contact(), name=one.name))
    await first.close()
    await second.close()


async def send_numbered(
    client: Client, to: str, numbers: Sequence[int], *, pause_s: float = 0.0, ahead: int = 1_000
) -> None:
    """Send texts with a number and the time of sending, at most `ahead` of them without a receipt."""
    sent: deque[SentMessage] = deque()
    for number in numbers:
        if len(sent) == ahead:
            await sent.popleft().delivered(ARRIVES_S)
        sent.append(await client.send(to, f"{number} {time.monotonic_ns()}"))
        await asyncio.sleep(pause_s)


async def receive(client: Client, count: int, *, within_s: float = ARRIVES_S) -> list[Arrived]:
    """Return the next messages that the application gets; fewer if they do not come in time."""
    arrived: list[Arrived] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            async for message in client.inbox(explicit_acks=True):
                _, _, sent_ns = message.text.rpartition(" ")
                arrived.append(Arrived(message.text, (time.monotonic_ns() - int(sent_ns)) / 1e6))
                await message.ack()
                if len(arrived) == count:
                    break
    return arrived


def are_in_order(arrived: Sequence[Arrived], numbers: Sequence[int]) -> bool:
    """Return whether these are the messages with these numbers, each once, in this order."""
    return [each.text.split()[0] for each in arrived] == [str(number) for number in numbers]


async def settle(*clients: Client) -> None:
    """Wait until nothing of these clients is in flight: every message has its receipt, every ack was sent."""

    async def are_settled() -> bool:
        return all([await each.is_settled() for each in clients])

    await until(are_settled)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the condition holds; raise `TimeoutError` if it does not in time."""
    async with asyncio.timeout(ARRIVES_S):
        while not await condition():  # noqa: ASYNC110 - it depends on the files of several clients: no event for all
            await asyncio.sleep(LOOK_S)


@contextlib.asynccontextmanager
async def online(*people: Person) -> AsyncIterator[list[Client]]:
    """Run the clients of these people until the block ends."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(person.open()) for person in people]

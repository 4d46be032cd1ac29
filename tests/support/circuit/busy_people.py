"""People who come and go while they write to each other through circuits, and nodes that are killed meanwhile."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from restante.cli.node.local_network import LocalNode, start, wait_until_answering
from restante.client.client import Client
from restante.model.states import State
from support.circuit.people import home_of, introduce, kill
from support.system.wait_until import LOOK_S

UNSENT = {State.PENDING, State.SENDING}


@dataclass
class Person:
    """Writes `texts` to the next person, and reads what the one before writes."""

    home: Path
    texts: list[str]
    expects: list[str]
    visits: int
    dice: random.Random
    got: list[str] = field(default_factory=list)

    async def live(self) -> None:
        """Come, write a part, read for a while and leave, until everything was stored and read.

        A visit is counted from when the inboxes were read: on a busy machine a person may wait for circuits first.
        """
        size = -(-len(self.texts) // self.visits)
        parts = [self.texts[at : at + size] for at in range(0, len(self.texts), size)]
        is_done = False
        while not is_done:
            async with Client.open(self.home, receive_delay_s=0.0) as client:
                if parts:
                    await client.send_many("next", parts.pop(0))
                await self._read(client, within_s=self.dice.uniform(1.0, 3.0))
                unsent = (await client.outbox.counts()).keys() & UNSENT
                is_done = not parts and not unsent and len(self.got) >= len(self.expects)
            await asyncio.sleep(self.dice.uniform(0.0, 0.5))

    async def _read(self, client: Client, *, within_s: float) -> None:
        while not client.was_connected:  # noqa: ASYNC110 - the limit of the whole load is the limit
            await asyncio.sleep(LOOK_S)
        leaves_s = asyncio.get_running_loop().time() + within_s
        messages = client.inbox(explicit_acks=True)
        try:
            while len(self.got) < len(self.expects) or (await client.outbox.counts()).keys() & UNSENT:
                async with asyncio.timeout_at(leaves_s):
                    message = await anext(messages)
                self.got.append(message.text)
                await message.ack()
        except TimeoutError:
            return


async def made_people(
    base: Path, nodes: Sequence[LocalNode], *, count: int, messages: int, visits: int, seed: int
) -> list[Person]:
    """Return people in a ring; each has the next one as a contact."""
    texts = [[f"{number} writes {each}" for each in range(messages)] for number in range(count)]
    people = [
        Person(
            home_of(base / str(number), nodes),
            texts[number],
            texts[number - 1],
            visits,
            random.Random(f"{seed} {number}"),  # noqa: S311 - reproducible on purpose
        )
        for number in range(count)
    ]
    for number, person in enumerate(people):
        one, other = Client.open(person.home), Client.open(people[(number + 1) % count].home)
        await introduce(one, other, names=("next", "before"))
        await one.close()
        await other.close()
    return people


async def kill_in_turn(nodes: Sequence[LocalNode], *, kills: int, dice: random.Random) -> None:
    """Kill one node after the other, each back with its disk before the next dies."""
    for _ in range(kills):
        victim = dice.choice(nodes)
        await asyncio.to_thread(kill, victim)
        await asyncio.sleep(dice.uniform(0.2, 1.0))
        start(victim)
        await asyncio.to_thread(wait_until_answering, [victim])


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    people: int
    messages: int
    visits: int
    kills: int
    seed: int = 5


async def everything_arrives_once_in_order(base: Path, nodes: Sequence[LocalNode], load: Load) -> None:
    """Let the people write to each other while nodes are killed; check what each of them read."""
    people = await made_people(
        base, nodes, count=load.people, messages=load.messages, visits=load.visits, seed=load.seed
    )
    dice = random.Random(load.seed)  # noqa: S311 - reproducible on purpose
    async with asyncio.timeout(60 + load.people * load.messages / 4):
        await asyncio.gather(kill_in_turn(nodes, kills=load.kills, dice=dice), *(person.live() for person in people))
    for person in people:
        assert person.got == person.expects

"""Walks over two real clients with SQLite files: forgeries, restores, loss, repeats, delays; honest rounds heal all.

Each walk is a random list of acts from a seed. After it the network is lost and both sides exchange mail for four days.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from restante.core.peer_sessions import PeerSessions, current_session
from restante.model.ids import SessionId
from restante.testing.deterministic import SeededEntropy
from support.client.client_pairs import bodies
from support.client.restored_clients import DAY_MS, NAMES, Pair, forged
from support.spec.clauses import clause
from support.system.soak import first_now_rest_in_soak

WALKS = range(400)
WALKS_IN_MAKE_TEST = 4
ACTS = 18
Key = tuple[object, ...]


@dataclass
class Walk:
    """One walk. `network` holds every envelope that left a side; any of them may arrive at any time, or never."""

    pair: Pair
    chance: SeededEntropy
    network: dict[str, list[bytes]] = field(default_factory=lambda: {"alice": [], "bob": []})
    said: dict[str, list[bytes]] = field(default_factory=lambda: {"alice": [], "bob": []})
    states: set[Key] = field(default_factory=set)
    has_backup: set[str] = field(default_factory=set)
    rolled_back: bool = False

    def below(self, limit: int) -> int:
        return int.from_bytes(self.chance.draw(4), "big") % limit

    async def say(self, name: str) -> None:
        text = b"%s %d" % (name.encode(), len(self.said[name]))
        self.said[name].append(text)
        await self.pair.say(name, text)

    async def send(self, name: str) -> None:
        await self.pair.clients[name].run_maintenance()
        self.network[self.pair.other(name)] += await self.pair.collect(name)

    async def deliver(self, name: str) -> None:
        held = self.network[name]
        if held:
            await self.pair.deliver(name, [held[self.below(len(held))]])

    async def forge(self, name: str) -> None:
        held = [one for client in self.pair.clients.values() for one in await client.sessions()]
        session = held[self.below(len(held))].session_id if held and self.below(2) else self.chance.draw(32)
        sender = self.pair.clients[self.pair.other(name)].identity.address
        card = self.pair.clients[name].identity.card
        await self.pair.deliver(name, [forged(sender, card, SessionId(session), 1 + self.below(5), self.chance)])

    async def wait(self, _name: str) -> None:
        self.pair.clock.advance((300_000, DAY_MS)[self.below(2)])
        for name in NAMES:
            await self.pair.clients[name].run_maintenance()

    async def back_up(self, name: str) -> None:
        await self.pair.back_up(name)
        self.has_backup.add(name)

    async def restore(self, name: str) -> None:
        if name in self.has_backup:
            self.rolled_back = True
            await self.pair.restore(name, is_noticed=bool(self.below(2)))

    async def act(self) -> None:
        acts: list[Callable[[str], Awaitable[None]]] = [
            self.say, self.send, self.send, self.deliver, self.deliver, self.deliver, self.forge, self.wait,
            self.back_up, self.restore, self.pair.reopen,
        ]  # fmt: skip
        name = NAMES[self.below(2)]
        before = {each: current_session(self._peer(each)) for each in NAMES}
        act = acts[self.below(len(acts))]
        await act(name)
        if act == self.forge:
            assert before == {each: current_session(self._peer(each)) for each in NAMES}
        self.states.add(self.key())

    def _peer(self, name: str) -> PeerSessions:
        client = self.pair.clients[name]
        return client.parts.sessions.peer(self.pair.clients[self.pair.other(name)].identity.address)

    def key(self) -> Key:
        return tuple(
            (self._peer(name), tuple(sorted(bodies(self.pair.clients[name], self.pair.clock)))) for name in NAMES
        )

    async def heal(self) -> None:
        """The old network is lost; both sides talk for some days."""
        last: dict[str, list[bytes]] = {name: [] for name in NAMES}
        for turn in range(4):
            self.pair.clock.advance(DAY_MS)
            for name in NAMES:
                text = b"%s heals %d" % (name.encode(), turn)
                last[name].append(text)
                await self.pair.say(name, text)
            await self.pair.round_trip()
            await self.pair.round_trip()
        assert len(await self.pair.current()) == 1, "one common session"
        for _ in range(4):  # what was lost is stored once more after a day, and acknowledged within 6 h
            self.pair.clock.advance(DAY_MS)
            await self.pair.round_trip()
        for name in NAMES:
            shown = bodies(self.pair.clients[name], self.pair.clock)
            assert len(shown) == len(set(shown)), "nothing is shown twice"
            assert set(last[self.pair.other(name)]) <= set(shown)
            if not self.rolled_back:
                assert set(self.said[self.pair.other(name)]) <= set(shown)
            assert await self.pair.clients[name].outbox.counts() == {}


async def walk(home: Path, seed: int) -> int:
    pair = Pair(home)
    await pair.meet()
    one = Walk(pair, SeededEntropy(seed))
    try:
        if seed % 2:
            for name in NAMES:
                await one.say(name)
            await pair.round_trip()
            await pair.round_trip()
        for _ in range(ACTS):
            await one.act()
        await one.heal()
    finally:
        await pair.close()
    return len(one.states)


@clause("8.7", "8.12")
@pytest.mark.parametrize("seed", first_now_rest_in_soak(WALKS, now=WALKS_IN_MAKE_TEST))
def test_two_real_clients_heal_whatever_happened(tmp_path: Path, seed: int) -> None:
    assert asyncio.run(walk(tmp_path, seed)) > 0

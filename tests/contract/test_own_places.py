"""Moving one's own mail to other places: contacts hear of it, old places are read for 30 more days (SPEC 3.14, 8.8)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.client.client import Client
from restante.client.home import ClientDirectory
from restante.client.places.own_places import OwnPlaces, moved
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.core.mesh_proofs.published_keys import PublishedKeys
from restante.core.signed_places import sign_places
from restante.crypto.identity import Identity
from restante.model.errors import ConfigurationInvalid, Malformed
from restante.model.places import MeshPlace, Place, RelayPlace
from restante.model.states import State
from restante.policy.mesh.time_buckets import bucket_at
from restante.policy.quota import MailboxQuota
from restante.ports.relay_connection import RelayConnection
from restante.testing.deterministic import FakeClock, SeededEntropy
from restante.testing.memory_mailbox import MemoryMailbox
from restante.testing.memory_relay import MemoryRelay
from restante.testing.virtual_time import run_in_virtual_time
from support.spec.clauses import clause

DAY_MS = 86_400_000
HOUR_S = 3_600
NODES = [Identity(bytes([number]) * 32) for number in range(1, 4)]
HERE, THERE, ELSEWHERE = (
    RelayPlace(node_key=node.node_key, host=f"127.0.{number}.1", port=7_431) for number, node in enumerate(NODES)
)
PLACES: list[Place] = [HERE, THERE, ELSEWHERE, MeshPlace()]


class Town:
    """Relays in memory, and people whose mail is stored there."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.clock = FakeClock()
        self.relays = {
            place: MemoryRelay(node, MemoryMailbox(), quota=MailboxQuota(), clock=self.clock)
            for place, node in zip((HERE, THERE, ELSEWHERE), NODES, strict=True)
        }
        self.puts: list[RelayPlace] = []
        self.subscribed: list[tuple[RelayPlace, bytes]] = []
        self._seed = 0

    async def connect(self, place: RelayPlace, inbox: OwnInbox | None) -> RelayConnection:
        if inbox is None:
            self.puts.append(place)
        else:
            self.subscribed.append((place, inbox.access_secret))
        return self.relays[place].link(inbox)

    def directory(self, name: str) -> ClientDirectory:
        return ClientDirectory(self.home / name)

    @contextlib.asynccontextmanager
    async def online(self, name: str) -> AsyncIterator[Client]:
        self._seed += 1
        entropy = SeededEntropy(self._seed)
        if not self.directory(name).path.exists():
            self.directory(name).create(HERE, entropy)
        client = Client.open(self.home / name, clock=self.clock, entropy=entropy, receive_delay_s=0.0)
        running = asyncio.create_task(client.run(self.connect))
        try:
            yield client
        finally:
            await client.close()
            await running

    async def meet(self, *names: str) -> None:
        """Everybody is Bob's contact and has written to Bob and read Bob's answer."""
        async with self.online("bob") as bob:
            for name in names:
                async with self.online(name) as friend:
                    friend.contacts.add(replace(await bob.as_contact(), name="bob"))
                    bob.contacts.add(replace(await friend.as_contact(), name=name))
                    await friend.send("bob", "hello")
                    await received(bob)
                    await bob.send(name, "hello")
                    await received(friend)
                    await asyncio.sleep(30)

    def play(self, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
        run_in_virtual_time(scenario(), self.clock)


async def received(client: Client) -> str:
    async with asyncio.timeout(2 * HOUR_S):
        async for message in client.inbox(explicit_acks=True):
            await message.ack()
            return message.text
    raise AssertionError


async def until(is_true: Callable[[], bool], *, within_s: float = HOUR_S) -> None:
    async with asyncio.timeout(within_s):
        while not is_true():  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(1)


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path)


@clause("3.14", "8.8")
def test_who_moves_while_running_is_written_to_at_the_new_place_and_reads_the_old_one(town: Town) -> None:
    async def scenario() -> None:
        await town.meet("alice", "carol")
        async with town.online("alice") as alice, town.online("bob") as bob:
            town.directory("bob").move([THERE], now_ms=town.clock.now_ms())  # as another process does
            await until(lambda: alice.contacts.named("bob").places.places == (THERE,))
            town.puts.clear()
            await alice.send("bob", "to the new place")
            assert await received(bob) == "to the new place"
            assert town.puts == [THERE]
            async with town.online("carol") as carol:  # sends before she has heard of it
                assert carol.contacts.named("bob").places.places == (HERE,)
                town.puts.clear()
                await carol.send("bob", "to the old place")
                assert await received(bob) == "to the old place"
                await until(lambda: carol.contacts.named("bob").places.places == (THERE,))

    town.play(scenario)


@clause("3.14", "8.8")
def test_a_contact_that_was_told_nothing_yet_is_told_of_a_move(town: Town) -> None:
    """It has our contact file, which names the old place."""

    async def scenario() -> None:
        async with town.online("alice") as alice, town.online("bob") as bob:
            alice.contacts.add(replace(await bob.as_contact(), name="bob"))
            bob.contacts.add(replace(await alice.as_contact(), name="alice"))
            town.directory("bob").move([THERE], now_ms=town.clock.now_ms())
            await alice.send("bob", "hello")
            assert await received(bob) == "hello"
            await until(lambda: alice.contacts.named("bob").places.places == (THERE,))

    town.play(scenario)


@clause("8.8")
def test_an_old_place_is_read_for_30_days_and_once_more_afterwards(town: Town) -> None:
    async def scenario() -> None:
        await town.meet("alice", "carol")
        town.directory("bob").move([THERE], now_ms=town.clock.now_ms())
        town.clock.advance(29 * DAY_MS)
        async with town.online("carol") as carol:
            town.puts.clear()
            sent = await carol.send("bob", "in time")
            await asyncio.sleep(60)
            status = await carol.status(sent.message_id)
            assert status is not None
            assert (status.state, town.puts) == (State.SENT, [HERE])
        town.clock.advance(2 * DAY_MS)
        async with town.online("bob") as bob:
            assert await received(bob) == "in time"
            assert {place for place, _ in town.subscribed} == {HERE, THERE}
            await asyncio.sleep(HOUR_S)
        town.subscribed.clear()
        async with town.online("bob"):
            await until(lambda: bool(town.subscribed))
            await asyncio.sleep(60)
        assert {place for place, _ in town.subscribed} == {THERE}

    town.play(scenario)


@clause("8.8")
def test_a_removed_contact_makes_relays_serve_a_new_contacts_inbox_beside_the_old_one(town: Town) -> None:
    async def scenario() -> None:
        await town.meet("alice", "carol")
        async with town.online("bob") as bob, town.online("alice") as alice:
            old = bob.identity.access_secret
            bob.contacts.remove(bob.contacts.named("carol"))
            await until(lambda: bob.parts.own_access.current.number == 1)
            new = bob.parts.own_access.current.secret
            await until(lambda: alice.parts.access.secret_of(bob.identity.address) == new)
            town.subscribed.clear()
            town.relays[HERE].disconnect_all()
            await until(lambda: {secret for _, secret in town.subscribed} >= {b"", old, new})
            await alice.send("bob", "by the new inbox")
            assert await received(bob) == "by the new inbox"

    town.play(scenario)


@clause("3.14", "8.8")
def test_an_older_place_never_replaces_a_newer_one(town: Town) -> None:
    async def scenario() -> None:
        await town.meet("alice")
        async with town.online("alice") as alice, town.online("bob") as bob:
            bundle = (await bob.own_keys.published()).bundle
            now_ms, address = town.clock.now_ms(), bob.identity.address

            async def told(place: Place, at_ms: int) -> tuple[Place, ...]:
                published = PublishedKeys(sign_places([place], bob.identity, now_ms=at_ms), bundle)
                await alice.file.run(lambda: alice.parts.renewal.keep(address, published, now_ms=now_ms))
                return alice.contacts.named("bob").places.places

            assert await told(HERE, now_ms + 30) == (HERE,)  # the place that she knows, stated again
            assert await told(THERE, now_ms + 20) == (HERE,)  # stated in between, and late
            assert await told(THERE, now_ms + 40) == (THERE,)

    town.play(scenario)


@clause("3.14", "8.8")
@given(st.lists(st.lists(st.sampled_from(PLACES), min_size=1, max_size=4, unique=True), min_size=1, max_size=6))
def test_every_place_that_was_left_is_former_once_and_none_that_is_used(moves: list[list[Place]]) -> None:
    own = OwnPlaces([HERE])
    seen: set[Place] = {HERE}
    for number, places in enumerate(moves):
        own = moved(own, places, now_ms=number)
        seen |= set(places)
        former = [each.place for each in own.former]
        assert own.current == tuple(places)
        assert len(set(former)) == len(former)
        assert set(former) == seen - set(places)


def test_the_file_keeps_order_and_former_places(tmp_path: Path) -> None:
    home = ClientDirectory(tmp_path / "bob")
    home.create(HERE, SeededEntropy(1), mesh=[ELSEWHERE], now_ms=5 * DAY_MS)
    assert home.places() == (MeshPlace(), HERE)
    watched = home.own_places()
    home.move([THERE, MeshPlace()], now_ms=7 * DAY_MS)
    assert home.places() == (THERE, MeshPlace())
    watched.refresh()
    assert (watched.current, [(each.place, each.retired_at_ms) for each in watched.former]) == (
        (THERE, MeshPlace()),
        [(HERE, 7 * DAY_MS)],
    )
    home.move([HERE], now_ms=8 * DAY_MS)
    assert [(each.place, each.retired_at_ms) for each in home.own_places().former] == [
        (THERE, 8 * DAY_MS),
        (MeshPlace(), 8 * DAY_MS),
    ]
    assert home.mesh_access() is not None, "contacts in the mesh can still be written to"


def test_the_mesh_can_be_added_later(tmp_path: Path) -> None:
    home = ClientDirectory(tmp_path / "bob")
    home.create(HERE, SeededEntropy(1))
    with pytest.raises(ConfigurationInvalid, match="knows no mesh"):
        home.move([MeshPlace(), HERE], now_ms=0)
    home.move([MeshPlace(), HERE], mesh=[ELSEWHERE], now_ms=9 * DAY_MS)
    access = home.mesh_access()
    assert access is not None
    assert (access.bootstrap, access.since) == ((ELSEWHERE,), bucket_at(9 * DAY_MS))
    home.move([HERE], mesh=[THERE], now_ms=10 * DAY_MS)
    changed = home.mesh_access()
    assert changed is not None
    assert (changed.bootstrap, changed.since) == ((THERE,), access.since)


@pytest.mark.parametrize(
    ("places", "wrong"),
    [
        ([], "1 to 8 places"),
        ([HERE, HERE], "named twice"),
        ([HERE, replace(HERE, port=1)], "named twice"),
        ([MeshPlace(), HERE, MeshPlace()], "named twice"),
    ],
)
def test_places_that_cannot_be_are_refused_and_nothing_changes(tmp_path: Path, places: list[Place], wrong: str) -> None:
    home = ClientDirectory(tmp_path / "bob")
    home.create(HERE, SeededEntropy(1), mesh=[ELSEWHERE])
    with pytest.raises(ConfigurationInvalid, match=wrong):
        home.move(places, now_ms=0)
    assert home.places() == (MeshPlace(), HERE)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"places": [], "former": []}', '{"places": ["nowhere"], "former": []}', "[]"]
)
def test_a_file_of_places_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    home = ClientDirectory(tmp_path / "bob")
    home.create(HERE, SeededEntropy(1))
    home.places_file.write_text(text)
    with pytest.raises((Malformed, ConfigurationInvalid)):
        home.places()

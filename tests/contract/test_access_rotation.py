"""A removed contact can't find or fill our contacts inbox any more, and the others lose no message by it (SPEC 8.8)."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from restante.client.client import Client
from restante.core.inboxes.former_inboxes import FORMER_POLL_MS, READ_MS
from restante.core.inboxes.mesh_inbox import bucket_keys
from restante.crypto.blinded_keys import NO_SECRET
from restante.model.ids import InboxKey, PayloadHash
from restante.policy.mesh.time_buckets import bucket_at
from restante.testing.virtual_time import run_in_virtual_time
from support.mesh.memory_world import World
from support.spec.clauses import clause

DAY_MS = 86_400_000
HOUR_S = 3_600


class Friends:
    """Bob knows Alice and Carol, and they know Bob. `run` numbers the runs of a client: each has other random bytes."""

    def __init__(self, home: Path) -> None:
        self.world = World(home)
        self._runs: dict[str, int] = {}
        self._before: set[tuple[InboxKey, PayloadHash]] = set()

    def forget(self) -> None:
        """Let `is_used` look at what is stored from now on."""
        self._before = self._stored()

    def _stored(self) -> set[tuple[InboxKey, PayloadHash]]:
        """Return what was ever stored and where, read or not."""
        nodes = self.world.mesh.nodes
        held = {(key, each) for node in nodes for key, hashes in node.held.items() for each in hashes}
        return held | {(key, each) for node in nodes for key, hashes in node.deleted.items() for each in hashes}

    def client(self, name: str) -> Client:
        self._runs[name] = self._runs.get(name, 0) + 1
        return self.world.client(name, run=self._runs[name])

    def play(self, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
        run_in_virtual_time(scenario(), self.world.clock)

    def later(self, days: float) -> None:
        self.world.clock.advance(int(days * DAY_MS))

    async def meet(self) -> None:
        """Let each side read the other and have the other's access secret."""
        async with self.client("alice") as alice, self.client("bob") as bob, self.client("carol") as carol:
            for friend, name in ((alice, "alice"), (carol, "carol")):
                await knows(friend, bob, "bob")
                await knows(bob, friend, name)
                await friend.send("bob", f"I am {name}")
                await received(bob, 1)
                await bob.send(name, "hello")
                await received(friend, 1)
            await until(lambda: all(secret(each, bob) == bob.identity.access_secret for each in (alice, carol)))
            await until(lambda: not self.is_waiting(alice, bob, carol))

    def is_waiting(self, *clients: Client) -> bool:
        return any(each.outbox.store.entries(limit=1) for each in clients)

    def is_used(self, owner: Client, access_secret: bytes) -> bool:
        """Return whether mail was stored in this inbox in the last hours."""
        now = bucket_at(self.world.clock.now_ms())
        keys = {bucket_keys(owner.identity.address, each, access_secret).inbox_key for each in range(now - 2, now + 2)}
        return any(key in keys for key, _ in self._stored() - self._before)


async def knows(one: Client, other: Client, name: str) -> None:
    one.contacts.add(replace(await other.as_contact(), name=name))


def secret(sender: Client, recipient: Client) -> bytes:
    """Return the access secret that the sender uses."""
    return sender.parts.access.secret_of(recipient.identity.address)


async def until(is_true: Callable[[], bool], *, within_s: float = 2 * HOUR_S) -> None:
    async with asyncio.timeout(within_s):
        while not is_true():  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(1)


async def received(client: Client, count: int) -> list[str]:
    """Return the next messages, which are not shown again."""
    texts: list[str] = []
    async with asyncio.timeout(2 * HOUR_S):
        async for message in client.inbox(explicit_acks=True):
            texts.append(message.text)
            await message.ack()
            if len(texts) == count:
                break
    return texts


@pytest.fixture
def friends(tmp_path: Path) -> Friends:
    return Friends(tmp_path)


@clause("8.8")
def test_a_removed_contact_cannot_find_the_new_inbox_and_the_others_use_it(friends: Friends) -> None:
    async def scenario() -> None:
        await friends.meet()
        async with friends.client("alice") as alice, friends.client("bob") as bob, friends.client("carol") as carol:
            old = bob.identity.access_secret
            bob.contacts.remove(bob.contacts.named("carol"))
            await until(lambda: bob.parts.own_access.current.number == 1)
            new = bob.parts.own_access.current.secret
            await until(lambda: secret(alice, bob) == new)
            assert secret(carol, bob) == old
            friends.forget()
            await alice.send("bob", "only for your contacts")
            assert await received(bob, 1) == ["only for your contacts"]
            assert friends.is_used(bob, new)
            await until(lambda: not friends.is_waiting(alice, bob))
            friends.forget()
            await carol.send("bob", "still there?")
            await until(lambda: friends.is_used(bob, old))
            await asyncio.sleep(2 * FORMER_POLL_MS / 1_000)
            assert not await bob.has_unread(), "read from the old inbox, and of no contact"
            assert not friends.is_used(bob, new)

    friends.play(scenario)


@clause("8.8")
def test_a_contact_removed_while_the_client_is_not_running_is_not_told_and_the_others_are(friends: Friends) -> None:
    """A file that is gone is all that a crash right after it leaves behind."""

    async def scenario() -> None:
        await friends.meet()
        bob = friends.client("bob")
        (friends.world.home / "contacts of bob" / "carol.json").unlink()
        await bob.close()
        async with friends.client("alice") as alice, friends.client("bob") as bob, friends.client("carol") as carol:
            await until(lambda: secret(alice, bob) == bob.parts.own_access.current.secret)
            assert bob.parts.own_access.current.number == 1
            await asyncio.sleep(HOUR_S)
            assert secret(carol, bob) == bob.identity.access_secret
            assert bob.parts.own_access.current.number == 1, "once"

    friends.play(scenario)


@clause("8.8")
def test_a_contact_removed_by_another_process_is_told_nothing_by_one_that_read_the_contacts_before(
    friends: Friends,
) -> None:
    async def scenario() -> None:
        await friends.meet()
        bob, removing = friends.client("bob"), friends.client("bob")
        await asyncio.sleep(HOUR_S)
        removing.contacts.remove(removing.contacts.named("carol"))
        await removing.run_maintenance()
        await removing.close()
        await bob.run_maintenance()
        lanes = {each.lane for each in await bob.file.run(lambda: bob.outbox.store.entries(limit=100))}
        assert lanes == {bob.contacts.named("alice").control_lane}
        assert bob.parts.own_access.current.number == 1
        await bob.close()

    friends.play(scenario)


@clause("8.8")
def test_a_contact_whose_file_cannot_be_read_for_a_moment_is_not_removed(friends: Friends) -> None:
    async def scenario() -> None:
        await friends.meet()
        file = friends.world.home / "contacts of bob" / "carol.json"
        whole = file.read_bytes()
        file.write_bytes(whole[:100])
        async with friends.client("bob") as bob, friends.client("carol") as carol:
            await asyncio.sleep(HOUR_S)
            assert list(bob.contacts.problems) == ["carol.json"]
            file.write_bytes(whole)
            await asyncio.sleep(HOUR_S)
            assert bob.parts.own_access.current.number == 0
            assert secret(bob, carol) == carol.identity.access_secret

    friends.play(scenario)


@clause("8.8")
def test_a_removed_contact_loses_the_secret_although_the_file_of_another_cannot_be_read(friends: Friends) -> None:
    async def scenario() -> None:
        await friends.meet()
        file = friends.world.home / "contacts of bob" / "alice.json"
        whole = file.read_bytes()
        async with friends.client("alice") as alice, friends.client("bob") as bob:
            file.write_bytes(whole[:100])
            bob.contacts.remove(bob.contacts.named("carol"))
            await until(lambda: bob.parts.own_access.current.number == 1)
            file.write_bytes(whole)
            await until(lambda: secret(alice, bob) == bob.parts.own_access.current.secret)
            assert bob.parts.own_access.current.number == 1, "once"

    friends.play(scenario)


@clause("8.8")
def test_after_two_removals_in_a_row_the_last_secret_counts(friends: Friends) -> None:
    async def scenario() -> None:
        await friends.meet()
        async with friends.client("dave") as dave, friends.client("bob") as bob:
            await knows(dave, bob, "bob")
            await knows(bob, dave, "dave")
            await dave.send("bob", "I am dave")
            await received(bob, 1)
            await until(lambda: secret(dave, bob) == bob.identity.access_secret)
            bob.contacts.remove(bob.contacts.named("carol"))
            await until(lambda: bob.parts.own_access.current.number == 1)
            await until(lambda: secret(dave, bob) == bob.parts.own_access.current.secret)
            bob.contacts.remove(bob.contacts.named("dave"))
            await until(lambda: bob.parts.own_access.current.number == 2)
        async with friends.client("alice") as alice, friends.client("bob") as bob:
            assert len(bob.parts.own_access.former) == 2
            await until(lambda: secret(alice, bob) == bob.parts.own_access.current.secret)
            await alice.send("bob", "me again")
            assert await received(bob, 1) == ["me again"]

    friends.play(scenario)


@clause("8.8")
def test_a_contact_that_is_added_again_gets_the_new_secret(friends: Friends) -> None:
    async def scenario() -> None:
        await friends.meet()
        async with friends.client("bob") as bob, friends.client("carol") as carol:
            bob.contacts.remove(bob.contacts.named("carol"))
            await until(lambda: bob.parts.own_access.current.number == 1)
            await knows(bob, carol, "carol")
            await until(lambda: secret(carol, bob) == bob.parts.own_access.current.secret)
            await carol.send("bob", "thank you")
            assert await received(bob, 1) == ["thank you"]

    friends.play(scenario)


async def removed(friends: Friends) -> None:
    """Bob removes Carol and tells Alice, who is away."""
    async with friends.client("bob") as bob:
        bob.contacts.remove(bob.contacts.named("carol"))
        await until(lambda: bob.parts.own_access.current.number == 1)
        await until(lambda: not friends.is_waiting(bob))


@clause("1.5", "8.8")
@pytest.mark.parametrize("days", [29, 31])
def test_a_contact_that_was_away_reaches_somebody_who_was_away_as_well(friends: Friends, days: int) -> None:
    """Nobody has read anything meanwhile: the old inbox is read until it was read after the 30 days."""

    async def scenario() -> None:
        await friends.meet()
        await removed(friends)
        friends.later(days)
        async with friends.client("alice") as alice:
            sent = await alice.send("bob", "I was away")
            await until(lambda: not alice.outbox.store.entries(limit=1) or bool(friends.world.keys()))
            async with friends.client("bob") as bob:
                assert await received(bob, 1) == ["I was away"]
                await until(lambda: secret(alice, bob) == bob.parts.own_access.current.secret)
                await sent.delivered(timeout=HOUR_S)

    friends.play(scenario)


@clause("1.5", "3.14", "8.8")
def test_a_contact_that_comes_back_after_31_days_is_told_and_its_mail_is_stored_in_the_public_inbox(
    friends: Friends,
) -> None:
    """Bob reads the old inbox no more: the message comes again after a day, where everybody may write."""

    async def scenario() -> None:
        await friends.meet()
        await removed(friends)
        friends.later(30.5)
        async with friends.client("bob") as bob:  # reads the old inbox once more, forgets it, and states the new one
            await until(lambda: not bob.parts.own_access.former)
            await until(lambda: not friends.is_waiting(bob))
        friends.later(0.5)
        async with friends.client("alice") as alice:
            sent = await alice.send("bob", "I was away")
            await until(lambda: friends.is_used(bob, bob.identity.access_secret))
            await until(lambda: secret(alice, bob) == bob.parts.own_access.current.secret)
        friends.later(1)
        async with friends.client("alice") as alice, friends.client("bob") as bob:
            assert await received(bob, 1) == ["I was away"]
            assert friends.is_used(bob, NO_SECRET)
            await alice.send("bob", "and now?")
            assert await received(bob, 1) == ["and now?"]
            await until(lambda: not friends.is_waiting(alice))
        assert sent.message_id

    friends.play(scenario)


@clause("8.7", "8.8")
def test_who_lost_the_newer_secret_hears_of_it_by_the_public_inbox(friends: Friends) -> None:
    """Bob's file is lost, and with it the secret that Alice uses: what she wrote comes once more after a day."""

    async def scenario() -> None:
        await friends.meet()
        async with friends.client("alice") as alice, friends.client("bob") as bob:
            bob.contacts.remove(bob.contacts.named("carol"))
            await until(lambda: secret(alice, bob) == bob.parts.own_access.current.secret != bob.identity.access_secret)
            await alice.send("bob", "before")
            await received(bob, 1)
            await until(lambda: not friends.is_waiting(alice, bob))
        for each in friends.world.home.glob("bob.db*"):
            each.unlink()
        async with friends.client("alice") as alice:
            await alice.send("bob", "are you there?")
            await until(lambda: bool(friends.world.keys()))
        for _ in range(3):
            friends.later(1.01)
            async with friends.client("alice") as alice, friends.client("bob") as bob:
                await asyncio.sleep(HOUR_S)
                if await bob.has_unread():
                    break
        async with friends.client("alice") as alice, friends.client("bob") as bob:
            assert await received(bob, 1) == ["are you there?"]
            await bob.send("alice", "yes")
            assert await received(alice, 1) == ["yes"]
            await until(lambda: secret(alice, bob) == bob.identity.access_secret)
            await until(lambda: not friends.is_waiting(alice, bob))

    friends.play(scenario)


@clause("8.8")
def test_the_old_inbox_is_forgotten_after_30_days(friends: Friends) -> None:
    async def scenario() -> None:
        await friends.meet()
        await removed(friends)
        friends.later(READ_MS / DAY_MS)
        async with friends.client("bob") as bob:
            assert len(bob.parts.own_access.former) == 1
            await until(lambda: not bob.parts.own_access.former)
        bob = friends.client("bob")
        assert [each.number for each in (*bob.parts.own_access.former, bob.parts.own_access.current)] == [1]
        await bob.close()

    friends.play(scenario)

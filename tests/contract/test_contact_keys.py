"""Newer prekeys and places of contacts: inside the session, and from the mesh (SPEC 3.14, 7.6, 8.8)."""

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from restante.client.home import ClientDirectory
from restante.core.mesh_proofs.published_keys import PublishedKeys, encode_published
from restante.core.signed_bundles import sign_bundle
from restante.core.signed_places import sign_places
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.model.ids import node_key
from restante.model.places import MeshPlace, RelayPlace
from restante.policy.mesh.time_buckets import bucket_at
from restante.testing.virtual_time import run_in_virtual_time
from restante.wire.prekey_bundle import decode_bundle
from support.client.client_pairs import RELAY
from support.client.restored_clients import Pair
from support.mesh.memory_world import World, introduced, received
from support.spec.clauses import clause

DAY_S = 86_400
ELSEWHERE = RelayPlace(node_key=node_key(b"m" * 32), host="127.0.0.2", port=7_432)


@clause("3.14", "8.8")
async def test_a_contact_who_moves_tells_its_new_places_inside_the_session_and_old_ones_do_not_return(
    tmp_path: Path,
) -> None:
    pair = Pair(tmp_path)
    await pair.meet()
    for _ in range(3):
        await pair.say("alice", b"hello")
        await pair.say("bob", b"hello")
        await pair.round_trip()
    alice = pair.clients["alice"]
    old = encode_published(await pair.clients["bob"].own_keys.published())
    assert alice.contacts.named("bob").places.places == (RELAY,)
    ClientDirectory(tmp_path / "bob").move([ELSEWHERE], now_ms=0)
    await pair.reopen("bob")
    await pair.round_trip()
    await pair.round_trip()
    assert alice.contacts.named("bob").places.places == (ELSEWHERE,)
    peer, now_ms = pair.clients["bob"].identity.address, pair.clock.now_ms()
    await alice.file.run(lambda: alice.parts.renewal.receive(peer, old, now_ms=now_ms))
    assert alice.contacts.named("bob").places.places == (ELSEWHERE,)
    await pair.close()


@clause("8.8")
async def test_what_a_removed_contact_tells_does_not_bring_its_file_back(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    await pair.meet()
    alice, bob = pair.clients["alice"], pair.clients["bob"]
    pair.clock.advance(1_000)
    newer = await bob.own_keys.published()
    by_another_process = ClientDirectory(tmp_path / "alice").contact_book()
    by_another_process.remove(by_another_process.named("bob"))
    peer, now_ms = bob.identity.address, pair.clock.now_ms()
    with pytest.raises(RestanteError) as refused:
        await alice.file.run(lambda: alice.parts.renewal.keep(peer, newer, now_ms=now_ms))
    assert refused.value.code is Code.NOT_FOUND
    assert not list(ClientDirectory(tmp_path / "alice").contact_book())
    await pair.close()


@clause("7.6", "8.8")
def test_prekeys_too_old_to_open_a_session_are_replaced_by_those_in_the_mesh_when_somebody_writes(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)

    async def scenario() -> None:
        alice, before = world.client("alice"), world.client("bob")
        await introduced(alice, before)
        await before.close()
        await asyncio.sleep(40 * DAY_S)
        with pytest.raises(RestanteError) as refused:
            await alice.send("peer", "nothing newer is published")
        assert refused.value.code is Code.RECIPIENT_NOT_FOUND
        async with world.client("bob", since=bucket_at(world.clock.now_ms())) as bob:
            await asyncio.sleep(60)
            await alice.send("peer", "hello")  # as a command does, before the client runs
            async with alice:
                assert await received(bob, 1) == ["hello"]

    run_in_virtual_time(scenario(), world.clock)


@clause("7.6", "8.8")
def test_a_running_client_fetches_newer_prekeys_of_contacts_it_has_not_heard_of_for_a_week(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def scenario() -> None:
        alice, before = world.client("alice"), world.client("bob")
        await introduced(alice, before)
        await before.close()
        await asyncio.sleep(9 * DAY_S)
        async with world.client("bob", since=bucket_at(world.clock.now_ms())):
            await asyncio.sleep(60)
        contact = alice.contacts.named("peer")
        async with alice:
            await asyncio.sleep(60)
            newest = alice.parts.encryptor.newest_bundle(contact, now_ms=world.clock.now_ms())
        assert newest.prekey_created_at_ms - decode_bundle(contact.bundle).prekey_created_at_ms >= 9 * DAY_S * 1_000

    run_in_virtual_time(scenario(), world.clock)


@clause("3.14", "3.4")
async def test_mail_to_a_contact_who_moves_stays_in_one_lane_and_keeps_its_order(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    await pair.meet()
    alice, bob = (pair.clients[name] for name in ("alice", "bob"))
    sent = [await alice.send("bob", b"to the relay")]
    pair.clock.advance(1_000)
    contact = alice.contacts.named("bob")
    moved = sign_places((MeshPlace(),), bob.identity, now_ms=pair.clock.now_ms())
    alice.contacts.add(replace(contact, places=moved))
    sent.append(await alice.send("bob", b"to the mesh"))
    entries = await alice.file.run(lambda: alice.outbox.store.entries(limit=10))
    assert {each.message_id for each in entries} == {each.message_id for each in sent}
    assert len({(each.route, each.lane) for each in entries}) == 1
    await pair.close()


@clause("2.10", "3.14", "8.8")
async def test_places_and_prekeys_stated_far_ahead_stand_against_later_ones_only_until_these_come(
    tmp_path: Path,
) -> None:
    """The contact's clock was a year ahead once. Afterwards it is right, and what it states is followed again."""
    pair = Pair(tmp_path)
    await pair.meet()
    alice, bob = pair.clients["alice"], pair.clients["bob"]
    own = await bob.own_keys.published()
    prekeys = bob.parts.sessions.prekeys()

    def stated(at_ms: int, place: RelayPlace) -> PublishedKeys:
        return PublishedKeys(
            sign_places((place,), bob.identity, now_ms=at_ms), sign_bundle(prekeys, bob.identity, now_ms=at_ms)
        )

    pair.clock.advance(1_000)
    now_ms = pair.clock.now_ms()
    for at_ms, place in ((now_ms + 365 * DAY_S * 1_000, RELAY), (now_ms, ELSEWHERE)):
        said = stated(at_ms, place)
        keep = partial(alice.parts.renewal.keep, bob.identity.address, said, now_ms=now_ms)
        assert await alice.file.run(keep)
        contact = alice.contacts.named("bob")
        assert contact.places.issued_at_ms == at_ms
        assert alice.parts.encryptor.newest_bundle(contact, now_ms=now_ms).issued_at_ms == at_ms
    old = partial(alice.parts.renewal.keep, bob.identity.address, own, now_ms=now_ms)
    assert not await alice.file.run(old)
    assert alice.contacts.named("bob").places.places == (ELSEWHERE,)
    await pair.close()

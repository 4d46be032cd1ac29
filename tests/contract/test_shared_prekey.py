"""Two senders take the same one-time prekey from one contact file: the second is read later, once and in order."""

from dataclasses import replace

from restante.client.client import Client
from restante.core.signed_bundles import sign_bundle
from support.client.client_pairs import bodies, client_in, introduce, shown
from support.client.two_clients import Two
from support.spec.clauses import clause


async def know_one_prekey(client: Client, bob: Client, *, now_ms: int) -> None:
    """`client` gets Bob's contact file with a single one-time prekey, always the same."""
    contact = await bob.as_contact()
    prekeys = bob.parts.sessions.prekeys()
    [one, *_] = prekeys.one_time.items()
    bundle = sign_bundle(replace(prekeys, one_time=dict([one])), bob.identity, now_ms=now_ms)
    client.contacts.add(replace(contact, bundle=bundle, name="bob"))


@clause("8.7", "1.1")
async def test_what_was_sent_in_an_opening_that_was_never_answered_arrives_once_and_in_order(two: Two) -> None:
    carol = client_in(two.home / "carol", clock=two.clock)
    await introduce(two.bob, carol, name="carol")
    for client in (two.alice, carol):
        await know_one_prekey(client, two.bob, now_ms=two.clock.now_ms() + 1)
    await two.say(b"alice was first")
    await carol.send("bob", b"1")
    of_alice, of_carol = await two.post.collect(two.alice), await two.post.collect(carol)
    await two.bob.receive(two.post.blobs(of_alice))
    await two.bob.receive(two.post.blobs(of_carol))
    for text in (b"2", b"3"):  # before Carol hears of it
        await carol.send("bob", text)
    await two.post.deliver(carol, two.bob)
    assert bodies(two.bob, two.clock) == [b"alice was first"]
    await two.post.deliver(two.bob, carol)
    await carol.send("bob", b"4")
    for _ in range(4):
        await two.post.exchange(carol, two.bob, rounds=1)
    of_carol_shown = [one for one in shown(two.bob, two.clock) if one.sender == carol.identity.address]
    assert [one.plaintext for one in of_carol_shown] == [b"1", b"2", b"3", b"4"]
    assert await carol.outbox.counts() == {}
    await carol.close()

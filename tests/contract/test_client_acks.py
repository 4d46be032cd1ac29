"""Receipts and READ acks between two clients with real keys: who is believed, and when they leave."""

from restante.client.incoming import FOREIGN_ACK
from restante.core.signed_acks import sign_receipts
from restante.model.ids import mint_message_id
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from restante.model.states import State
from restante.wire.acks import AckType
from support.client.client_pairs import client_in, facts, introduce, security
from support.client.two_clients import Two
from support.spec.clauses import clause

DAY_MS = 86_400_000


async def test_read_acks_are_sent_only_by_who_wants_to(two: Two) -> None:
    await two.say(b"read me")
    await two.talk()
    two.bob.sends_read_acks = True
    await two.say(b"and me")
    await two.talk()
    assert [message.body async for message in two.bob.inbox(follow=False)] == [b"read me", b"and me"]
    await two.talk()
    assert len(facts(two.alice, JournalKind.READ)) == 2
    assert [entry async for entry in two.bob.inbox(follow=False)] == []


async def test_an_application_that_stops_before_asking_for_the_next_is_shown_the_message_again(two: Two) -> None:
    await two.say(b"one", b"two")
    await two.talk()
    stopped = two.bob.inbox(follow=False)
    assert (await anext(stopped)).body == b"one"
    await stopped.aclose()
    assert [message.body async for message in two.bob.inbox(follow=False)] == [b"one", b"two"]


@clause("1.3", "10.2")
async def test_an_acknowledgement_counts_only_from_whom_the_message_was_written_to(two: Two) -> None:
    carol = client_in(two.home / "carol", clock=two.clock)
    await introduce(carol, two.alice, name="alice")
    await introduce(two.alice, carol, name="carol")
    to_bob = (await two.alice.send(two.bob.identity.address, b"for bob")).deliveries[0].message_id
    to_carol = (await two.alice.send(carol.identity.address, b"for carol")).deliveries[0].message_id
    unknown = mint_message_id(b"never sent by us")
    envelopes = await two.post.collect(two.alice)

    async def claim(ack_type: AckType) -> None:
        """Carol signs for all of them, truly with her own key."""
        now_ms, writer = two.clock.now_ms(), two.alice.identity.address
        body = sign_receipts(
            carol.identity, (to_bob, to_carol, unknown), sender=writer, now_ms=now_ms, ack_type=ack_type
        )
        to = carol.contacts.named("alice")
        await carol.file.run(lambda: carol.parts.outgoing.write(to, body, kind=Kind.CONTROL, now_ms=two.clock.now_ms()))
        await two.post.deliver(carol, two.alice)

    await claim(AckType.RECEIPT)
    assert await two.alice.outbox.counts() == {State.SENT: 1}
    assert [row.message_id for row in facts(two.alice, JournalKind.DELIVERED)] == [to_carol]
    assert security(two.alice) == [FOREIGN_ACK]
    await two.bob.receive(two.post.blobs(envelopes[:1]))
    await two.talk()
    assert await two.alice.outbox.counts() == {}
    two.clock.advance(2 * DAY_MS)  # what has ended was swept meanwhile, but not whose it was
    await two.alice.run_maintenance()
    await claim(AckType.READ)
    assert [row.message_id for row in facts(two.alice, JournalKind.READ)] == [to_carol]
    assert security(two.alice) == [FOREIGN_ACK] * 2
    await carol.close()


@clause("10.5")
async def test_receipts_leave_together_after_a_second(two: Two) -> None:
    await two.say(*(b"%d" % number for number in range(5)))
    await two.post.deliver(two.alice, two.bob)
    await two.bob.run_maintenance()
    assert await two.bob.outbox.counts() == {State.PENDING: 1}, "the access secret of the contacts inbox"
    two.clock.advance(1_000)
    await two.bob.run_maintenance()
    assert await two.bob.outbox.counts() == {State.PENDING: 2}
    await two.post.deliver(two.bob, two.alice)
    controls = [row for row in facts(two.bob, JournalKind.ATTEMPTED) if row.message_kind is Kind.CONTROL]
    assert [row.sequence for row in controls] == [0, 1]
    assert await two.alice.outbox.counts() == {}

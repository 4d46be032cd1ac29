"""A client that cannot encrypt in a session deletes it and sends the message in another, once (SPEC 4.4, E008)."""

from restante.client.client import Client
from restante.crypto.ratchet import MAX_COUNT
from restante.model.error_codes import Code
from restante.model.ids import Address
from restante.model.journal import JournalKind
from support.client.client_pairs import bodies, facts
from support.client.two_clients import Two
from support.spec.clauses import clause

DAY_MS = 86_400_000


async def use_up_numbers(client: Client, peer: Address) -> None:
    """The chain that the client sends in has no number left: the next encryption fails."""

    def use_up() -> None:
        sessions = client.parts.sessions
        session = sessions.current(peer)
        assert session is not None
        assert session.ratchet.sending_key
        sessions.advance(session, session.ratchet._replace(sent=MAX_COUNT))

    await client.file.run(use_up)


def failures(client: Client) -> list[str | None]:
    return [row.code for row in facts(client, JournalKind.RETRIED)]


@clause("4.4", "8.7")
async def test_e008_deletes_the_session_and_another_carries_the_message_once(two: Two) -> None:
    await two.say(b"before")
    await two.talk()
    await two.say(b"in the old chain")
    await two.post.deliver(two.alice, two.bob)
    [old] = await two.alice.sessions()
    await use_up_numbers(two.alice, two.bob.identity.address)
    await two.say(b"in another session")
    await two.talk(4)
    assert failures(two.alice) == [Code.ENCRYPTION_FAILED]
    assert bodies(two.bob, two.clock) == [b"before", b"in the old chain", b"in another session"]
    assert old.session_id not in {one.session_id for one in await two.alice.sessions()}
    [(one, other)] = await two.sessions()
    assert one == other
    for _ in range(2):  # a receipt in the deleted session was lost: what it was for is stored once more after a day
        two.clock.advance(DAY_MS)
        await two.talk()
    assert await two.alice.outbox.counts() == {}


@clause("4.4")
async def test_e008_twice_makes_a_dead_letter(two: Two) -> None:
    await two.say(b"before")
    await two.talk()
    await two.say(b"in the old chain")
    await two.post.deliver(two.alice, two.bob)
    await use_up_numbers(two.alice, two.bob.identity.address)
    await two.say(b"never encrypted")
    await two.post.collect(two.alice)
    await two.alice.run_maintenance()
    await use_up_numbers(two.alice, two.bob.identity.address)
    await two.post.collect(two.alice)
    assert failures(two.alice) == [Code.ENCRYPTION_FAILED]
    assert [row.code for row in facts(two.alice, JournalKind.DEAD_LETTERED)] == [Code.ENCRYPTION_FAILED]

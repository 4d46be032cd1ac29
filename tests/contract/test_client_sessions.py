"""Two clients by their files alone, with real keys: what a session survives, and what never changes anything."""

from dataclasses import replace
from pathlib import Path

import pytest

from restante.client.message_encryptor import NO_ONE_TIME_PREKEY
from restante.core.session_messages import unseal_envelope
from restante.model.error_codes import Code
from restante.model.errors import OutboxFull, RestanteError
from restante.model.journal import JournalKind
from restante.model.outbox_entry import OutboxEntry
from restante.policy.capacity import OutboxLimits
from restante.policy.failures import Failure
from restante.policy.settings import Settings
from restante.ports.carrier import StoredByNode
from restante.ports.relay_connection import AttemptFailed
from restante.testing.deterministic import FakeClock
from restante.wire.envelope import decode_envelope
from support.client.client_pairs import Post, bodies, client_in, facts, introduce, security, shown
from support.client.two_clients import SMALL_GAP, STATE, Two, digest
from support.spec.clauses import clause
from support.system.soak import first_now_rest_in_soak
from support.wire.codec_properties import flipped

DAY_MS = 86_400_000
MINUTE_MS = 60_000


@clause("8.2", "8.4", "1.2")
async def test_messages_both_ways_arrive_in_order_and_are_receipted(two: Two) -> None:
    for round_ in range(3):
        await two.say(b"a%d" % round_, b"b%d" % round_)
        await two.talk(1)
        await two.answer(b"c%d" % round_)
        await two.talk(1)
    await two.talk()
    assert bodies(two.bob, two.clock) == [b"a0", b"b0", b"a1", b"b1", b"a2", b"b2"]
    assert bodies(two.alice, two.clock) == [b"c0", b"c1", b"c2"]
    assert await two.alice.outbox.counts() == {}
    assert await two.bob.outbox.counts() == {}
    [(one, other)] = await two.sessions()
    assert one == other
    assert security(two.alice) + security(two.bob) == []


async def test_sessions_begun_by_both_at_once_converge_on_the_lower_id(two: Two) -> None:
    await two.say(b"from alice")
    await two.answer(b"from bob")
    first, second = await two.post.collect(two.alice), await two.post.collect(two.bob)
    await two.bob.receive(two.post.blobs(first))
    await two.alice.receive(two.post.blobs(second))
    await two.talk()
    ids = {one.session_id for one in await two.alice.sessions()}
    assert len(ids) == 2
    assert await two.sessions() == [(min(ids), min(ids))]
    await two.say(b"again")
    await two.talk()
    assert (bodies(two.bob, two.clock), bodies(two.alice, two.clock)) == ([b"from alice", b"again"], [b"from bob"])


@pytest.mark.parametrize("first", first_now_rest_in_soak(range(7)))  # every seventh bit: all bits of a byte in turn
async def test_every_single_bit_flip_of_an_envelope_is_a_security_fact_and_changes_nothing(
    two: Two, first: int
) -> None:
    await two.say(b"hello")
    await two.talk()
    await two.say(b"the one that is tampered with")
    [envelope] = await two.post.collect(two.alice)
    before = digest(two, "bob", *STATE)
    # The inbox key is the node's own affair: with another one the envelope opens as it should.
    key_at = envelope.index(decode_envelope(envelope).inbox_key) * 8
    bits = [bit for bit in range(first, len(envelope) * 8, 7) if not key_at <= bit < key_at + 256]
    harmless = []
    for start in range(0, len(bits), 2_048):
        part = bits[start : start + 2_048]
        await two.bob.receive(two.post.blobs([flipped(envelope, bit) for bit in part]))
        if digest(two, "bob", *STATE) != before:
            harmless.append(start)
    assert harmless == []
    assert len(security(two.bob)) == len(bits)
    assert set(security(two.bob)) <= {Code.MALFORMED, Code.AUTHENTICATION_FAILED, Code.MESSAGE_TOO_LARGE}
    await two.bob.receive(two.post.blobs([envelope]))
    assert bodies(two.bob, two.clock)[-1] == b"the one that is tampered with"


async def test_what_is_for_another_or_by_a_stranger_is_recorded_and_changes_nothing(two: Two) -> None:
    await two.say(b"for bob")
    envelopes = await two.post.collect(two.alice)
    carol = client_in(two.home / "carol", clock=two.clock)
    await introduce(carol, two.bob)
    before = digest(two, "bob", *STATE)
    await carol.send(two.bob.identity.address, b"you do not know me")
    await two.post.deliver(carol, two.bob)
    assert digest(two, "bob", *STATE) == before
    assert [one.sender for one in await two.bob.parts.requests.all()] == [carol.identity.address]
    await carol.receive(two.post.blobs(envelopes))
    assert (security(carol), security(two.bob)) == ([Code.AUTHENTICATION_FAILED], [])
    assert shown(carol, two.clock) == []
    await carol.close()


@clause("9.1")
async def test_a_repeated_envelope_is_acknowledged_again_and_shown_once(two: Two) -> None:
    await two.say(b"once")
    envelopes = await two.post.collect(two.alice)
    await two.bob.receive(two.post.blobs(envelopes * 3))
    await two.bob.receive(two.post.blobs(envelopes))
    assert bodies(two.bob, two.clock) == [b"once"]
    assert [row.code for row in facts(two.bob, JournalKind.ARRIVED)] == ["new"] + ["duplicate"] * 3
    assert security(two.bob) == []


@clause("4.4", "8.7", "9.4")
async def test_what_is_too_far_ahead_is_asked_for_in_a_new_session_and_everything_is_shown_once(two: Two) -> None:
    await two.say(b"0")
    await two.talk()
    await two.say(*(b"%d" % number for number in range(1, 10)))
    envelopes = await two.post.collect(two.alice)
    await two.bob.receive(two.post.blobs(envelopes[8:]))  # eight are missing before it, five may be
    assert [row.code for row in facts(two.bob, JournalKind.SECURITY)] == [Code.SESSION_INVALID, NO_ONE_TIME_PREKEY]
    await two.talk(4)
    await two.bob.receive(two.post.blobs(envelopes))  # the originals that were still on their way
    await two.talk()
    assert sorted(bodies(two.bob, two.clock)) == [b"%d" % number for number in range(10)]
    [(one, other)] = await two.sessions()
    assert one == other
    assert len(await two.alice.sessions()) == 2
    assert await two.alice.outbox.counts() == {}


@clause("8.2", "9.4")
@pytest.mark.parametrize("missing", [999, 1_000])
async def test_the_thousandth_ahead_is_waited_for_and_the_next_is_unreadable(tmp_path: Path, missing: int) -> None:
    """The limit itself, with real keys; the tests above have a smaller one."""
    clock, roomy = FakeClock(), Settings(outbox=OutboxLimits(max_pending_per_upstream_lane=10_000))
    alice, bob = (client_in(tmp_path / name, clock=clock, settings=roomy) for name in ("alice", "bob"))
    await introduce(alice, bob, name="bob")
    await introduce(bob, alice, name="alice")
    post, texts = Post(clock), [b"%d" % number for number in range(missing + 2)]
    for text in texts:
        await alice.send(bob.identity.address, text)
    first, *between, last = await post.collect(alice)
    assert len(between) == missing
    await bob.receive(post.blobs([first]))
    await bob.receive(post.blobs([last]))
    assert bodies(bob, clock) == texts[:1]
    if missing == 999:
        assert security(bob) == []
    else:
        assert security(bob) == [Code.SESSION_INVALID, NO_ONE_TIME_PREKEY]
    await bob.receive(post.blobs([*between, last]))
    assert bodies(bob, clock) == texts
    for client in (alice, bob):
        await client.close()


@clause("8.7")
async def test_a_recipient_that_lost_its_file_asks_for_what_has_no_receipt_in_a_new_session(two: Two) -> None:
    await two.say(b"before")
    await two.talk()
    await two.say(b"on its way")
    await two.bob.close()
    for name in ("client.db", "client.db-wal", "client.db-shm"):
        (two.home / "bob" / name).unlink(missing_ok=True)
    two.bob = client_in(two.home / "bob", clock=two.clock, settings=SMALL_GAP, seed=2)
    await two.talk(4)
    assert bodies(two.bob, two.clock) == [b"on its way"]
    assert security(two.bob) == [Code.SESSION_INVALID, NO_ONE_TIME_PREKEY]
    assert await two.alice.outbox.counts() == {}
    await introduce(two.alice, two.bob, name="bob")
    await two.answer(b"I am back")
    await two.talk()
    assert bodies(two.alice, two.clock) == [b"I am back"]


@clause("9.5")
async def test_what_a_gap_skipped_is_asked_for_sent_again_and_shown_marked_as_late(two: Two) -> None:
    await two.say(b"0", b"1", b"2")
    first, _lost, third = await two.post.collect(two.alice)
    await two.bob.receive(two.post.blobs([first, third]))
    assert bodies(two.bob, two.clock) == [b"0"]
    two.clock.advance(5 * MINUTE_MS)
    await two.bob.run_maintenance()
    assert bodies(two.bob, two.clock) == [b"0", b"2"]
    await two.talk(4)
    assert [(one.plaintext, one.is_late) for one in shown(two.bob, two.clock)] == [
        (b"0", False),
        (b"2", False),
        (b"1", True),
    ]
    assert await two.alice.outbox.counts() == {}


@clause("9.5")
async def test_a_request_names_its_session_travels_in_the_current_one_and_brings_the_same_sealed_bytes(
    two: Two,
) -> None:
    await two.say(b"0")
    await two.talk()
    [(old, _)] = await two.sessions()
    await two.say(*(b"%d" % number for number in range(1, 10)))
    envelopes = await two.post.collect(two.alice)
    await two.bob.receive(two.post.blobs([envelopes[1], envelopes[8]]))  # 2 waits for 1; 9 is too far ahead
    await two.talk()
    [(new, same)] = await two.sessions()
    assert new == same != old
    two.clock.advance(5 * MINUTE_MS)
    await two.bob.run_maintenance()
    requests = await two.post.deliver(two.bob, two.alice)
    assert {unseal_envelope(raw, recipient=two.alice.identity).message.session_id for raw in requests} == {new}
    originals = [decode_envelope(raw).sealed for raw in envelopes]
    again = await two.post.collect(two.alice)
    assert [decode_envelope(raw).sealed for raw in again] == [originals[0], *originals[2:8]]
    await two.bob.receive(two.post.blobs(again))
    assert sorted(bodies(two.bob, two.clock)) == [b"%d" % number for number in range(10)]


@clause("9.5")
async def test_a_request_ends_the_wait_of_a_message_that_was_refused(two: Two) -> None:
    class RefusingTheSecond(Post):
        async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
            if entry.message_id == second.message_id:
                raise AttemptFailed("no such mailbox", failure=Failure.RECIPIENT_KEY_NOT_FOUND)  # an hour's wait
            return await super().transmit(entry)

    to, post = two.bob.identity.address, RefusingTheSecond(two.clock)
    _, second, _ = [await two.alice.send(to, text) for text in (b"0", b"1", b"2")]
    stored = await post.collect(two.alice) + await post.collect(two.alice)
    await two.bob.receive(post.blobs(stored))
    two.clock.advance(5 * MINUTE_MS)
    assert await two.post.collect(two.alice) == [], "the second waits"
    await two.bob.run_maintenance()
    await two.post.deliver(two.bob, two.alice)
    await two.post.deliver(two.alice, two.bob)
    assert bodies(two.bob, two.clock) == [b"0", b"2", b"1"]


async def test_a_full_outbox_refuses_and_the_session_stands_where_it_stood(two: Two) -> None:
    tight = client_in(two.home / "tight", clock=two.clock, settings=Settings(outbox=OutboxLimits(max_entries=100)))
    await introduce(tight, two.bob, name="bob")
    await introduce(two.bob, tight, name="tight")
    to = two.bob.identity.address
    for number in range(80):
        await tight.send(to, b"%d" % number)
    for _ in range(3):
        with pytest.raises(OutboxFull):
            await tight.send(to, b"too much", wait=False)
    await two.post.exchange(tight, two.bob, rounds=2)
    await tight.send(to, b"after")
    await two.post.exchange(tight, two.bob, rounds=2)
    assert bodies(two.bob, two.clock) == [*(b"%d" % number for number in range(80)), b"after"]
    await tight.close()


@clause("8.4")
async def test_two_processes_on_one_file_never_use_a_number_or_a_key_twice(two: Two) -> None:
    other = client_in(two.home / "alice", clock=two.clock, settings=SMALL_GAP, seed=9)
    to = two.bob.identity.address
    for number in range(12):
        await (other if number % 3 else two.alice).send(to, b"%d" % number)
        if number == 5:
            await two.talk(2)
    await two.talk(3)
    assert bodies(two.bob, two.clock) == [b"%d" % number for number in range(12)]
    assert security(two.bob) == []
    await other.close()


@clause("8.1")
async def test_prekeys_rotate_weekly_and_a_contact_of_five_weeks_ago_can_still_be_written_to(two: Two) -> None:
    for _ in range(5):
        two.clock.advance(7 * DAY_MS)
        await two.bob.run_maintenance()
    await two.say(b"with the keys of five weeks ago")
    await two.post.deliver(two.alice, two.bob)
    assert bodies(two.bob, two.clock) == [b"with the keys of five weeks ago"]


async def test_prekeys_that_are_too_old_are_not_written_to_and_nothing_is_kept(two: Two) -> None:
    two.clock.advance(37 * DAY_MS)
    with pytest.raises(RestanteError, match="older than 37 days") as refused:
        await two.say(b"hello?")
    assert refused.value.code is Code.RECIPIENT_NOT_FOUND
    assert await two.alice.outbox.counts() == {}


async def test_without_one_time_prekeys_a_session_is_opened_nevertheless_and_both_sides_say_so(two: Two) -> None:
    sessions = two.alice.parts.sessions

    def spend_all() -> None:
        for prekey_id in range(1, 200):
            sessions.spend(two.bob.identity.address, prekey_id)

    await two.alice.file.run(spend_all)
    await two.say(b"hello")
    await two.talk()
    assert bodies(two.bob, two.clock) == [b"hello"]
    assert security(two.alice) == security(two.bob) == [NO_ONE_TIME_PREKEY]


@clause("8.1")
async def test_a_one_time_prekey_is_used_up_by_a_message_that_opened_and_by_nothing_else(two: Two) -> None:
    def left() -> int:
        return len(two.bob.parts.sessions.prekeys().one_time)

    await two.say(b"hello")
    [envelope] = await two.post.collect(two.alice)
    await two.bob.receive(two.post.blobs([flipped(envelope, 8 * len(envelope) - 4)]))
    assert left() == 100
    await two.bob.receive(two.post.blobs([envelope]))
    assert left() == 99


async def test_a_contact_is_believed_only_when_its_owner_signed_card_and_prekeys(two: Two) -> None:
    good = await two.bob.as_contact()
    forged = replace(good, bundle=flipped(good.bundle, 8 * len(good.bundle) - 4))
    with pytest.raises(RestanteError) as refused:
        forged.usable_bundle(now_ms=two.clock.now_ms())
    assert refused.value.code is Code.AUTHENTICATION_FAILED

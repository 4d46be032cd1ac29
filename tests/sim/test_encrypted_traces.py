"""Random traces with real keys: losses, repeats, reorderings, delays, replays, collisions, crashes and resets, at once.

What the application sees is what was sent, once each, in order within a session except what a gap time-out marked.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.core.inboxes.relay_inbox import relay_inbox_key
from restante.core.relay_envelope import build_relay_envelope
from restante.crypto.blinded_keys import NO_SECRET
from restante.model.errors import RestanteError
from restante.model.inbox_entry import InboxEntry
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, TtlType
from restante.model.places import RelayPlace
from restante.model.states import State
from restante.ports.relay_connection import StoredBlob
from restante.testing.deterministic import SeededEntropy
from restante.testing.lossy_connection import Faults
from restante.testing.memory_mailbox import MemoryMailbox
from restante.testing.virtual_time import run_in_virtual_time
from restante.wire.envelope import decode_envelope
from restante.wire.message_content import Content
from restante.wire.ttl_header import TtlHeader
from support.client.simulation import Endpoint, Stage
from support.spec.clauses import clause
from support.system.soak import first_now_rest_in_soak

MESSAGES = 14
BAD = Faults(request_lost=0.15, answer_lost=0.15, put_twice=0.2, blob_twice=0.2, blob_late=0.3)
PATIENCE_S = 3_600.0
TICK_S = 5.0


@pytest.fixture
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    made = Stage(home=tmp_path, seed=request.param, faults=BAD, store=MemoryMailbox())
    yield made
    made.close()


def below(chance: SeededEntropy, limit: int) -> int:
    return int.from_bytes(chance.draw(4), "big") % limit


async def talk(stage: Stage, endpoint: Endpoint) -> None:
    chance = stage.entropy(f"pace of {endpoint.name}")
    for number in range(MESSAGES):
        await endpoint.say(b"%s says %d" % (endpoint.name.encode(), number))
        if chance.dice() > 0:
            await asyncio.sleep((chance.dice() + 1.0) * 2.0)


async def reset(endpoint: Endpoint) -> None:
    """This side deletes its sessions and opens another, whatever the other is doing."""
    client, peer = endpoint.client, endpoint.peer.identity.address
    await client.file.run(lambda: client.parts.recovery.lose_state(peer, now_ms=client._clock.now_ms()))
    client.outbox.wake()


async def collide(endpoint: Endpoint) -> bytes | None:
    """Write something else under the id of a message the other has, with the keys of the session; the envelope."""
    client, taken = endpoint.client, endpoint.peer.entries()
    to = client.contacts.get(endpoint.peer.identity.address)

    def work() -> bytes | None:
        session = client.parts.sessions.current(endpoint.peer.identity.address)
        if session is None or not taken or to is None:
            return None
        known, now_ms = taken[-1], client._clock.now_ms()
        header = TtlHeader(created_at_ms=now_ms, ttl_s=86_400, ttl_type=TtlType.ABSOLUTE)
        content = Content(header=header, sequence=session.next_sequence, kind=Kind.TEXT, body=b"under a used id")
        encrypted = client.parts.encryptor.encrypt_content(session, to, known.message_id, content)
        used = "DELETE FROM session_message WHERE session = :session AND sequence = :sequence"
        client.file.database.run(used, session=session.row, sequence=encrypted.sequence)
        if known.session_id == session.session_id:  # it is known without being decrypted, so its number stays unused
            session.next_sequence -= 1
        [relay] = to.places.places
        assert isinstance(relay, RelayPlace)
        return build_relay_envelope(
            encrypted.payload,
            recipient=to.address,
            relay=relay.node_key,
            kind=Kind.TEXT,
            expires_at_ms=now_ms + 86_400_000,
            now_ms=now_ms,
        )

    return await client.file.run(work)


class Trouble:
    """What the seed has in store; `seen` are the envelopes that anybody may have recorded."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._chance = stage.entropy("trouble")
        self.seen: list[bytes] = []
        self.kinds: list[str] = []

    def record(self) -> list[StoredBlob]:
        """All that lies at the relay for Bob now."""
        bob, node, now_ms = self._stage.bob.identity, self._stage.place.node_key, self._stage.clock.now_ms()
        held: list[StoredBlob] = []
        for secret in (NO_SECRET, bob.access_secret):
            inbox = relay_inbox_key(bob.address, node, secret)
            held += self._stage.store.flush(inbox, after=0, limit=1_000, max_bytes=10**9, now_ms=now_ms).blobs
        self.seen += [blob.envelope for blob in held]
        return held

    async def strike(self) -> None:
        """One thing that goes wrong."""
        stage, held = self._stage, self.record()
        kind = ("lost", "replayed", "collided", "reset", "killed", "hung up")[below(self._chance, 6)]
        one = stage.both[below(self._chance, 2)]
        match kind:
            case "lost" if held:
                blob = held[below(self._chance, len(held))]
                inbox = decode_envelope(blob.envelope).inbox_key
                stage.store.delete_all(inbox, [blob.blob_id], now_ms=stage.clock.now_ms())
            case "replayed" if self.seen:
                stage.relay.take(self.seen[below(self._chance, len(self.seen))])
            case "collided":
                envelope = await collide(one)
                if envelope is not None:
                    stage.relay.take(envelope)
            case "reset":
                await reset(one)
            case "killed":
                await one.die_and_come_back()
            case _:
                stage.relay.disconnect_all()
        self.kinds.append(kind)


async def until_all_came(stage: Stage) -> None:
    for _ in range(int(PATIENCE_S / TICK_S)):
        if all(set(endpoint.peer.sent) <= set(endpoint.received()) for endpoint in stage.both):
            return
        await asyncio.sleep(TICK_S)


def assert_as_sent(endpoint: Endpoint) -> None:
    entries = endpoint.entries()
    assert sorted(entry.plaintext for entry in entries) == sorted(endpoint.peer.sent), "once each, none missing"
    by_session: dict[bytes, list[InboxEntry]] = {}
    for entry in entries:
        by_session.setdefault(entry.session_id, []).append(entry)
    for of_one in by_session.values():
        numbers = [entry.sequence_number for entry in of_one if not entry.is_late]
        assert numbers == sorted(set(numbers)), "in order within a session, except what is marked"


@clause("1.1", "1.2", "8.7", "9.4", "9.5")
@pytest.mark.parametrize("stage", first_now_rest_in_soak(range(50), now=2), indirect=True)
def test_whatever_goes_wrong_the_application_sees_what_was_sent_once_each(stage: Stage) -> None:
    trouble = Trouble(stage)

    async def trouble_makers() -> None:
        for _ in range(12):
            await asyncio.sleep(1.5)
            await trouble.strike()

    async def scenario() -> None:
        async with stage.met(), stage.online():
            await asyncio.gather(trouble_makers(), *(talk(stage, endpoint) for endpoint in stage.both))
            for endpoint in stage.both:
                await endpoint.say(b"%s has said all" % endpoint.name.encode())
            await until_all_came(stage)
            for endpoint in stage.both:  # the last ones nothing else can lose or refuse
                envelope = await collide(endpoint)
                assert envelope is not None
                stage.relay.take(envelope)
            await asyncio.sleep(10 * TICK_S)

    run_in_virtual_time(scenario(), stage.clock)
    for endpoint in stage.both:
        assert_as_sent(endpoint)
        ended = set(endpoint.final_states().values())
        assert ended <= {State.DELIVERED, State.SENT, State.PENDING, State.SENDING}, ended
        codes = {row.code for row in endpoint.facts() if row.kind is JournalKind.SECURITY}
        assert "collision" in codes
        expected = {"replay", "collision", "E009", "no_one_time_prekey", "recovery_limit"}
        assert codes <= expected, f"nothing else of this is an attack: {codes}"
    assert trouble.kinds


@clause("8.7")
@pytest.mark.parametrize("stage", first_now_rest_in_soak(range(20), now=2), indirect=True)
def test_resets_begun_by_both_at_once_end_in_one_session(stage: Stage) -> None:
    async def scenario() -> None:
        async with stage.met(), stage.online():
            await stage.alice.say(b"hello")
            await stage.settle()
            for turn in range(3):
                await asyncio.gather(*(reset(endpoint) for endpoint in stage.both))
                for endpoint in stage.both:
                    await endpoint.say(b"%s, turn %d" % (endpoint.name.encode(), turn))
                await stage.settle()
            ids = [
                one.session_id for endpoint in stage.both for one in await endpoint.client.sessions() if one.is_current
            ]
            assert len(ids) == 2
            assert len(set(ids)) == 1, "both write in the same one"

    run_in_virtual_time(scenario(), stage.clock)
    for endpoint in stage.both:
        assert_as_sent(endpoint)


def test_no_key_is_used_twice_over_crashes_and_resets(tmp_path: Path) -> None:
    """A killed client's last puts may be unknown to its next life, which then repeats numbers of the ratchet.

    The random bytes make the keys differ (SPEC 8.12)."""
    stage = Stage(home=tmp_path, seed=77, faults=BAD, store=MemoryMailbox())
    used: dict[bytes, bytes] = {}
    used_twice: list[bytes] = []

    async def scenario() -> None:
        async with stage.met(), stage.online():
            for number in itertools.count():
                await stage.alice.say(b"%d" % number)
                if number % 3 == 0:
                    await stage.alice.die_and_come_back()
                if number % 7 == 0:
                    await reset(stage.bob)
                if number == 24:
                    break
                await asyncio.sleep(0.7)
            # A receipt that a killed life took with it comes again: stored once more after a day, acked within 6 h.
            await stage.settle(patience_s=2 * 86_400)
            await asyncio.sleep(400)  # what waits behind a gap is released

    take = stage.relay.take

    def spy(raw: bytes) -> object:
        from restante.core.session_messages import unseal_envelope

        for reader in (stage.alice.identity, stage.bob.identity):
            with contextlib.suppress(RestanteError):  # sealed for the other one
                message = unseal_envelope(raw, recipient=reader).message
                name = message.session_id + message.sender + message.ratchet[:36] + message.ratchet[40:56]
                if used.setdefault(name, message.ratchet) != message.ratchet:
                    used_twice.append(name)
        return take(raw)

    stage.relay.take = spy  # type: ignore[assignment,method-assign]
    run_in_virtual_time(scenario(), stage.clock)
    assert_as_sent(stage.bob)
    assert used_twice == []
    assert len(used) > 40
    stage.close()

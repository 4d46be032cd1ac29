"""The outbox as a library: what becomes of what was sent, and who is told, without any network."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from restante.client import event_stream as events_module
from restante.client.event_stream import Missed
from restante.client.outbox import Message, Outbox
from restante.core.outbox_events import OutboxEventType
from restante.model.error_codes import Code
from restante.model.errors import (
    LocalProtocolError,
    OutboxFull,
    RestanteError,
)
from restante.model.ids import MessageId, PayloadHash, SessionTag
from restante.model.journal import JournalKind
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Confirmation, Route, State
from restante.policy.capacity import OutboxLimits
from restante.policy.failures import Failure
from restante.policy.settings import Settings
from restante.ports.encryptor import Encrypted, EncryptFailed, Encryptor
from restante.runtime.sqlite.outbox.new_entry import OutboxEvent
from restante.testing.deterministic import FakeClock
from restante.wire.acks import AckType
from restante.wire.envelope import hash_sealed_bytes
from support.outbox.scripted_carrier import CHAT, DAY_MS, HOUR_MS, MESH, SERVER, Wire, changes, sent, state
from support.spec.clauses import clause

# What follows


@clause("3.8", "3.13")
async def test_receipts_end_a_message_and_a_later_read_still_finds_it(outbox: Outbox, clock: FakeClock) -> None:
    message_id = await sent(outbox, b"x")
    await outbox.drain({Route.MESH: Wire()})
    assert await state(outbox, message_id) is State.SENT
    await outbox.acknowledge(message_id, AckType.RECEIPT)
    assert await outbox.counts() == {}
    clock.advance(20 * DAY_MS)
    async with outbox.events() as stream:
        await outbox.acknowledge(message_id, AckType.READ)
        await outbox.acknowledge(message_id, AckType.READ)
        await outbox.acknowledge(message_id, AckType.DELIVERY)
        assert [change.notice for change in await changes(stream, 1)] == [OutboxEventType.READ]
    status = await outbox.status(message_id)
    assert status is not None
    assert (status.state, status.confirmation) == (State.DELIVERED, Confirmation.READ)


@clause("3.8")
async def test_a_channel_message_ends_when_the_platform_took_it(outbox: Outbox) -> None:
    message_id = await sent(outbox, b"x", CHAT)
    await outbox.drain({Route.CHANNEL: Wire()})
    assert await state(outbox, message_id) is State.DELIVERED


@clause("5.2", "5.4")
async def test_a_dead_letter_is_recovered_sent_and_delivered(outbox: Outbox) -> None:
    message_id = await sent(outbox, b"x")
    await outbox.drain({Route.MESH: Wire(failures=[Failure.TOO_LARGE])})
    assert await state(outbox, message_id) is State.DEAD
    await outbox.recover(message_id)
    wire = Wire()
    await outbox.drain({Route.MESH: wire})
    assert wire.taken == [b"x"]
    assert await state(outbox, message_id) is State.SENT


@clause("5.2", "5.4")
async def test_a_cancelled_message_is_a_dead_letter_that_can_be_discarded(outbox: Outbox) -> None:
    message_id = await sent(outbox, b"x")
    assert await outbox.cancel(message_id) is True
    assert await outbox.cancel(message_id) is False
    assert await state(outbox, message_id) is State.DEAD
    assert await outbox.discard(message_id) is True
    assert await outbox.discard(message_id) is False
    assert await state(outbox, message_id) is State.DEAD, "for 30 days (SPEC 3.13)"
    with pytest.raises(RestanteError, match="no dead letter") as refused:
        await outbox.recover(message_id)
    assert refused.value.code is Code.NOT_FOUND


@clause("5.4")
async def test_an_expired_message_cannot_be_recovered(outbox: Outbox, clock: FakeClock) -> None:
    message_id = await sent(outbox, b"x", ttl_s=3_600)
    await outbox.cancel(message_id)
    clock.advance(HOUR_MS)
    with pytest.raises(LocalProtocolError) as refused:
        await outbox.recover(message_id)
    assert refused.value.code is Code.TTL_EXPIRED
    assert await state(outbox, message_id) is State.DEAD


class Counting(Encryptor):
    """Encrypts by reversing, and numbers what it encrypts; fails as often as it is told to."""

    def __init__(self, *failures: Failure) -> None:
        self.failures = list(failures)
        self.count = 0

    def encrypt(self, entries: Sequence[OutboxEntry], *, now_ms: int) -> list[Encrypted | EncryptFailed]:
        assert now_ms
        return [self._one(entry) for entry in entries]

    def _one(self, entry: OutboxEntry) -> Encrypted | EncryptFailed:
        if self.failures:
            return EncryptFailed(self.failures.pop(0))
        self.count += 1
        payload = entry.sealed_plaintext[::-1]
        tag = SessionTag(b"t" * 16)
        return Encrypted(payload, PayloadHash(hash_sealed_bytes(payload)), tag, self.count - 1)


@clause("3.1", "3.4", "13.1")
async def test_an_entry_without_payload_is_encrypted_and_numbered_at_its_first_lease(
    tmp_path: Path, clock: FakeClock
) -> None:
    encryptor = Counting()
    outbox = Outbox.open(tmp_path / "outbox.db", clock=clock, encryptor=encryptor)
    items = [(Message(payload=b"", sealed_plaintext=b"kept %d" % number), MESH) for number in range(3)]
    receipts = await outbox.send_many(items)
    await outbox.send(Message(payload=b"as it is", sealed_plaintext=b"kept"), MESH)
    assert encryptor.count == 0
    wire = Wire(failures=[Failure.STORAGE_REFUSED])
    await outbox.drain({Route.MESH: wire})
    clock.advance(2_000)
    await outbox.drain({Route.MESH: wire})
    assert sorted(wire.taken) == sorted([b"0 tpek", b"1 tpek", b"2 tpek", b"as it is"])
    assert encryptor.count == 3, "the same sealed bytes leave again"
    attempted = [
        (event.message_id, event.sequence, event.payload_hash)
        for event in outbox.file.journal.events(after=0, limit=100)
        if event.kind is JournalKind.ATTEMPTED and event.payload_hash is not None
    ]
    assert attempted == [
        (receipt.message_id, number, hash_sealed_bytes(b"%d tpek" % number)) for number, receipt in enumerate(receipts)
    ]
    await outbox.close()


@clause("4.4")
async def test_e008_is_retried_once_and_e005_waits_an_hour_for_the_whole_lane(tmp_path: Path, clock: FakeClock) -> None:
    encryptor = Counting(Failure.RECIPIENT_KEY_NOT_FOUND, Failure.RECIPIENT_KEY_NOT_FOUND)
    outbox = Outbox.open(tmp_path / "outbox.db", clock=clock, encryptor=encryptor)
    items = [(Message(payload=b"", sealed_plaintext=b"kept"), MESH)] * 2
    first, second = [receipt.message_id for receipt in await outbox.send_many(items)]
    wire = Wire()
    await outbox.drain({Route.MESH: wire})
    known = [await outbox.status(one) for one in (first, second)]
    assert [(one.attempts, one.last_error) for one in known if one] == [(1, Code.RECIPIENT_NOT_FOUND), (0, None)]
    clock.advance(3_599_999)
    await outbox.drain({Route.MESH: wire})
    assert wire.taken == []
    clock.advance(1)
    encryptor.failures = [Failure.ENCRYPTION_FAILED]
    await outbox.drain({Route.MESH: wire})
    assert (await state(outbox, first), await state(outbox, second)) == (State.SENT, State.SENT)
    third = (await outbox.send(*items[0])).message_id
    for _first_and_second in range(2):
        encryptor.failures = [Failure.ENCRYPTION_FAILED]
        await outbox.drain({Route.MESH: wire})
        clock.advance(10_000)
    assert await state(outbox, third) is State.DEAD
    await outbox.close()


@clause("5.3", "5.4")
async def test_a_dead_letter_counts_against_capacity_so_that_it_can_always_be_recovered(tmp_path: Path) -> None:
    limits = OutboxLimits(max_entries=100, max_lane_share=1.0)
    outbox = Outbox.open(tmp_path / "small.db", settings=Settings(outbox=limits))
    message_id = await sent(outbox, b"x")
    await outbox.cancel(message_id)
    with pytest.raises(OutboxFull):
        await outbox.send_many([(Message(payload=b"x"), MESH)] * 100)
    await outbox.send_many([(Message(payload=b"x"), MESH)] * 99)
    await outbox.recover(message_id)
    await outbox.close()


@clause("3.6", "5.4")
async def test_a_dead_letter_is_not_recovered_into_a_full_lane_where_it_would_be_evicted(outbox: Outbox) -> None:
    message_id = await sent(outbox, b"x", SERVER)
    await outbox.cancel(message_id)
    await outbox.send_many([(Message(payload=b"x"), SERVER)] * 256)
    with pytest.raises(OutboxFull, match="the dead letter stays where it is"):
        await outbox.recover(message_id)
    assert await state(outbox, message_id) is State.DEAD
    assert await outbox.counts() == {State.PENDING: 256}


@clause("2.2", "5.3")
async def test_a_retriable_dead_letter_is_tried_again_by_itself_once_a_day(outbox: Outbox, clock: FakeClock) -> None:
    message_id = await sent(outbox, b"x", ttl_s=90 * 86_400)
    await exhausted(outbox, clock, message_id)
    assert await state(outbox, message_id) is State.DEAD
    clock.advance(DAY_MS - 1)
    await outbox.sweep()
    assert await state(outbox, message_id) is State.DEAD
    clock.advance(1)
    await outbox.sweep()
    assert await state(outbox, message_id) is State.PENDING


@clause("5.3")
async def test_a_retriable_dead_letter_is_kept_until_its_message_expires(outbox: Outbox, clock: FakeClock) -> None:
    message_id = await sent(outbox, b"x", ttl_s=5 * 86_400)
    await exhausted(outbox, clock, message_id)
    clock.advance(5 * DAY_MS)
    await outbox.sweep()
    assert await state(outbox, message_id) is State.DEAD
    with pytest.raises(RestanteError, match="no dead letter"):
        await outbox.recover(message_id)


async def exhausted(outbox: Outbox, clock: FakeClock, message_id: MessageId) -> None:
    """Let every attempt fail until the message is a dead letter."""
    wire = Wire(failures=[Failure.STORAGE_REFUSED] * 15)
    while await state(outbox, message_id) is State.PENDING:
        await outbox.drain({Route.MESH: wire})
        clock.advance(4_400_000)
    clock.advance(-4_400_000)


# Events


@clause("3.12")
async def test_a_callback_that_fails_is_reported_and_harms_no_send(outbox: Outbox) -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context["exception"]))
    problem = RuntimeError("of the application")

    def fail(_change: OutboxEvent) -> None:
        raise problem

    outbox.on_event(fail)
    heard: list[OutboxEvent] = []
    outbox.on_event(heard.append)
    message_id = await sent(outbox, b"x")
    assert reported == [problem]
    assert [change.message_id for change in heard] == [message_id]
    assert await state(outbox, message_id) is State.PENDING


async def test_a_callback_hears_every_change_after_it_is_on_disk(outbox: Outbox) -> None:
    heard: list[tuple[OutboxEventType, str | None]] = []
    stop = outbox.on_event(lambda change: heard.append((change.notice, change.code)))
    message_id = await sent(outbox, b"x")
    await outbox.drain({Route.MESH: Wire(failures=[Failure.AUTHENTICATION_FAILED])})
    await outbox.recover(message_id)
    await outbox.drain({Route.MESH: Wire()})
    await outbox.acknowledge(message_id, AckType.DELIVERY)
    await outbox.acknowledge(message_id, AckType.READ)
    stop()
    await sent(outbox, b"unheard")
    assert heard == [
        (OutboxEventType.QUEUED, None),
        (OutboxEventType.DEAD_LETTERED, "E103"),
        (OutboxEventType.RECOVERED, None),
        (OutboxEventType.SENT, None),
        (OutboxEventType.DELIVERY_CONFIRMED, None),
        (OutboxEventType.DELIVERED, None),
        (OutboxEventType.READ, None),
    ]


@clause("3.12")
async def test_expiry_and_retries_are_told_too(outbox: Outbox, clock: FakeClock) -> None:
    heard: list[OutboxEventType] = []
    outbox.on_event(lambda change: heard.append(change.notice))
    await sent(outbox, b"x", ttl_s=3_600)
    await outbox.drain({Route.MESH: Wire(failures=[Failure.NETWORK_TIMEOUT])})
    clock.advance(HOUR_MS)
    await outbox.drain({Route.MESH: Wire()})
    assert heard == [OutboxEventType.QUEUED, OutboxEventType.RETRIED, OutboxEventType.EXPIRED]


async def test_a_slow_reader_is_told_how_much_it_missed(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "MAX_WAITING", 3)
    async with outbox.events() as stream:
        await outbox.send_many([(Message(payload=b"x"), MESH)] * 5)
        assert len(await changes(stream, 1)) == 1
        assert await anext(stream) == Missed(2)
        await sent(outbox, b"x")
        rest = [await anext(stream) for _ in range(3)]
    assert all(not isinstance(change, Missed) for change in rest)


async def test_closing_ends_the_streams(tmp_path: Path) -> None:
    outbox = Outbox.open(tmp_path / "outbox.db")
    stream = outbox.events()
    await outbox.close()
    assert [change async for change in stream] == []

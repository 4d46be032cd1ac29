"""What a node of the mesh gives at most, over a real connection: space, signatures, subscriptions and answers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from restante.core.mesh_proofs.records import sign_record
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.journal import JournalKind
from restante.node.client_connection import ClientConnection
from restante.node.mesh.deletes import HASHES_A_COMMIT
from restante.policy.connection_limits import RelayLimits
from restante.policy.mesh.time_buckets import period_at
from restante.policy.quota import MailboxQuota
from restante.policy.settings import Settings
from restante.ports.relay_connection import AttemptFailed
from restante.testing.deterministic import FakeClock
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.frames.mesh import encode_mesh_frame
from restante.wire.frames.mesh_storage import UNLIMITED, GetRecord, MeshRoom
from restante.wire.frames.mesh_types import MAX_HASHES
from restante.wire.mesh_keys import record_key_of
from restante.wire.prekey_records import encode_record
from support.mesh.running_nodes import NOW_MS, OpenInbox, RunningNode, inbox_now, running_node
from support.spec.clauses import clause
from support.system.wait_until import until_true

RECORD = sign_record(
    Identity(b"r" * 32), bytes(7_900), period=period_at(NOW_MS), now_ms=NOW_MS, nonce=bytes(12), entropy=bytes(32)
)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    async with running_node(tmp_path / "1", 1, clock=FakeClock(NOW_MS)) as running:
        yield running


@clause("6.6", "7.6")
async def test_prekey_records_take_at_most_a_tenth_of_the_total(tmp_path: Path) -> None:
    """Anybody can sign records of its own keys, and they are kept for two months."""
    quota = MailboxQuota(total_bytes=1_000_000)
    async with running_node(tmp_path, 1, clock=FakeClock(NOW_MS), settings=Settings(mailbox=quota)) as node:
        connection, refused = await node.dial(), set()
        for number in range(1, 21):
            owner = Identity(bytes([number]) * 32)
            record = sign_record(
                owner,
                bytes(7_900),
                period=period_at(NOW_MS),
                now_ms=NOW_MS,
                nonce=bytes(12),
                entropy=bytes(32),
            )
            try:
                await connection.put_record(encode_record(record))
            except AttemptFailed as problem:
                refused.add(problem.code)
        assert refused == {Code.STORAGE_FAILED}
        assert node.service.store.total_bytes() <= quota.total_bytes // 10
        await connection.close()


@clause("6.6")
async def test_one_network_holds_its_share_whatever_node_keys_it_proves(tmp_path: Path) -> None:
    quota = MailboxQuota(total_bytes=1_000_000)
    async with running_node(tmp_path, 1, clock=FakeClock(NOW_MS), settings=Settings(mailbox=quota)) as node:
        inbox, refused = inbox_now(node.clock), 0
        for number in range(1, 120):
            connection = await node.dial()
            connection.authenticate(Identity(number.to_bytes(32, "big")))
            try:
                await connection.put(inbox.signer.public_key, inbox.bucket, inbox.envelope(bytes([number]) * 8_192))
            except AttemptFailed:
                refused += 1
            await connection.close()
        assert refused
        assert node.service.store.total_bytes() <= quota.total_bytes // 2 + 8_300


@clause("6.6")
async def test_a_node_that_is_limited_hears_with_each_answer_what_it_may_still_store(tmp_path: Path) -> None:
    quota = MailboxQuota(total_bytes=1_000_000)
    async with running_node(tmp_path, 1, clock=FakeClock(NOW_MS), settings=Settings(mailbox=quota)) as node:
        inbox, rooms = inbox_now(node.clock), list[MeshRoom]()
        exit_node, client = await node.dial(), await node.dial()
        exit_node.authenticate(Identity(b"e" * 32))
        blinded, size = inbox.signer.public_key, len(inbox.envelope(bytes(10_000)))
        for number in range(60):
            raw = inbox.envelope(number.to_bytes(2, "big") * 5_000)
            with contextlib.suppress(AttemptFailed):
                await exit_node.put(blinded, inbox.bucket, raw, on_room=rooms.append)
            assert bool(rooms) == (node.service.store.total_bytes() > 500_000), number
        # All connections of this test are one network, which holds half of the total: far more than its tenth.
        assert set(rooms) == {MeshRoom(node_bytes=0, key_bytes=UNLIMITED)}
        assert len(rooms) == 60 - 500_000 // size, "with the put that crosses the half, and with each refusal"
        with pytest.raises(AttemptFailed):
            await client.put(blinded, inbox.bucket, inbox.envelope(b"x"), on_room=lambda _: pytest.fail("no node"))
        for each in (exit_node, client):
            await each.close()


@clause("7.4", "6.8")
async def test_a_delete_of_as_many_hashes_as_there_may_be_deletes_all_of_them(node: RunningNode) -> None:
    inbox = inbox_now(node.clock)
    connection = await node.dial()
    bodies = [b"message %d" % number for number in range(HASHES_A_COMMIT + 1)]
    for body in bodies:
        await connection.put(inbox.signer.public_key, inbox.bucket, inbox.envelope(body))
    hashes = [hash_sealed_bytes(body) for body in bodies]
    others = [hash_sealed_bytes(b"%d" % number) for number in range(MAX_HASHES - len(hashes))]
    reader = await node.dial()
    await reader.delete(inbox.delete([hashes[0], *others, *hashes[1:]]))
    assert node.service.store.live_hashes(inbox.key, now_ms=0) == []
    assert node.kinds().count((JournalKind.SERVED, None)) == len(bodies)


@clause("7.12")
async def test_entries_cost_tokens_and_a_greedy_connection_is_told_to_wait(node: RunningNode) -> None:
    bucket, connection = inbox_now(node.clock).bucket, await node.dial()
    inboxes = [OpenInbox(bucket - number) for number in range(64)]
    for _ in range(4):
        await connection.fetch([each.entry(connection) for each in inboxes])
    with pytest.raises(AttemptFailed) as refused:
        await connection.fetch([each.entry(connection) for each in inboxes])
    assert refused.value.code is Code.RATE_LIMITED
    assert refused.value.retry_after_ms
    await connection.close()


@clause("6.8")
async def test_an_inbox_has_a_limited_number_of_subscriptions(node: RunningNode) -> None:
    inbox = inbox_now(node.clock)
    readers = [await node.dial() for _ in range(5)]
    for reader in readers[:4]:
        await reader.subscribe([inbox.entry(reader, subscribes=True)])
    with pytest.raises(AttemptFailed):
        await readers[4].subscribe([inbox.entry(readers[4], subscribes=True)])
    await readers[0].close()
    await until_true(lambda: node.service.family.subscriptions == 3)
    await readers[4].subscribe([inbox.entry(readers[4], subscribes=True)])
    for reader in readers:
        await reader.close()


@clause("6.6", "6.7")
async def test_a_full_inbox_refuses_for_now(tmp_path: Path) -> None:
    settings = Settings(mailbox=MailboxQuota(max_blobs=100))
    async with running_node(tmp_path / "1", 1, clock=FakeClock(NOW_MS), settings=settings) as node:
        inbox, connection = inbox_now(node.clock), await node.dial()
        puts = [
            connection.put(inbox.signer.public_key, inbox.bucket, inbox.envelope(b"%d" % number))
            for number in range(101)
        ]
        answers = await asyncio.gather(*puts, return_exceptions=True)
        refused = [each for each in answers if isinstance(each, AttemptFailed)]
        assert refused
        assert {each.code for each in refused} == {Code.STORAGE_FAILED}
        await connection.close()


@clause("6.8", "7.12")
async def test_who_does_not_read_its_answers_gets_no_more_than_a_send_buffer_holds(node: RunningNode) -> None:
    """A question of 41 bytes has an answer of 8 KB: what one read of a socket asks would take 50 MB, each time."""
    connection = await node.dial()
    await connection.put_record(encode_record(RECORD))
    assert connection.transport is not None
    connection.transport.pause_reading()
    question = encode_mesh_frame(GetRecord(key=record_key_of(RECORD.blinded)), 1)
    connection.send(question * (1_048_576 // len(question)))
    await until_true(lambda: node.relay.stats().refusals_total.get(Code.RATE_LIMITED, 0) > 0)
    [served] = cast("set[ClientConnection]", node.relay._table._open)
    assert served.transport is not None
    assert served.transport.get_write_buffer_size() < 2 * RelayLimits().max_send_buffer_bytes
    connection.abort()

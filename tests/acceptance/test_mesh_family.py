"""What a node of the mesh answers over a real connection: to senders, to owners, to neighbours and to strangers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from restante.core.mesh_proofs.receipts import is_receipt_for, leaf_of
from restante.core.mesh_proofs.records import sign_record
from restante.core.replication.serving import SyncFinished
from restante.core.replication.serving import step as serving_step
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.journal import JournalKind
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.mesh.time_buckets import period_at
from restante.ports.relay_connection import AttemptFailed
from restante.testing.deterministic import FakeClock
from restante.wire.descriptors import encode_descriptor
from restante.wire.envelope import decode_envelope, hash_sealed_bytes
from restante.wire.frames.mesh_replication import Block, KeySummary
from restante.wire.frames.mesh_storage import NotResponsible, Record, WrongBucket
from restante.wire.mesh_keys import record_key_of
from restante.wire.prekey_records import encode_record
from restante.wire.storage_receipts import StorageReceipt
from support.mesh.running_nodes import HOUR_MS, NOW_MS, OpenInbox, RunningNode, inbox_now, introduce, running_node
from support.spec.clauses import clause

LOW, HIGH = bytes(32), b"\xff" * 32
RECORD = sign_record(
    Identity(b"r" * 32), bytes(7_900), period=period_at(NOW_MS), now_ms=NOW_MS, nonce=bytes(12), entropy=bytes(32)
)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    async with running_node(tmp_path / "1", 1, clock=FakeClock(NOW_MS)) as running:
        yield running


@contextlib.asynccontextmanager
async def several(home: Path, count: int) -> AsyncIterator[list[RunningNode]]:
    async with contextlib.AsyncExitStack() as stack:
        clock = FakeClock(NOW_MS)
        nodes = [
            await stack.enter_async_context(running_node(home / str(number), number, clock=clock))
            for number in range(1, count + 1)
        ]
        introduce(nodes)
        yield nodes


async def put_all(node: RunningNode, inbox: OpenInbox, *bodies: bytes) -> None:
    connection = await node.dial()
    for body in bodies:
        receipt = await connection.put(inbox.signer.public_key, inbox.bucket, inbox.envelope(body))
        assert isinstance(receipt, StorageReceipt)
    await connection.close()


@clause("7.8", "7.9", "10.2")
async def test_a_put_is_on_disk_when_its_receipt_comes_and_a_second_one_gets_the_same_answer(node: RunningNode) -> None:
    inbox, connection = inbox_now(node.clock), await node.dial()
    raw = inbox.envelope(b"sealed")
    for _ in range(2):
        receipt = await connection.put(inbox.signer.public_key, inbox.bucket, raw)
        assert isinstance(receipt, StorageReceipt)
        assert is_receipt_for(receipt, node=node.identity.node_key, leaf=leaf_of(decode_envelope(raw)))
        assert node.database.run("SELECT envelope FROM mesh_blob") == [(raw,)]
    await connection.close()


@clause("7.4", "7.12")
@pytest.mark.parametrize("bucket", [2**64 - 1, 2**63, 2**40, NOW_MS // HOUR_MS + 2, 0])
async def test_a_delete_for_a_bucket_without_mail_keeps_nothing_and_hinders_nobody(
    node: RunningNode, bucket: int
) -> None:
    """A row number above 2^63 would fail the commit with the puts of others; a far bucket would never be collected."""
    inbox, connection, stranger = inbox_now(node.clock), await node.dial(), await node.dial()
    delete = OpenInbox(bucket, Identity(b"s" * 32)).delete([hash_sealed_bytes(b"never stored")])
    put = connection.put(inbox.signer.public_key, inbox.bucket, inbox.envelope(b"mail"))
    _, receipt = await asyncio.gather(stranger.delete(delete), put)
    assert isinstance(receipt, StorageReceipt)
    assert node.service.store.holdings().keys == 1
    for each in (connection, stranger):
        await each.close()


@clause("7.8")
async def test_puts_of_one_commit_share_a_signature_and_each_gets_its_path(node: RunningNode) -> None:
    inbox, connection = inbox_now(node.clock), await node.dial()
    raws = [inbox.envelope(b"%d" % number) for number in range(40)]
    receipts = await asyncio.gather(*[connection.put(inbox.signer.public_key, inbox.bucket, raw) for raw in raws])
    assert all(isinstance(each, StorageReceipt) for each in receipts)
    signatures = {each.ack.signature for each in receipts if isinstance(each, StorageReceipt)}
    assert len(signatures) < 10
    await connection.close()


@clause("7.10")
async def test_a_put_into_another_bucket_is_told_the_nodes_time(node: RunningNode) -> None:
    connection, now_ms = await node.dial(), node.clock.now_ms()
    for hours in (-2, -1, 1, 2):
        inbox = OpenInbox(inbox_now(node.clock).bucket + hours)
        answer = await connection.put(inbox.signer.public_key, inbox.bucket, inbox.envelope(b"late"))
        assert answer == WrongBucket(time_ms=now_ms)
    assert node.database.run("SELECT count(*) FROM mesh_blob") == [(0,)]
    await connection.close()


@clause("7.10")
async def test_a_put_whose_key_does_not_follow_from_blinded_key_and_bucket_is_refused_for_good(
    node: RunningNode,
) -> None:
    inbox, connection = inbox_now(node.clock), await node.dial()
    stranger = OpenInbox(inbox.bucket, Identity(b"s" * 32))
    with pytest.raises(AttemptFailed) as refused:
        await connection.put(stranger.signer.public_key, inbox.bucket, inbox.envelope(b"sealed"))
    assert refused.value.code is Code.MALFORMED
    await connection.close()


@clause("7.10")
async def test_a_node_beyond_the_sixteen_closest_names_better_ones(tmp_path: Path) -> None:
    async with several(tmp_path, 18) as nodes:
        inbox = inbox_now(nodes[0].clock)
        target = int.from_bytes(inbox.key, "big")
        farthest = max(nodes, key=lambda each: each.service.view.own.position ^ target)
        connection = await farthest.dial()
        answer = await connection.put(inbox.signer.public_key, inbox.bucket, inbox.envelope(b"sealed"))
        assert isinstance(answer, NotResponsible)
        closest = sorted(nodes, key=lambda each: each.service.view.own.position ^ target)[:16]
        assert list(answer.descriptors) == [encode_descriptor(each.service.view.own) for each in closest]
        await connection.close()


@clause("7.4", "7.5")
async def test_an_owner_lists_fetches_and_deletes_and_the_node_signs_what_it_said(node: RunningNode) -> None:
    inbox = inbox_now(node.clock)
    await put_all(node, inbox, b"one", b"two")
    hashes = (hash_sealed_bytes(b"one"), hash_sealed_bytes(b"two"))
    connection = await node.dial()
    answer = await connection.fetch([inbox.entry(connection)])
    assert answer.listed == {inbox.key: hashes}
    assert not answer.done.answers[0].is_complete
    after = await connection.fetch([inbox.entry(connection, after=answer.done.answers[0].last)])
    assert after.listed == {inbox.key: ()}
    blobs = await connection.want(inbox.key, hashes)
    assert [blobs[each].envelope for each in hashes] == [inbox.envelope(b"one"), inbox.envelope(b"two")]
    await connection.delete(inbox.delete(hashes[:1]))
    assert (await connection.fetch([inbox.entry(connection)])).listed == {inbox.key: hashes[1:]}
    kinds = [each.kind for each in node.journal.events(after=0, limit=10)]
    assert kinds == [JournalKind.STORED, JournalKind.STORED, JournalKind.SERVED, JournalKind.DELETED]
    await connection.close()


@clause("7.5")
async def test_an_answer_is_complete_once_the_node_has_synced(node: RunningNode) -> None:
    inbox, view = inbox_now(node.clock), node.service.view
    view.serving, _ = serving_step(view.serving, SyncFinished(answered=0, asked=0), now_ms=NOW_MS)
    connection = await node.dial()
    assert (await connection.fetch([inbox.entry(connection)])).done.answers[0].is_complete
    await connection.close()


@clause("6.5", "7.12")
async def test_a_bad_proof_ends_the_connection_and_no_stranger_deletes_or_reads(node: RunningNode) -> None:
    inbox = inbox_now(node.clock)
    await put_all(node, inbox, b"one")
    hashed = hash_sealed_bytes(b"one")
    other = OpenInbox(inbox.bucket, Identity(b"s" * 32))
    bad_entry = await node.dial()
    entry = replace(inbox.entry(bad_entry), signature=other.entry(bad_entry).signature)
    with pytest.raises(AttemptFailed):
        await bad_entry.fetch([entry])
    await asyncio.wait_for(bad_entry.lost(), 10)
    bad_delete = await node.dial()
    with pytest.raises(AttemptFailed):
        await bad_delete.delete(replace(inbox.delete([hashed]), signature=other.delete([hashed]).signature))
    await asyncio.wait_for(bad_delete.lost(), 10)
    replayed, first = await node.dial(), await node.dial()
    with pytest.raises(AttemptFailed):
        await replayed.fetch([inbox.entry(first)])  # a proof of another connection
    stranger = await node.dial()
    with pytest.raises(AttemptFailed) as refused:
        await stranger.want(inbox.key, [hashed])
    assert refused.value.code is Code.AUTHENTICATION_FAILED
    assert node.database.run("SELECT count(*) FROM mesh_blob") == [(1,)]
    for each in (first, stranger):
        await each.close()


@clause("6.5")
async def test_a_connection_puts_or_proves_never_both(node: RunningNode) -> None:
    inbox = inbox_now(node.clock)
    putting, proving = await node.dial(), await node.dial()
    await putting.put(inbox.signer.public_key, inbox.bucket, inbox.envelope(b"one"))
    await proving.fetch([inbox.entry(proving)])
    with pytest.raises(AttemptFailed):
        await putting.fetch([inbox.entry(putting)])
    with pytest.raises(AttemptFailed):
        await proving.put(inbox.signer.public_key, inbox.bucket, inbox.envelope(b"two"))
    for each in (putting, proving):
        await each.close()


@clause("7.4")
async def test_new_mail_is_pushed_to_who_is_subscribed_and_goes_on_after_deletes(node: RunningNode) -> None:
    inbox = inbox_now(node.clock)
    await put_all(node, inbox, b"before")
    reader = await node.dial()
    answer = await reader.subscribe([inbox.entry(reader, subscribes=True)])
    assert answer.listed == {inbox.key: (hash_sealed_bytes(b"before"),)}
    bodies = [bytes([number]) * 200_000 for number in range(1, 17)]  # more than one window
    await put_all(node, inbox, *bodies)
    pushed: list[Block] = []
    async with asyncio.timeout(20):
        while len(pushed) < len(bodies):
            some = await reader.next_pushed()
            pushed += some
            await reader.delete(
                inbox.delete([hash_sealed_bytes(decode_envelope(each.envelope).sealed) for each in some])
            )
    assert [each.envelope for each in pushed] == [inbox.envelope(body) for body in bodies]
    await reader.close()


@clause("7.6")
async def test_the_newest_record_wins_and_a_rollback_changes_nothing(node: RunningNode) -> None:
    owner, period = Identity(b"p" * 32), period_at(NOW_MS)
    connection = await node.dial()

    def record(issued_at_ms: int, period: int = period) -> bytes:
        signed = sign_record(owner, b"bundle", period=period, now_ms=issued_at_ms, nonce=bytes(12), entropy=bytes(32))
        return encode_record(signed)

    newer, older = record(NOW_MS + 1), record(NOW_MS)
    assert await connection.put_record(newer) == Record(record=newer)
    assert await connection.put_record(older) == Record(record=newer)
    signed = sign_record(owner, b"bundle", period=period, now_ms=NOW_MS, nonce=bytes(12), entropy=bytes(32))
    assert await connection.get_record(record_key_of(signed.blinded)) == newer
    assert await connection.get_record(bytes(32)) is None
    for far in (period - 2, period + 2):
        with pytest.raises(AttemptFailed):
            await connection.put_record(record(NOW_MS, far))
    await connection.close()


@clause("7.9")
async def test_neighbours_compare_and_copy_and_strangers_may_not(tmp_path: Path) -> None:
    async with several(tmp_path, 3) as nodes:
        first, second, _ = nodes
        inbox = inbox_now(first.clock)
        await put_all(first, inbox, b"one", b"two")
        connection = await first.dial()
        with pytest.raises(AttemptFailed):
            await connection.have(LOW, HIGH, [])
        connection.authenticate(second.identity)
        hashes = dict.fromkeys([hash_sealed_bytes(b"one"), hash_sealed_bytes(b"two")])
        lists, through = await connection.have(LOW, HIGH, [])
        assert (lists, through) == ({inbox.key: hashes}, HIGH)
        own = first.service.store.summaries(LOW, HIGH, limit=10)
        assert await connection.have(LOW, HIGH, own) == ({}, HIGH)
        assert own == [KeySummary(inbox_key=inbox.key, count=2, xor=own[0].xor)]
        copy = await connection.want_copy(inbox.key, hash_sealed_bytes(b"one"))
        assert isinstance(copy, Block)
        assert copy.envelope == inbox.envelope(b"one")
        await connection.close()


@clause("7.1", "7.12")
async def test_a_directory_is_copied_once_an_hour_and_new_descriptors_are_heard(tmp_path: Path) -> None:
    async with several(tmp_path, 3) as nodes:
        first = nodes[0]
        heard: list[NodeDescriptor] = []
        first.service.family.on_descriptor = lambda descriptor, _source: heard.append(descriptor)
        connection = await first.dial()
        page = await connection.sync_directory(0, bytes(32))
        assert page.is_last
        assert set(page.descriptors) == {encode_descriptor(each.service.view.own) for each in nodes}
        assert (await connection.sync_directory(0, page.digest)).descriptors == ()
        with pytest.raises(AttemptFailed) as refused:
            await connection.sync_directory(0, bytes(32))
        assert refused.value.code is Code.RATE_LIMITED
        first.clock.advance(HOUR_MS)
        renewed = nodes[1].service.view.issue(nodes[1].service.view.own.endpoints)
        taken = await connection.publish(encode_descriptor(renewed))
        assert taken.time_ms == first.clock.now_ms()
        assert heard == [renewed]
        with pytest.raises(AttemptFailed):
            await connection.publish(encode_descriptor(replace(renewed, issued_at_ms=1)))
        await connection.close()


@clause("6.8")
async def test_a_node_ends_in_peace_while_clients_end_their_connections(node: RunningNode) -> None:
    """The node's last words to a client that has gone reset the connection before the loop has seen that it went."""
    inbox, connection = inbox_now(node.clock), await node.dial()
    await connection.put(inbox.signer.public_key, inbox.bucket, inbox.envelope(b"mail"))
    connection.abort()
    await asyncio.sleep(0)  # its socket is closed, and the node's end has not been looked at yet
    await node.relay.stop()
    await connection.lost()

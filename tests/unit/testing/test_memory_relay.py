"""testing/memory_relay: the rules of a relay, without its sockets."""

import asyncio
from dataclasses import replace

import pytest

from restante.core.inboxes.relay_inbox import OwnInbox, relay_inbox_key
from restante.core.mesh_proofs.receipts import is_receipt_for, leaf_of
from restante.crypto.identity import Identity
from restante.policy.failures import Failure
from restante.policy.quota import MailboxQuota
from restante.ports.relay_connection import AttemptFailed, ConnectionLost, RelayConnection
from restante.testing.deterministic import FakeClock
from restante.testing.memory_mailbox import MemoryMailbox
from restante.testing.memory_relay import MemoryRelay
from restante.wire.envelope import Envelope, encode_envelope

HOUR_MS = 3_600_000
NODE = Identity(b"n" * 32)
ALICE = Identity(b"a" * 32)
BOB = Identity(b"b" * 32)
FOR_BOB = Envelope(
    inbox_key=relay_inbox_key(BOB.address, NODE.node_key), expires_at_ms=600_000 * HOUR_MS, sealed=b"first"
)
SECOND = replace(FOR_BOB, sealed=b"second")


@pytest.fixture
def relay() -> MemoryRelay:
    clock = FakeClock(at_ms=FOR_BOB.expires_at_ms - 48 * HOUR_MS)
    return MemoryRelay(NODE, MemoryMailbox(), quota=MailboxQuota(max_blobs=100), clock=clock)


async def failure_of(link: RelayConnection, raw: bytes) -> Failure:
    with pytest.raises(AttemptFailed) as failed:
        await link.put(raw)
    return failed.value.failure


async def test_a_put_is_acknowledged_by_the_relay_itself(relay: MemoryRelay) -> None:
    receipt = await relay.link().put(encode_envelope(FOR_BOB))
    assert is_receipt_for(receipt, node=NODE.node_key, leaf=leaf_of(FOR_BOB))
    assert not is_receipt_for(receipt, node=NODE.node_key, leaf=leaf_of(SECOND))


async def test_each_blob_comes_once_a_session_in_order_and_again_in_the_next_until_deleted(relay: MemoryRelay) -> None:
    raws = [encode_envelope(FOR_BOB), encode_envelope(SECOND)]
    for raw in raws:
        await relay.link().put(raw)
    one = relay.link(OwnInbox(BOB))
    first, second = await one.next_blob(), await one.next_blob()
    assert [first.envelope, second.envelope] == raws
    waiting = asyncio.create_task(one.next_blob())
    for _ in range(10):
        await asyncio.sleep(0)  # turns of the loop in which it could have been answered
    assert not waiting.done()
    await one.delete(first.blob_id)
    assert await relay.link(OwnInbox(BOB)).next_blob() == second
    waiting.cancel()


async def test_what_arrives_later_is_pushed_to_a_session_that_waits(relay: MemoryRelay) -> None:
    waiting = asyncio.create_task(relay.link(OwnInbox(BOB)).next_blob())
    await asyncio.sleep(0)
    await relay.link().put(encode_envelope(FOR_BOB))
    assert (await waiting).envelope == encode_envelope(FOR_BOB)


async def test_nobody_gets_or_deletes_the_mail_of_another(relay: MemoryRelay) -> None:
    alice, bob = relay.link(OwnInbox(ALICE)), relay.link(OwnInbox(BOB))
    await alice.put(encode_envelope(FOR_BOB))
    blob = await bob.next_blob()
    await alice.delete(blob.blob_id)
    assert await relay.link(OwnInbox(BOB)).next_blob() == blob


async def test_refusals_are_permanent_or_temporary(relay: MemoryRelay) -> None:
    link = relay.link()
    assert await failure_of(link, b"no envelope") is Failure.INVALID_FORMAT
    assert await failure_of(link, bytes(300_000)) is Failure.TOO_LARGE
    short_lived = replace(FOR_BOB, expires_at_ms=FOR_BOB.expires_at_ms - 48 * HOUR_MS)
    assert await failure_of(link, encode_envelope(short_lived)) is Failure.EXPIRES_TOO_SOON
    for _ in range(100):
        await link.put(encode_envelope(FOR_BOB))
    assert await failure_of(link, encode_envelope(FOR_BOB)) is Failure.STORAGE_REFUSED


async def test_a_link_that_was_hung_up_is_of_no_more_use(relay: MemoryRelay) -> None:
    link = relay.link(OwnInbox(BOB))
    waiting = asyncio.create_task(link.next_blob())
    await asyncio.sleep(0)
    relay.disconnect_all()
    for lost in (waiting, link.put(encode_envelope(FOR_BOB)), link.delete(1), link.next_blob()):
        with pytest.raises(ConnectionLost):
            await lost
    await link.close()
    await relay.link(OwnInbox(BOB)).put(encode_envelope(FOR_BOB))

"""The relay and its link over real sockets: nothing is acknowledged too early, served to the wrong, or lost."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from restante.core.mesh_proofs.receipts import evidence_of, is_receipt_for, leaf_of
from restante.core.mesh_proofs.withholding import is_stored
from restante.crypto.identity import is_signed_by
from restante.policy.failures import Failure
from restante.policy.quota import MailboxQuota
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.sqlite.file.database import Database
from restante.runtime.transport.relay_connection import TlsRelayConnection
from restante.wire.envelope import decode_envelope, hash_sealed_bytes
from restante.wire.frames import codec
from restante.wire.storage_receipts import StorageReceipt, encode_receipt
from support.relay.raw_peer import BOB, MALLORY, NODE, SOON_S, RawPeer, RunningRelay, running_relay
from support.spec.clauses import clause


@pytest.fixture
async def relay(tmp_path: Path) -> AsyncIterator[RunningRelay]:
    async with running_relay(tmp_path) as running:
        yield running


async def received(link: TlsRelayConnection, count: int) -> list[bytes]:
    async with asyncio.timeout(SOON_S):
        return [(await link.next_blob()).envelope for _ in range(count)]


@clause("7.8", "10.2")
async def test_a_put_is_answered_by_the_nodes_storage_receipt_for_exactly_these_bytes(relay: RunningRelay) -> None:
    link = await relay.link()
    sent = relay.envelope(b"sealed bytes")
    receipt = await link.put(sent)
    leaf = leaf_of(decode_envelope(sent))  # one put is a tree of one leaf
    raw = encode_receipt(receipt)
    assert len(raw) == 121 + 8
    assert raw[:57] == b"\x01" + leaf[:16] + leaf + relay.clock.now_ms().to_bytes(8, "big")
    assert is_signed_by(NODE.node_key, raw[57:121], b"restante-ack-v1" + raw[:57])
    await link.close()


@clause("7.8", "10.2")
async def test_every_put_of_a_commit_has_a_receipt_that_holds_by_itself(relay: RunningRelay) -> None:
    one, other = await relay.link(), await relay.link()
    sent = [relay.envelope(b"sealed %d" % number) for number in range(50)]
    receipts = [
        each for some in await asyncio.gather(one.put_many(sent[:30]), other.put_many(sent[30:])) for each in some
    ]
    for raw, receipt in zip(sent, receipts, strict=True):
        assert isinstance(receipt, StorageReceipt)
        assert is_receipt_for(receipt, node=NODE.node_key, leaf=leaf_of(decode_envelope(raw)))
        assert is_stored(evidence_of(raw, receipt), NODE.node_key, hash_sealed_bytes(decode_envelope(raw).sealed))
    assert len({each.root for each in receipts if isinstance(each, StorageReceipt)}) < len(sent)
    for link in (one, other):
        await link.close()


@clause("1.3", "6.1")
async def test_what_is_acknowledged_is_on_disk(relay: RunningRelay) -> None:
    link = await relay.link()
    for number in range(3):
        raw = relay.envelope(b"sealed %d" % number)
        await link.put(raw)
        assert relay.held()[-1] == raw
    await link.close()


@clause("1.3", "6.7")
async def test_what_cannot_be_written_is_not_acknowledged_but_refused_for_now(relay: RunningRelay) -> None:
    link = await relay.link()
    raw = relay.envelope(b"sealed")
    other = Database(relay.database.path, schema="node")
    with other.transaction():
        with pytest.raises(AttemptFailed) as refused:
            await link.put(raw)
        assert refused.value.code.value == "E004"
        assert refused.value.failure is Failure.STORAGE_REFUSED
    other.close()
    assert relay.held() == []
    await link.put(raw)
    assert relay.held() == [raw]
    await link.close()


@clause("6.1")
async def test_equal_envelopes_are_kept_apart(relay: RunningRelay) -> None:
    link = await relay.link(BOB)
    raw = relay.envelope(b"sealed")
    for _ in range(2):
        await link.put(raw)
    assert await received(link, 2) == [raw, raw]
    await link.close()


async def test_a_relay_that_is_not_the_one_meant_is_refused(relay: RunningRelay) -> None:
    with pytest.raises(AttemptFailed, match="another node") as refused:
        await TlsRelayConnection.connect("127.0.0.1", relay.port, node=MALLORY.node_key)
    assert refused.value.failure is Failure.AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    "nonsense",
    [
        bytes(range(256)) * 8,
        b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x06\x30\x00\x00\x00\x01!",
        codec.encode_frame(codec.Ping(), 1) + b"\xff\xff\xff\xff",
    ],
    ids=["garbage", "http", "oversize", "no length", "ping with a body", "good, then bad"],
)
async def test_a_peer_that_breaks_the_format_is_cut_off_and_others_go_on(relay: RunningRelay, nonsense: bytes) -> None:
    link = await relay.link(BOB)
    async with RawPeer.connected(relay.port) as (peer, _):
        await peer.say(nonsense)
        assert await peer.is_cut_off()
    raw = relay.envelope(b"still here")
    await link.put(raw)
    assert await received(link, 1) == [raw]
    await link.close()


async def test_a_frame_cut_short_is_let_go_and_others_go_on(relay: RunningRelay) -> None:
    link = await relay.link(BOB)
    raw = relay.envelope(b"whole")
    async with RawPeer.connected(relay.port) as (peer, _):
        await peer.say(codec.encode_frame(codec.Put(envelope=raw), 1)[:-1])
        await link.put(raw)
    assert relay.held() == [raw]
    await link.close()


async def test_a_frame_may_come_byte_by_byte(relay: RunningRelay) -> None:
    async with RawPeer.connected(relay.port) as (peer, _):
        for byte in codec.encode_frame(codec.Ping(), 0xFFFF_FFFF):
            await peer.say(bytes([byte]))
        assert await peer.hear() == (0xFFFF_FFFF, codec.Pong())


@clause("6.5")
async def test_the_proof_of_another_key_opens_nothing(relay: RunningRelay) -> None:
    link = await relay.link()
    await link.put(relay.envelope(b"for bob"))
    async with RawPeer.connected(relay.port) as (peer, hello):
        refused = await peer.refusal(peer.proof(BOB, hello, signer=MALLORY))
        assert (refused.permanent, refused.code) == (True, "E103")
        assert await peer.is_cut_off()  # and no blob came
    assert len(relay.held()) == 1
    await link.close()


@clause("6.5")
async def test_a_proof_overheard_on_another_connection_or_made_for_another_node_opens_nothing(
    relay: RunningRelay,
) -> None:
    async with RawPeer.connected(relay.port) as (bobs, hello), RawPeer.connected(relay.port) as (thiefs, other_hello):
        assert other_hello.challenge != hello.challenge
        overheard = bobs.proof(BOB, hello)
        assert await bobs.ask(overheard) == codec.Subscribed()
        assert (await thiefs.refusal(overheard)).code == "E103"
    async with RawPeer.connected(relay.port) as (peer, hello):
        elsewhere = replace(hello, node_key=MALLORY.node_key)
        assert (await peer.refusal(peer.proof(BOB, elsewhere))).code == "E103"


@clause("6.5")
async def test_a_session_is_opened_once_and_only_an_open_one_may_delete(relay: RunningRelay) -> None:
    async with RawPeer.connected(relay.port) as (peer, hello):
        assert (await peer.refusal(codec.Delete(blob_ids=(1,)))).permanent
        assert await peer.ask(peer.proof(MALLORY, hello)) == codec.Subscribed()
        assert (await peer.refusal(peer.proof(BOB, hello))).permanent


@clause("6.4")
async def test_each_blob_comes_once_a_session_in_order(relay: RunningRelay) -> None:
    """More of them than may be under way at once."""
    sender = await relay.link()
    sent = [relay.envelope(b"%d" % number) for number in range(150)]
    await asyncio.gather(*(sender.put(raw) for raw in sent))
    async with RawPeer.connected(relay.port) as (peer, hello):
        assert await peer.ask(peer.proof(BOB, hello)) == codec.Subscribed()
        got, deleted = [], 0
        while deleted < len(sent):  # a delete is answered once its commit is on disk, which later blobs do not wait for
            request, heard = await peer.hear()
            if isinstance(heard, codec.Blob):
                got.append(heard.envelope)
                await peer.say(codec.encode_frame(codec.Delete(blob_ids=(heard.blob_id,)), 7))
            else:
                assert (request, heard) == (7, codec.Deleted())
                deleted += 1
        assert got == sent
        assert await peer.ask(codec.Ping()) == codec.Pong()  # nothing comes twice
    assert relay.held() == []
    await sender.close()


@clause("6.4")
async def test_what_was_not_deleted_comes_again_in_the_next_session(relay: RunningRelay) -> None:
    first = await relay.link(BOB)
    sent = [relay.envelope(b"%d" % number) for number in range(3)]
    for raw in sent:
        await first.put(raw)
    blobs = [await first.next_blob() for _ in sent]
    await first.delete(blobs[1].blob_id)
    await first.close()
    second = await relay.link(BOB)
    assert await received(second, 2) == [sent[0], sent[2]]
    await second.close()


@clause("6.4")
async def test_new_arrivals_are_pushed_to_every_live_session_of_their_inbox_and_to_no_other(
    relay: RunningRelay,
) -> None:
    sender = await relay.link()
    bobs = [await relay.link(BOB) for _ in range(2)]
    async with RawPeer.connected(relay.port) as (mallorys, hello):
        assert await mallorys.ask(mallorys.proof(MALLORY, hello)) == codec.Subscribed()
        raw = relay.envelope(b"news")
        await sender.put(raw)
        for link in bobs:
            assert await received(link, 1) == [raw]
        await mallorys.say(codec.encode_frame(codec.Ping(), 9))
        assert await mallorys.hear() == (9, codec.Pong())
    for link in (sender, *bobs):
        await link.close()


async def test_a_push_to_a_session_that_went_away_harms_nobody(relay: RunningRelay) -> None:
    gone, stays = await relay.link(BOB), await relay.link(BOB)
    await gone.close()
    raw = relay.envelope(b"news")
    await stays.put(raw)
    assert await received(stays, 1) == [raw]
    await stays.close()


@clause("6.3")
async def test_an_expired_blob_is_not_served(relay: RunningRelay) -> None:
    sender = await relay.link()
    await sender.put(relay.envelope(b"short-lived", hours=2))
    await sender.put(relay.envelope(b"long-lived", hours=48))
    relay.clock.advance(2 * 3_600_000)
    link = await relay.link(BOB)
    blob = await link.next_blob()
    assert b"long-lived" in blob.envelope
    for each in (sender, link):
        await each.close()


@clause("6.1", "6.5")
async def test_deleting_from_anothers_inbox_does_nothing(relay: RunningRelay) -> None:
    bobs, mallorys = await relay.link(BOB), await relay.link(MALLORY)
    raw = relay.envelope(b"for bob")
    await bobs.put(raw)
    blob = await bobs.next_blob()
    await mallorys.delete(blob.blob_id)
    assert relay.held() == [raw]
    await bobs.delete(blob.blob_id)
    assert relay.held() == []
    for link in (bobs, mallorys):
        await link.close()


@clause("6.6", "6.7")
async def test_a_source_that_filled_half_a_mailbox_is_refused_for_now_and_nothing_is_evicted(tmp_path: Path) -> None:
    async with running_relay(tmp_path, quota=MailboxQuota(max_blobs=100)) as relay:
        link = await relay.link(BOB)
        sent = [relay.envelope(b"%d" % number) for number in range(51)]
        await asyncio.gather(*(link.put(raw) for raw in sent))
        with pytest.raises(AttemptFailed, match="your network holds its share") as refused:
            await link.put(relay.envelope(b"one more"))
        assert refused.value.code.value == "E004"
        assert refused.value.failure is Failure.STORAGE_REFUSED
        assert relay.held() == sent
        await link.put(relay.envelope(b"for another", reader=MALLORY))
        await link.delete((await link.next_blob()).blob_id)
        await link.put(relay.envelope(b"one more"))
        await link.close()


@clause("6.6", "6.7", "2.8")
@pytest.mark.parametrize("size", [16_385, 262_145, 524_288 - 100])
async def test_an_envelope_that_is_too_large_is_refused_for_good_and_the_link_lives_on(
    tmp_path: Path, size: int
) -> None:
    async with (
        running_relay(tmp_path, quota=MailboxQuota(max_blob_bytes=16_384)) as relay,
        RawPeer.connected(relay.port) as (peer, _),
    ):
        fits = relay.envelope(bytes(16_384))
        too_large = fits[: -16_384 - 4] + b"\x22" + varint(size) + bytes(size)
        refused = await peer.refusal(codec.Put(envelope=too_large))
        assert (refused.permanent, refused.code) == (True, "E006")
        assert isinstance(await peer.ask(codec.Put(envelope=fits), 2), codec.Stored)
        assert relay.held() == [fits]


def varint(number: int) -> bytes:
    """As protobuf writes the length of the sealed bytes, which `Envelope` would refuse to hold."""
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


@clause("6.7")
async def test_bytes_that_are_no_envelope_are_refused_for_good_and_the_link_lives_on(relay: RunningRelay) -> None:
    async with RawPeer.connected(relay.port) as (peer, _):
        for raw in (b"", b"\x00", b"no envelope", bytes(1_000)):
            refused = await peer.refusal(codec.Put(envelope=raw))
            assert (refused.permanent, refused.code) == (True, "E101")
        assert await peer.ask(codec.Ping(), 2) == codec.Pong()
    assert relay.held() == []


@clause("6.6", "6.7")
async def test_an_envelope_with_less_than_an_hour_to_live_is_refused_for_now(relay: RunningRelay) -> None:
    async with RawPeer.connected(relay.port) as (peer, _):
        relay.clock.advance(1)  # a millisecond into the hour that the envelope counts in whole
        refused = await peer.refusal(codec.Put(envelope=relay.envelope(b"brief", hours=1)))
        assert (refused.permanent, refused.code) == (False, "E102")


async def test_frames_that_only_a_relay_may_send_are_refused(relay: RunningRelay) -> None:
    async with RawPeer.connected(relay.port) as (peer, hello):
        for frame in (hello, codec.Subscribed(), codec.Deleted(), codec.Pong()):
            assert (await peer.refusal(frame, 5)).permanent

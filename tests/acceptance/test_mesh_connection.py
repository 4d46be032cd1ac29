"""A connection to a node of the mesh over a real socket: what is asked is answered, what is forged is refused."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from restante.core.link import client_end, requests
from restante.core.mesh_proofs.reading import answer_for, is_proved, prove_entry, sign_delete, sign_done
from restante.core.mesh_proofs.receipts import leaf_of, sign_receipts_of_commit
from restante.crypto.blinded_keys import SIGNING_ENTROPY_BYTES
from restante.crypto.identity import Identity, is_signed_by
from restante.model.errors import LocalProtocolError
from restante.model.ids import InboxKey
from restante.node.frame_family import Peer
from restante.ports.relay_connection import AttemptFailed, ConnectionLost
from restante.runtime.transport import mesh_connection
from restante.runtime.transport.mesh_connection import AnswerForged, MeshConnection
from restante.wire.envelope import decode_envelope
from restante.wire.frames import codec
from restante.wire.frames.codec import Unknown
from restante.wire.frames.mesh import MeshFrame, MeshFrameType, encode_mesh_frame
from restante.wire.frames.mesh_directory import Authenticate, FindNode, Nodes, authenticate_to_sign
from restante.wire.frames.mesh_reading import Fetch, FetchEntry, Listed, MeshDelete, MeshDeleted, MeshSubscribe
from restante.wire.frames.mesh_replication import Block, Have, HaveDone, HaveList, KeySummary, Want, WantDone
from restante.wire.frames.mesh_storage import MeshPut, MeshStored, NotResponsible, WrongBucket
from support.mesh.scripted_node import BUCKET, KEY, NODE, OWNER, SIGNER, connected, envelope, hashed
from support.spec.clauses import clause
from support.system.wait_until import until_true

NOW_MS = 1_800_000_000_000
BODIES = (b"one", b"two", b"three")
HASHES = tuple(map(hashed, BODIES))
Answers = Sequence[MeshFrame | tuple[int, MeshFrame]]


def block(sealed: bytes) -> Block:
    return Block(blinded=SIGNER.public_key, bucket=BUCKET, envelope=envelope(sealed))


def receipt_for(raw: bytes, node: Identity = NODE) -> MeshStored:
    return MeshStored(receipt=sign_receipts_of_commit(node, [leaf_of(decode_envelope(raw))], now_ms=NOW_MS)[0])


def entry(connection: MeshConnection, frame_type: MeshFrameType = MeshFrameType.FETCH) -> FetchEntry:
    unproved = FetchEntry(blinded=SIGNER.public_key, bucket=BUCKET, after=0)
    return prove_entry(
        SIGNER,
        unproved,
        frame_type,
        challenge=connection.hello.challenge,
        connection=connection.binding,
        entropy=bytes(SIGNING_ENTROPY_BYTES),
    )


@clause("7.8", "10.2")
async def test_a_put_returns_the_verified_receipt_of_this_node() -> None:
    def script(frame: MeshFrame | Unknown, _: Peer) -> Answers:
        assert isinstance(frame, MeshPut)
        return [receipt_for(frame.envelope)]

    async with connected(script) as connection:
        raw = envelope(b"sealed")
        receipt = await connection.put(SIGNER.public_key, BUCKET, raw)
        assert receipt == receipt_for(raw).receipt


@clause("7.8")
@pytest.mark.parametrize("forged", ["another node", "another expiry", "another body"])
async def test_a_receipt_for_anything_else_is_forged_and_ends_the_connection(forged: str) -> None:
    def script(frame: MeshFrame | Unknown, _: Peer) -> Answers:
        assert isinstance(frame, MeshPut)
        if forged == "another node":
            return [receipt_for(frame.envelope, Identity(b"x" * 32))]
        kept = decode_envelope(frame.envelope)
        changed = (
            replace(kept, expires_at_ms=kept.expires_at_ms + 3_600_000)
            if forged == "another expiry"
            else replace(kept, sealed=b"x")
        )
        return [MeshStored(receipt=sign_receipts_of_commit(NODE, [leaf_of(changed)], now_ms=NOW_MS)[0])]

    async with connected(script) as connection:
        with pytest.raises(AnswerForged):
            await connection.put(SIGNER.public_key, BUCKET, envelope(b"sealed"))
        await asyncio.wait_for(connection.lost(), 10)


async def test_a_pong_answers_only_a_ping() -> None:
    def script(_frame: MeshFrame | Unknown, peer: Peer) -> Answers:
        peer.send(codec.encode_frame(codec.Pong(), 1))
        return []

    async with connected(script) as connection:
        with pytest.raises(AttemptFailed):
            await connection.find_node(bytes(32), 1)
        await asyncio.wait_for(connection.lost(), 10)


@clause("7.12")
@pytest.mark.parametrize("question", ["fetch", "have"])
async def test_a_node_that_lists_more_than_there_can_be_is_cut_off_while_it_lists(
    question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page of a list starts the time-out again, so the bound is the memory that the list takes."""
    for bound in ("MAX_LISTED", "MAX_COMPARED"):
        monkeypatch.setattr(mesh_connection, bound, 3_000)
    page = tuple(number.to_bytes(32, "big") for number in range(1_000))

    def script(frame: MeshFrame | Unknown, _: Peer) -> Answers:
        if isinstance(frame, Have):
            return [HaveList(inbox_key=KEY, is_last=False, hashes=page)] * 4
        return [Listed(inbox_key=KEY, last=1, hashes=page)] * 4

    async with connected(script) as connection:
        fetching = connection.fetch([entry(connection)])
        comparing = connection.have(bytes(32), b"\xff" * 32, [])
        asking, unused = (fetching, comparing) if question == "fetch" else (comparing, fetching)
        unused.close()
        with pytest.raises(ConnectionLost):
            await asking


async def trickle(peer: Peer, answers: Iterable[MeshFrame], request: int) -> None:
    for each in answers:
        peer.send(encode_mesh_frame(each, request))
        await asyncio.sleep(0.02)


@clause("6.8", "7.12")
async def test_a_node_that_sends_a_list_hash_by_hash_counts_as_silent_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It could hold the read of an inbox for days: ten seconds for each of 640,000 hashes."""
    monkeypatch.setattr(client_end, "ANSWER_TIMEOUT_S", 0.2)
    monkeypatch.setattr(requests, "LONGEST_ANSWER_S", 0.4)
    sending: list[asyncio.Task[None]] = []

    def script(_frame: MeshFrame | Unknown, peer: Peer) -> Answers:
        pages = (Listed(inbox_key=KEY, last=1, hashes=(bytes(32),)) for _ in range(10_000))
        sending.append(asyncio.create_task(trickle(peer, pages, 1)))
        return []

    async with connected(script) as connection:
        with pytest.raises(AttemptFailed):
            await asyncio.wait_for(connection.fetch([entry(connection)]), 10)
    sending[0].cancel()


@clause("6.8", "7.12")
async def test_what_came_of_a_slow_answer_with_bodies_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_end, "ANSWER_TIMEOUT_S", 0.2)

    def script(_frame: MeshFrame | Unknown, _peer: Peer) -> Answers:
        return [block(BODIES[0])]

    async with connected(script) as connection:
        assert list(await connection.want(KEY, HASHES)) == [HASHES[0]]


@clause("7.10")
async def test_corrections_of_a_put_reach_the_caller() -> None:
    corrections: list[MeshFrame] = [WrongBucket(time_ms=NOW_MS), NotResponsible(time_ms=NOW_MS, descriptors=())]

    async with connected(lambda _frame, _peer: [corrections.pop(0)]) as connection:
        first = await connection.put(SIGNER.public_key, BUCKET, envelope(b"sealed"))
        assert first == WrongBucket(time_ms=NOW_MS)
        second = await connection.put(SIGNER.public_key, BUCKET, envelope(b"sealed"))
        assert second == NotResponsible(time_ms=NOW_MS, descriptors=())


@clause("7.4")
async def test_a_fetch_joins_the_pages_and_verifies_what_the_node_signed() -> None:
    proofs: list[bool] = []

    def script(frame: MeshFrame | Unknown, peer: Peer) -> Answers:
        assert isinstance(frame, Fetch)
        (asked,) = frame.entries
        proofs.append(is_proved(asked, MeshFrameType.FETCH, challenge=peer.hello.challenge, connection=peer.binding))
        return [
            Listed(inbox_key=KEY, last=1, hashes=HASHES[:1]),
            Listed(inbox_key=KEY, last=3, hashes=HASHES[1:]),
            sign_done(NODE, [answer_for(KEY, HASHES, after=0, last=3, is_complete=True)], now_ms=NOW_MS),
        ]

    async with connected(script) as connection:
        answer = await connection.fetch([entry(connection)])
        assert answer.listed == {KEY: HASHES}
        assert answer.done.answers[0].is_complete
        assert proofs == [True]


@clause("7.4", "13.5")
@pytest.mark.parametrize("forged", ["signature", "list", "after", "key"])
async def test_a_list_that_the_node_did_not_sign_is_forged(forged: str) -> None:
    def script(_frame: MeshFrame | Unknown, _peer: Peer) -> Answers:
        signer = Identity(b"x" * 32) if forged == "signature" else NODE
        listed = HASHES[:2] if forged == "list" else HASHES
        after = 2 if forged == "after" else 0
        key = InboxKey(b"k" * 32) if forged == "key" else KEY
        return [
            Listed(inbox_key=key, last=3, hashes=listed),
            sign_done(signer, [answer_for(key, HASHES, after=after, last=3, is_complete=True)], now_ms=NOW_MS),
        ]

    async with connected(script) as connection:
        with pytest.raises(AnswerForged):
            await connection.fetch([entry(connection)])


@clause("7.4")
async def test_pushed_mail_of_a_subscribed_key_is_handed_on() -> None:
    def script(frame: MeshFrame | Unknown, _: Peer) -> Answers:
        assert isinstance(frame, MeshSubscribe)
        done = sign_done(NODE, [answer_for(KEY, (), after=0, last=0, is_complete=False)], now_ms=NOW_MS)
        return [done, (0, block(b"one")), (0, block(b"two"))]

    async with connected(script) as connection:
        answer = await connection.subscribe([entry(connection, MeshFrameType.MESH_SUBSCRIBE)])
        assert answer.listed == {KEY: ()}
        pushed: list[Block] = []
        while len(pushed) < 2:
            pushed += await asyncio.wait_for(connection.next_pushed(), 10)
        assert pushed == [block(b"one"), block(b"two")]


@clause("7.12")
@pytest.mark.parametrize("fault", ["not subscribed", "too much"])
async def test_a_push_that_breaks_the_rules_ends_the_connection(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh_connection, "MAX_PUSHED_BYTES", 400)

    def script(_frame: MeshFrame | Unknown, _peer: Peer) -> Answers:
        done = sign_done(NODE, [answer_for(KEY, (), after=0, last=0, is_complete=False)], now_ms=NOW_MS)
        stranger = Block(blinded=SIGNER.public_key, bucket=BUCKET + 1, envelope=envelope(b"one"))
        return [done, *[(0, stranger if fault == "not subscribed" else block(bytes([n]) * 100)) for n in range(1, 9)]]

    async with connected(script) as connection:
        await connection.subscribe([entry(connection, MeshFrameType.MESH_SUBSCRIBE)])
        await asyncio.wait_for(connection.lost(), 10)


async def test_wanted_blobs_come_verified_and_what_the_node_lacks_is_absent() -> None:
    def script(frame: MeshFrame | Unknown, _: Peer) -> Answers:
        assert isinstance(frame, Want)
        return [block(b"one"), block(b"three"), WantDone(missing=(HASHES[1],))]

    async with connected(script) as connection:
        found = await connection.want(KEY, HASHES)
        assert found == {HASHES[0]: block(b"one"), HASHES[2]: block(b"three")}
        with pytest.raises(LocalProtocolError):
            await connection.want(KEY, [hashed(bytes([n])) for n in range(65)])


@clause("6.3", "7.4")
@pytest.mark.parametrize("fault", ["altered", "other inbox", "no envelope"])
async def test_an_altered_blob_is_forged(fault: str) -> None:
    def script(_frame: MeshFrame | Unknown, _peer: Peer) -> Answers:
        raw = {
            "altered": envelope(b"0ne"),
            "other inbox": envelope(b"one", InboxKey(b"k" * 32)),
            "no envelope": b"rubbish",
        }[fault]
        return [Block(blinded=SIGNER.public_key, bucket=BUCKET, envelope=raw), WantDone(missing=())]

    async with connected(script) as connection:
        with pytest.raises(AnswerForged):
            await connection.want(KEY, HASHES[:1])


@clause("7.9")
async def test_lists_of_keys_that_differ_are_joined() -> None:
    def script(frame: MeshFrame | Unknown, _: Peer) -> Answers:
        assert isinstance(frame, Have)
        return [
            HaveList(inbox_key=KEY, is_last=False, hashes=HASHES[:2]),
            HaveList(inbox_key=KEY, is_last=True, hashes=HASHES[2:]),
            HaveDone(through=frame.high),
        ]

    async with connected(script) as connection:
        low, high = bytes(32), b"\xff" * 32
        summary = KeySummary(inbox_key=KEY, count=0, xor=bytes(32))
        assert await connection.have(low, high, [summary]) == ({KEY: dict.fromkeys(HASHES)}, high)


@clause("7.4")
async def test_a_delete_is_the_owners_and_returns_when_it_is_answered() -> None:
    seen: list[MeshFrame | Unknown] = []

    def script(frame: MeshFrame | Unknown, _: Peer) -> Answers:
        seen.append(frame)
        return [MeshDeleted()]

    async with connected(script) as connection:
        delete = sign_delete(SIGNER, BUCKET, HASHES, entropy=bytes(SIGNING_ENTROPY_BYTES))
        await connection.delete(delete)
        assert seen == [delete]
        assert isinstance(delete, MeshDelete)


@clause("7.1")
async def test_a_node_proves_its_key_on_this_connection_and_then_asks() -> None:
    proved: list[bool] = []

    def script(frame: MeshFrame | Unknown, peer: Peer) -> Answers:
        if isinstance(frame, Authenticate):
            to_sign = authenticate_to_sign(
                challenge=peer.hello.challenge,
                connection=peer.binding,
                server=NODE.node_key,
                dialler=frame.node_key,
            )
            proved.append(is_signed_by(frame.node_key, frame.signature, to_sign))
            return []
        assert isinstance(frame, FindNode)
        return [Nodes(time_ms=NOW_MS, descriptors=())]

    async with connected(script) as connection:
        connection.authenticate(OWNER)
        assert (await connection.find_node(bytes(32), 20)).time_ms == NOW_MS
        assert proved == [True]
        await connection.ping()


async def test_answers_that_belong_to_other_requests_reach_their_callers() -> None:
    waiting: list[MeshPut] = []

    def script(frame: MeshFrame | Unknown, _: Peer) -> Answers:
        assert isinstance(frame, MeshPut)
        waiting.append(frame)
        if len(waiting) < 3:
            return []
        return [(number, receipt_for(put.envelope)) for number, put in reversed(list(enumerate(waiting, 1)))]

    async with connected(script) as connection:
        raws = [envelope(body) for body in BODIES]
        receipts = await asyncio.gather(*[connection.put(SIGNER.public_key, BUCKET, raw) for raw in raws])
        assert receipts == [receipt_for(raw).receipt for raw in raws]


@clause("6.7")
async def test_a_node_without_the_mesh_refuses_and_a_lost_connection_is_told() -> None:
    async with connected(lambda _frame, _peer: [MeshDeleted()]) as connection:
        with pytest.raises(AttemptFailed):
            await connection.find_node(bytes(32), 20)
        await until_true(lambda: not connection.is_ready)
        with pytest.raises(ConnectionLost):
            await connection.find_node(bytes(32), 20)
        with pytest.raises(ConnectionLost):
            await connection.next_pushed()

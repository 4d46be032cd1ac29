"""A neighbour lists more than a round takes, most of which this node does not want (SPEC 7.9)."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from ipaddress import ip_address
from pathlib import Path

import pytest

from restante.core.directory.descriptor_set import VALID_MS
from restante.core.mesh_proofs.descriptors import sign_descriptor
from restante.core.replication.serving import Phase, Serving
from restante.core.replication.sync_round import MOST_UNANSWERED
from restante.crypto.identity import Identity
from restante.model.ids import InboxKey, PayloadHash
from restante.model.node_descriptor import Endpoint, NodeDescriptor, Role
from restante.node.frame_family import Peer
from restante.node.mesh import replication_agent
from restante.testing.deterministic import FakeClock
from restante.wire.descriptors import encode_descriptor
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.frames.codec import Unknown
from restante.wire.frames.mesh import MeshFrame
from restante.wire.frames.mesh_directory import DescriptorTaken, FindNode, Nodes, PublishDescriptor
from restante.wire.frames.mesh_replication import Block, Have, HaveDone, HaveList, Want, WantDone
from support.mesh.running_nodes import NOW_MS, OpenInbox, RunningNode, inbox_now, running_node
from support.mesh.scripted_node import Script, listening
from support.spec.clauses import clause
from support.system.wait_until import until_true

NEIGHBOUR = Identity(b"n" * 32)
HOST = "127.0.67.1"
MOST = 4
"""Hashes that a round takes of one neighbour, in these tests."""


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    async with running_node(tmp_path, 1, clock=FakeClock(NOW_MS), bootstrap=[]) as made:
        yield made


@contextlib.asynccontextmanager
async def neighbour(node: RunningNode, script: Script) -> AsyncIterator[None]:
    async with listening(script, identity=NEIGHBOUR, host=HOST) as port:
        unsigned = NodeDescriptor(
            node_key=NEIGHBOUR.node_key,
            onion_key=bytes(32),
            endpoints=(Endpoint(ip_address(HOST).packed, port),),
            roles=Role.STORAGE,
            issued_at_ms=NOW_MS,
            expires_at_ms=NOW_MS + VALID_MS,
        )
        connection = await node.dial()
        await connection.publish(encode_descriptor(sign_descriptor(unsigned, NEIGHBOUR)))
        await connection.close()
        yield


def holder_of(inbox: OpenInbox, bodies: Sequence[bytes], listed: dict[InboxKey, Sequence[PayloadHash]]) -> Script:
    """The script of an honest neighbour that holds these bodies, and one key of `listed` in an answer to HAVE."""
    held = {hash_sealed_bytes(each): each for each in bodies}

    def script(frame: MeshFrame | Unknown, _peer: Peer) -> list[MeshFrame]:
        match frame:
            case Have():
                key = min((each for each in listed if each >= frame.low), default=None)
                if key is None:
                    return [HaveDone(through=frame.high)]
                return [HaveList(inbox_key=key, is_last=True, hashes=tuple(listed[key])), HaveDone(through=key)]
            case Want():
                found = [PayloadHash(each) for each in frame.hashes if each in held]
                return [*(block(each) for each in found), WantDone(missing=tuple(set(frame.hashes) - set(found)))]
            case PublishDescriptor():
                return [DescriptorTaken(time_ms=NOW_MS, observed=Endpoint(bytes(4), 1))]
            case FindNode():
                return [Nodes(time_ms=NOW_MS, descriptors=())]
        return []

    def block(hashed: PayloadHash) -> Block:
        return Block(blinded=inbox.signer.public_key, bucket=inbox.bucket, envelope=inbox.envelope(held[hashed]))

    return script


@clause("7.9")
@pytest.mark.parametrize("why", ["the node is too far from the key", "the node knows that they are deleted"])
async def test_what_a_node_does_not_want_hides_nothing_behind_it(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setattr(replication_agent, "MOST_LISTED", MOST)
    inbox, unwanted = inbox_now(node.clock), InboxKey(bytes(32))
    hashes = [PayloadHash(bytes([number]) * 32) for number in range(MOST + 1)]
    view, store = node.service.view, node.service.store
    if why == "the node is too far from the key":
        ranked = view.rank
        monkeypatch.setattr(
            view, "rank", lambda key, *, within: None if key == unwanted else ranked(key, within=within)
        )
    else:
        known = store.known_hashes
        monkeypatch.setattr(store, "known_hashes", lambda key: frozenset(hashes) if key == unwanted else known(key))
    script = holder_of(inbox, [b"wanted"], {unwanted: hashes, inbox.key: [hash_sealed_bytes(b"wanted")]})
    async with neighbour(node, script):
        await until_true(lambda: store.live_hashes(inbox.key, now_ms=NOW_MS) == [hash_sealed_bytes(b"wanted")])
        view.serving = Serving()  # it became that before it knew its neighbour
        await until_true(lambda: view.serving.phase is Phase.SERVING)


@clause("7.9")
async def test_a_neighbour_whose_inbox_was_emptied_meanwhile_is_asked_for_the_rest(node: RunningNode) -> None:
    inbox, gone = inbox_now(node.clock), InboxKey(bytes(32))
    hashes = [PayloadHash(bytes([number]) * 32) for number in range(2 * MOST_UNANSWERED)]
    script = holder_of(inbox, [b"wanted"], {gone: hashes, inbox.key: [hash_sealed_bytes(b"wanted")]})
    async with neighbour(node, script):
        await until_true(lambda: node.service.store.live_hashes(inbox.key, now_ms=NOW_MS))


@clause("7.9")
async def test_a_connection_that_ends_under_sixteen_questions_loses_none_of_them(node: RunningNode) -> None:
    inbox, bodies = inbox_now(node.clock), [b"mail %d" % number for number in range(MOST_UNANSWERED + 1)]
    rounds: list[int] = []
    wanted: list[Want] = []
    honest = holder_of(inbox, bodies, {inbox.key: [hash_sealed_bytes(each) for each in bodies]})

    def script(frame: MeshFrame | Unknown, peer: Peer) -> Sequence[MeshFrame | tuple[int, MeshFrame]]:
        if isinstance(frame, Want):
            rounds.append(node.agent.replication.rounds)
            wanted.append(frame)
            if len(wanted) == 1:
                peer.abort()
                return []
        return honest(frame, peer)

    async with neighbour(node, script):
        await until_true(lambda: len(node.service.store.live_hashes(inbox.key, now_ms=NOW_MS)) == len(bodies))
    assert set(rounds) == {rounds[0]}, "all in one round"

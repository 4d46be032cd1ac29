"""Nodes that break the protocol on purpose: who asks them goes on, with bounded memory."""

import asyncio
import contextlib
import hashlib
import math
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from restante.client.mesh.connector import connect_to_node
from restante.client.mesh.directory import MeshDirectory
from restante.client.mesh.inbox_nodes import MOST_WANTED
from restante.core.directory.descriptor_set import VALID_MS, WHOLE_DIRECTORY
from restante.core.link import client_end
from restante.core.mesh_proofs.descriptors import sign_descriptor
from restante.core.mesh_proofs.reading import answer_for, sign_done
from restante.core.mesh_proofs.records import sign_record
from restante.crypto.identity import Identity
from restante.model.ids import InboxKey, PayloadHash
from restante.model.node_descriptor import Endpoint, NodeDescriptor, Role
from restante.model.places import RelayPlace
from restante.model.sources import UNKNOWN_SOURCE
from restante.node.frame_family import Peer
from restante.node.mesh import directory_agent, replication_agent
from restante.node.safe_logging import Event
from restante.policy.mesh.polling import MOST_UNSENT
from restante.policy.mesh.time_buckets import bucket_at, period_at
from restante.runtime.system import SystemEntropy
from restante.runtime.transport.mesh_connection import MAX_LISTED
from restante.testing.deterministic import FakeClock
from restante.wire.descriptors import encode_descriptor
from restante.wire.frames import codec
from restante.wire.frames.codec import Unknown
from restante.wire.frames.mesh import MeshFrame
from restante.wire.frames.mesh_directory import (
    MAX_PAGE,
    DescriptorTaken,
    DirectoryPage,
    FindNode,
    Nodes,
    PublishDescriptor,
    SyncDirectory,
)
from restante.wire.frames.mesh_reading import Fetch, Listed, MeshSubscribe
from restante.wire.frames.mesh_replication import Have, HaveDone, HaveList, Want, WantDone
from restante.wire.frames.mesh_storage import Record
from restante.wire.frames.mesh_types import MAX_HASHES
from restante.wire.mesh_keys import mesh_inbox_key, record_key_of
from restante.wire.prekey_records import encode_record
from support.mesh.device import Device
from support.mesh.running_nodes import NOW_MS, RunningNode, inbox_now, running_node
from support.mesh.scripted_node import Script, listening
from support.spec.clauses import clause
from support.system.wait_until import until_true

HOSTILE = Identity(b"h" * 32)
HOST = "127.0.66.1"


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    async with running_node(tmp_path, 1, clock=FakeClock(NOW_MS), bootstrap=[]) as made:
        yield made


def described(identity: Identity, port: int, *, host: str = HOST, issued_at_ms: int = NOW_MS) -> NodeDescriptor:
    unsigned = NodeDescriptor(
        node_key=identity.node_key,
        onion_key=bytes(32),
        endpoints=(Endpoint(ip_address(host).packed, port),),
        roles=Role.STORAGE,
        issued_at_ms=issued_at_ms,
        expires_at_ms=issued_at_ms + VALID_MS,
    )
    return sign_descriptor(unsigned, identity)


async def tell(node: RunningNode, descriptor: NodeDescriptor) -> None:
    connection = await node.dial()
    await connection.publish(encode_descriptor(descriptor))
    await connection.close()


@contextlib.asynccontextmanager
async def hostile_neighbour(node: RunningNode, script: Script) -> AsyncIterator[None]:
    """A node of the directory that answers by `script`."""
    async with listening(script, identity=HOSTILE, host=HOST) as port:
        await tell(node, described(HOSTILE, port))
        yield


@clause("7.1", "7.9")
async def test_a_node_that_answers_everything_with_pong_ends_nobody(node: RunningNode) -> None:
    asked: list[object] = []

    def script(frame: MeshFrame | Unknown, peer: Peer) -> list[MeshFrame]:
        asked.append(frame)
        for request in range(1, 20):
            peer.send(codec.encode_frame(codec.Pong(), request))
        return []

    async with hostile_neighbour(node, script):
        await until_true(lambda: len(asked) > 6)
        assert node.running is not None
        assert not node.running.done()


def polite(frame: MeshFrame | Unknown) -> list[MeshFrame]:
    """What makes an honest node list this one as a neighbour that lives."""
    if isinstance(frame, PublishDescriptor):
        return [DescriptorTaken(time_ms=NOW_MS, observed=Endpoint(bytes(4), 1))]
    return [Nodes(time_ms=NOW_MS, descriptors=())] if isinstance(frame, FindNode) else []


@clause("7.9", "7.12")
async def test_a_neighbour_that_never_ends_its_list_does_not_stop_the_rounds_with_others(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replication_agent, "COMPARE_WITHIN_S", 0.2)
    asked: list[Have] = []

    def script(frame: MeshFrame | Unknown, _peer: Peer) -> list[MeshFrame]:
        if isinstance(frame, Have):
            asked.append(frame)
            return [HaveDone(through=frame.low)]
        return polite(frame)

    async with hostile_neighbour(node, script):
        await until_true(lambda: len(asked) > 3)
        before = node.agent.replication.rounds
        await until_true(lambda: node.agent.replication.rounds > before)


@clause("7.9", "7.12")
async def test_a_neighbour_that_lists_what_exists_nowhere_holds_a_round_for_two_time_outs(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_end, "ANSWER_TIMEOUT_S", 0.3)
    wanted = 0

    def script(frame: MeshFrame | Unknown, _peer: Peer) -> list[MeshFrame]:
        nonlocal wanted
        if isinstance(frame, Have):
            some = [PayloadHash(number.to_bytes(32, "big")) for number in range(MAX_HASHES)]
            return [
                HaveList(inbox_key=InboxKey(b"k" * 32), is_last=True, hashes=tuple(some)),
                HaveDone(through=frame.high),
            ]
        wanted += isinstance(frame, Want)
        return polite(frame)

    async with hostile_neighbour(node, script):
        await until_true(lambda: wanted > 0)
        before = node.agent.replication.rounds
        await until_true(lambda: node.agent.replication.rounds > before)
        assert MOST_UNSENT <= wanted <= 2 * MOST_UNSENT


def offered_record(period: int, *, key: bytes | None = None) -> tuple[Script, asyncio.Event]:
    """The script of a neighbour that lists one prekey record, under its key or another one, and whether it was asked
    for it."""
    signed = sign_record(HOSTILE, b"bundle", period=period, now_ms=NOW_MS, nonce=bytes(12), entropy=bytes(32))
    raw, was_asked = encode_record(signed), asyncio.Event()
    listed = HaveList(
        inbox_key=InboxKey(key or record_key_of(signed.blinded)),
        is_last=True,
        hashes=(PayloadHash(hashlib.sha256(raw).digest()),),
    )

    def script(frame: MeshFrame | Unknown, _peer: Peer) -> list[MeshFrame]:
        if isinstance(frame, Have):
            return [listed, HaveDone(through=frame.high)]
        if isinstance(frame, Want):
            was_asked.set()
            return [Record(record=raw), WantDone(missing=())]
        return polite(frame)

    return script, was_asked


@clause("7.6", "7.9")
@pytest.mark.parametrize(
    ("period", "key"),
    [
        (0xFFFF_FFFF, None),  # its expiry is no number of SQLite
        (3_000_000_000, None),
        (period_at(NOW_MS) + 2, None),
        (period_at(NOW_MS) - 2, None),
        (period_at(NOW_MS), b"k" * 32),
    ],
)
async def test_a_record_of_a_neighbour_is_checked_like_that_of_an_owner(
    node: RunningNode, period: int, key: bytes | None
) -> None:
    script, was_asked = offered_record(period, key=key)
    async with hostile_neighbour(node, script):
        await asyncio.wait_for(was_asked.wait(), 60)
        before = node.agent.replication.rounds
        node.agent.replication.request_round()
        await until_true(lambda: node.agent.replication.rounds > before)
        assert node.service.store.holdings().records == 0
        assert node.running is not None
        assert not node.running.done()


@clause("7.9")
async def test_an_error_that_nobody_expected_ends_a_neighbours_turn_and_not_the_node(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_raw: bytes) -> None:
        raise OverflowError

    monkeypatch.setattr(replication_agent, "verify_record", fail)
    script, _ = offered_record(period_at(NOW_MS))
    async with hostile_neighbour(node, script):
        await until_true(lambda: Event.PEER_DATA_FAILED in {each.msg for each in caplog.records})
        before = node.agent.replication.rounds
        node.agent.replication.request_round()
        await until_true(lambda: node.agent.replication.rounds > before)
        assert node.running is not None
        assert not node.running.done()


@clause("7.7", "7.11")
async def test_nodes_that_agree_on_the_year_9999_delete_no_mail_and_end_nobody(tmp_path: Path) -> None:
    """Three keys are three families: their median is network time in a small mesh."""
    end_of_time_ms = 253_402_300_799_999

    def script(frame: MeshFrame | Unknown, _peer: Peer) -> list[MeshFrame]:
        return [Nodes(time_ms=end_of_time_ms, descriptors=())] if isinstance(frame, FindNode) else polite(frame)

    async with contextlib.AsyncExitStack() as stack:
        node = await stack.enter_async_context(running_node(tmp_path, 1, clock=FakeClock(NOW_MS), bootstrap=[]))
        inbox, connection = inbox_now(node.clock), await node.dial()
        await connection.put(inbox.signer.public_key, inbox.bucket, inbox.envelope(b"mail"))
        await connection.close()
        for number in range(3):
            liar, host = Identity(bytes([200 + number]) * 32), f"127.0.{200 + number}.1"
            port = await stack.enter_async_context(listening(script, identity=liar, host=host))
            await tell(node, described(liar, port, host=host))
        await until_true(lambda: node.service.view.now_ms() > end_of_time_ms // 2)
        await node.service.collect_garbage()
        assert node.service.store.holdings().blobs == 1
        node.agent.directory.issue()
        assert node.running is not None
        assert not node.running.done()


@clause("7.1", "7.12")
async def test_descriptors_that_wait_to_be_passed_on_are_bounded(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_agent, "MOST_WAITING", 100)
    is_mute = False

    def script(frame: MeshFrame | Unknown, _peer: Peer) -> list[MeshFrame]:
        return [] if is_mute else polite(frame)

    async with hostile_neighbour(node, script):
        await until_true(lambda: len(node.service.view.table) == 1)
        is_mute = True
        before = len(asyncio.all_tasks())
        for number in range(1, 500):
            node.agent.directory.flood(described(Identity(number.to_bytes(32, "big")), 9))
        assert len(asyncio.all_tasks()) <= before + 100


@clause("7.1", "7.12")
async def test_a_node_whose_directory_never_ends_does_not_hold_a_client() -> None:
    def script(_frame: MeshFrame | Unknown, _peer: Peer) -> list[MeshFrame]:
        return [DirectoryPage(next_cursor=1, is_last=False, digest=bytes(32), descriptors=())]

    async with listening(script, identity=HOSTILE, host=HOST) as port:
        place = RelayPlace(node_key=HOSTILE.node_key, host=HOST, port=port)
        directory = MeshDirectory([place], connect_to_node, clock=FakeClock(NOW_MS), entropy=SystemEntropy())
        await asyncio.wait_for(directory.refresh(), 10)
        await directory.close()


@clause("7.1", "7.12")
async def test_a_client_asks_for_no_more_pages_of_a_directory_than_a_whole_one_has() -> None:
    """A page may take ten seconds: one node in each page would hold the client for hours."""
    asked: list[int] = []
    raw = encode_descriptor(described(HOSTILE, 9))

    def script(frame: MeshFrame | Unknown, _peer: Peer) -> list[MeshFrame]:
        assert isinstance(frame, SyncDirectory)
        asked.append(frame.cursor)
        return [DirectoryPage(next_cursor=len(asked), is_last=False, digest=bytes(32), descriptors=(raw,))]

    async with listening(script, identity=HOSTILE, host=HOST) as port:
        place = RelayPlace(node_key=HOSTILE.node_key, host=HOST, port=port)
        directory = MeshDirectory([place], connect_to_node, clock=FakeClock(NOW_MS), entropy=SystemEntropy())
        await directory.refresh()
        await directory.close()
    assert len(asked) == math.ceil(WHOLE_DIRECTORY / MAX_PAGE)


@clause("7.1", "11.6")
async def test_a_node_counts_only_after_every_endpoint_that_it_names_proved_its_key(node: RunningNode) -> None:
    """An exit passes raw bytes to any of them: without that it would be a proxy to strangers in the node's network."""
    heard: list[bytes] = []

    async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(1))
        writer.close()

    admission = node.agent.directory.admission
    server = await asyncio.start_server(stranger, "127.0.66.2", 0)
    async with server, listening(lambda frame, _peer: polite(frame), identity=HOSTILE, host=HOST) as port:
        of_stranger = Endpoint(ip_address("127.0.66.2").packed, server.sockets[0].getsockname()[1])
        own = described(HOSTILE, port)
        await tell(node, sign_descriptor(replace(own, endpoints=(*own.endpoints, of_stranger)), HOSTILE))
        await until_true(lambda: admission.dials and not admission.machine.is_unchecked(own.node_id))
        assert heard
        assert node.service.view.directory.get(own.node_id) is None


@clause("7.1")
async def test_a_node_on_all_interfaces_is_where_two_families_see_it_whatever_the_first_one_says(
    tmp_path: Path,
) -> None:
    lie, truth = bytes([10, 9, 9, 9]), bytes([127, 0, 0, 1])

    def says(ip: bytes) -> Script:
        def script(frame: MeshFrame | Unknown, _peer: Peer) -> list[MeshFrame]:
            if isinstance(frame, SyncDirectory):
                return [DirectoryPage(next_cursor=0, is_last=True, digest=bytes(32), descriptors=())]
            is_told = isinstance(frame, PublishDescriptor)
            return [DescriptorTaken(time_ms=NOW_MS, observed=Endpoint(ip, 9))] if is_told else []

        return script

    async with contextlib.AsyncExitStack() as stack:
        places: list[RelayPlace] = []
        for number, ip in enumerate((lie, truth, truth), start=201):
            identity, host = Identity(bytes([number]) * 32), f"127.0.{number}.1"
            port = await stack.enter_async_context(listening(says(ip), identity=identity, host=host))
            places.append(RelayPlace(node_key=identity.node_key, host=host, port=port))
        node = await stack.enter_async_context(running_node(tmp_path, 1, clock=FakeClock(NOW_MS)))
        node.agent.listens_at("0.0.0.0", node.port)  # noqa: S104 - it is told so, and listens on loopback
        directory = node.agent.directory
        directory.bootstrap = places[:1]
        await directory.join([])
        assert directory.endpoints == (Endpoint(lie, node.port),), "there is no other word"
        directory.bootstrap = places
        await directory.join([])
        assert directory.endpoints == node.service.view.own.endpoints == (Endpoint(truth, node.port),)


@clause("7.1", "7.11")
async def test_a_node_asks_nobody_for_the_time_whom_it_would_not_dial(node: RunningNode) -> None:
    expired = described(HOSTILE, 9, issued_at_ms=NOW_MS - 2 * VALID_MS)
    directory = node.agent.directory
    directory.endpoints = (Endpoint(bytes([8, 8, 8, 8]), node.port),)
    directory.heard(expired, UNKNOWN_SOURCE)
    assert not directory._out_of_time
    directory.endpoints = (Endpoint(bytes([127, 0, 0, 1]), node.port),)
    directory.heard(expired, UNKNOWN_SOURCE)
    assert list(directory._out_of_time.values()) == [expired]


@clause("7.4", "7.12")
async def test_a_node_that_lists_what_exists_nowhere_holds_a_read_for_two_time_outs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_end, "ANSWER_TIMEOUT_S", 0.3)
    clock, wanted = FakeClock(NOW_MS), 0
    invented = [PayloadHash(number.to_bytes(32, "big")) for number in range(MAX_LISTED)]

    def script(frame: MeshFrame | Unknown, _peer: Peer) -> list[MeshFrame]:
        nonlocal wanted
        if isinstance(frame, SyncDirectory):
            return [DirectoryPage(next_cursor=0, is_last=True, digest=bytes(32), descriptors=(raw,))]
        if isinstance(frame, Fetch | MeshSubscribe):
            return list(listing(frame))
        wanted += isinstance(frame, Want)
        return []

    def listing(frame: Fetch | MeshSubscribe) -> Iterator[MeshFrame]:
        keys = [mesh_inbox_key(each.blinded, each.bucket) for each in frame.entries]
        for key in keys:
            for at in range(0, len(invented), MAX_HASHES):
                yield Listed(inbox_key=key, last=1, hashes=tuple(invented[at : at + MAX_HASHES]))
        answers = [answer_for(key, invented, after=0, last=1, is_complete=True) for key in keys]
        yield sign_done(HOSTILE, answers, now_ms=NOW_MS)

    async with listening(script, identity=HOSTILE, host=HOST) as port:
        raw = encode_descriptor(described(HOSTILE, port))
        place = RelayPlace(node_key=HOSTILE.node_key, host=HOST, port=port)
        directory = MeshDirectory([place], connect_to_node, clock=clock, entropy=SystemEntropy())
        device = Device(Identity(b"o" * 32), directory, since=bucket_at(NOW_MS) - 2)
        await device.poll.poll()
        await device.close()
        await directory.close()
    assert MOST_UNSENT <= wanted <= MOST_UNSENT + MOST_WANTED

"""Nodes that keep a mesh by themselves: they join, notice the dead, repair, hand over, and agree on the time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from restante.core.mesh_proofs.records import sign_record
from restante.core.replication import serving
from restante.core.replication.sync_round import MOST_UNDER_WAY
from restante.crypto.identity import Identity
from restante.model.journal import JournalKind
from restante.model.node_descriptor import NodeDescriptor
from restante.model.places import RelayPlace
from restante.model.sources import Source
from restante.node.mesh.replication_agent import ReplicationAgent
from restante.node.mesh.status import mesh_data, mesh_health
from restante.policy.mesh.network_time import NetworkTime
from restante.policy.mesh.time_buckets import period_at
from restante.runtime.sqlite.mesh.repair_requests import request_round
from restante.testing.deterministic import FakeClock
from restante.wire.descriptors import encode_descriptor
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.mesh_keys import record_key_of
from restante.wire.prekey_records import encode_record
from restante.wire.storage_receipts import StorageReceipt
from support.mesh.running_nodes import HOUR_MS, NOW_MS, OpenInbox, RunningNode, inbox_now, running_node
from support.relay.node_processes import free_port
from support.spec.clauses import clause
from support.system.wait_until import until_true


class Mesh:
    """A growing mesh in this process; nodes may end before the mesh does."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.nodes: dict[int, RunningNode] = {}
        self._ends: dict[int, contextlib.AsyncExitStack] = {}

    async def start(
        self, number: int, *, clock: FakeClock | None = None, by: Sequence[RelayPlace] = (), port: int = 0
    ) -> RunningNode:
        bootstrap = by or [each.place for each in list(self.nodes.values())[:3]]
        stack = contextlib.AsyncExitStack()
        node = await stack.enter_async_context(
            running_node(
                self.home / str(number), number, clock=clock or FakeClock(NOW_MS), bootstrap=bootstrap, port=port
            )
        )
        self.nodes[number], self._ends[number] = node, stack
        return node

    async def start_all(self, count: int) -> None:
        """Start nodes 1 to `count` and return when all know each other."""
        for number in range(1, count + 1):
            await self.start(number)
        await self.settled()

    async def crash(self, number: int) -> None:
        """End a node without a word to the others."""
        del self.nodes[number]
        await self._ends.pop(number).aclose()

    async def settled(self) -> None:
        """Return when all nodes know each other and their silence counts."""
        await until_true(lambda: all(self._is_settled(each) for each in self.nodes.values()))

    def _is_settled(self, node: RunningNode) -> bool:
        others = {each.service.view.own.node_id for each in self.nodes.values()} - {node.service.view.own.node_id}
        is_serving = node.service.view.serving.phase is serving.Phase.SERVING
        return is_serving and others <= node.agent.directory.reached and others <= node.agent.replication.watched.keys()

    def holders(self, inbox: OpenInbox, body: bytes) -> set[int]:
        hashed = hash_sealed_bytes(body)
        return {
            number
            for number, node in self.nodes.items()
            if hashed in node.service.store.live_hashes(inbox.key, now_ms=0)
        }

    async def put(self, number: int, inbox: OpenInbox, *bodies: bytes) -> None:
        connection = await self.nodes[number].dial()
        for body in bodies:
            answer = await connection.put(inbox.signer.public_key, inbox.bucket, inbox.envelope(body))
            assert isinstance(answer, StorageReceipt)
        await connection.close()


@pytest.fixture
async def mesh(tmp_path: Path) -> AsyncIterator[Mesh]:
    made = Mesh(tmp_path)
    yield made
    for number in list(made.nodes):
        await made.crash(number)


@clause("7.5", "7.9", "9.4")
async def test_a_repaired_copy_is_listed_in_the_order_in_which_the_mail_was_stored(mesh: Mesh) -> None:
    """A recipient takes the order of one node's list; more than 1,000 numbers ahead would be unreadable for it."""
    await mesh.start_all(3)
    inbox = inbox_now(mesh.nodes[1].clock)
    bodies = [b"message %03d" % number for number in range(100)]
    for number in range(1, 4):
        await mesh.put(number, inbox, *bodies)
    newcomer = await mesh.start(4)
    await until_true(lambda: len(newcomer.service.store.live_hashes(inbox.key, now_ms=0)) == len(bodies))
    listed = newcomer.service.store.listed(inbox.key, after=0, now_ms=0)
    put_at = {hash_sealed_bytes(body): at for at, body in enumerate(bodies)}
    assert max(abs(put_at[each.payload_hash] - at) for at, each in enumerate(listed)) <= 2 * MOST_UNDER_WAY


@clause("7.1")
async def test_a_node_that_is_told_of_another_before_it_has_joined_goes_on_and_joins(mesh: Mesh) -> None:
    """It holds no descriptor of its own yet: it asks its bootstrap nodes for the time first."""
    told = asyncio.Event()

    async def say_nothing(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await told.wait()
        writer.close()

    silent = await asyncio.start_server(say_nothing, "127.0.9.1", 0)
    port = silent.sockets[0].getsockname()[1]
    first = await mesh.start(1)
    joining = await mesh.start(2, by=[RelayPlace(node_key=Identity(b"s" * 32).node_key, host="127.0.9.1", port=port)])
    connection = await joining.dial()
    await connection.publish(encode_descriptor(first.service.view.own))
    await connection.close()
    await until_true(lambda: first.service.view.own.node_id in joining.agent.directory.reached)
    told.set()
    silent.close()
    await mesh.settled()


@clause("7.1")
async def test_a_node_whose_whole_directory_expired_joins_again_by_its_bootstrap_nodes(mesh: Mesh) -> None:
    first, clock = await mesh.start(1), FakeClock(NOW_MS)
    other = await mesh.start(2, clock=clock, by=[first.place])
    await mesh.settled()
    await mesh.crash(1)
    clock.advance(5 * HOUR_MS)
    await until_true(lambda: len(other.service.view.directory) == 1)
    assert other.agent.is_isolated
    await mesh.start(1, clock=clock, port=first.port)
    await mesh.settled()


@clause("7.1", "7.11")
async def test_a_descriptor_issued_by_a_clock_that_was_ahead_is_issued_again_at_once(tmp_path: Path) -> None:
    async with running_node(tmp_path, 1, clock=FakeClock(NOW_MS)) as node:
        assert not node.agent.directory.is_due()
        node.service.view.time = NetworkTime(offset_ms=-2 * HOUR_MS, is_agreed=True)
        assert node.agent.directory.is_due()
        node.agent.directory.issue()
        assert node.service.view.own.issued_at_ms == NOW_MS - 2 * HOUR_MS
        assert not node.agent.directory.is_due()


@clause("7.1", "7.12")
async def test_two_nodes_can_compare_their_directories_as_often_as_they_differ(tmp_path: Path) -> None:
    clock = FakeClock(NOW_MS)
    async with contextlib.AsyncExitStack() as stack:
        asking, asked, *others = [
            await stack.enter_async_context(running_node(tmp_path / str(number), number, clock=clock))
            for number in range(1, 5)
        ]
        for other in others:
            asked.service.view.admit(other.service.view.own)
            assert await asking.agent.directory.compare(asked.service.view.own)
            assert asking.service.view.directory.get(other.service.view.own.node_id) is not None


@clause("7.1", "7.9", "7.5")
async def test_a_node_that_joins_gets_what_it_should_hold_before_its_silence_counts(mesh: Mesh) -> None:
    await mesh.start_all(4)
    inbox = inbox_now(mesh.nodes[1].clock)
    await mesh.put(1, inbox, b"one", b"two")
    newcomer = await mesh.start(5)
    await mesh.settled()
    assert mesh.holders(inbox, b"one") >= {1, 5}
    assert mesh.holders(inbox, b"two") >= {1, 5}
    assert (JournalKind.STORED, "repaired") in newcomer.kinds()
    connection = await newcomer.dial()
    assert (await connection.fetch([inbox.entry(connection)])).done.answers[0].is_complete
    await connection.close()


@clause("7.9")
async def test_a_crash_is_noticed_after_two_pings_and_its_copies_are_made_again(mesh: Mesh) -> None:
    await mesh.start_all(4)
    inbox = inbox_now(mesh.nodes[1].clock)
    await mesh.put(1, inbox, b"mail")
    await mesh.crash(4)
    before = {number: node.agent.replication.repairs for number, node in mesh.nodes.items()}
    await until_true(lambda: mesh.holders(inbox, b"mail") == {1, 2, 3})
    await until_true(
        lambda: all(node.agent.replication.repairs > before[number] for number, node in mesh.nodes.items())
    )


@clause("6.3")
async def test_damage_is_found_by_the_scrub_journaled_and_repaired(mesh: Mesh) -> None:
    await mesh.start_all(3)
    inbox = inbox_now(mesh.nodes[1].clock)
    for number in (1, 2):
        await mesh.put(number, inbox, b"rotten")
    node = mesh.nodes[1]
    node.database.run("UPDATE mesh_blob SET envelope = :raw", raw=inbox.envelope(b"r0tten"))
    await until_true(lambda: (JournalKind.STORED, "repaired") in node.kinds())
    assert (JournalKind.DAMAGED, None) in node.kinds()
    assert node.agent.stats().blobs_damaged_total >= 1
    connection = await node.dial()
    await connection.fetch([inbox.entry(connection)])
    found = await connection.want(inbox.key, [hash_sealed_bytes(b"rotten")])
    assert [each.envelope for each in found.values()] == [inbox.envelope(b"rotten")]
    await connection.close()


@clause("7.9")
async def test_a_node_that_leaves_hands_over_the_only_copy_and_is_in_no_placement(mesh: Mesh) -> None:
    await mesh.start_all(3)
    inbox, leaver = inbox_now(mesh.nodes[3].clock), mesh.nodes[3]
    await mesh.put(3, inbox, b"only copy")
    for node in mesh.nodes.values():
        node.clock.advance(60_000)
    await asyncio.wait_for(leaver.agent.leave(), 30)
    assert mesh.holders(inbox, b"only copy") >= {1, 2}
    await until_true(
        lambda: all(
            leaver.service.view.own.node_id
            not in {each.node_id for each in node.service.view.index().by_distance(inbox.key)}
            for number, node in mesh.nodes.items()
            if number != 3
        )
    )


@clause("7.9")
async def test_nodes_that_all_leave_at_once_do_not_wait_for_each_other(mesh: Mesh) -> None:
    await mesh.start_all(3)
    inbox = inbox_now(mesh.nodes[3].clock)
    await mesh.put(3, inbox, b"only copy")
    for node in mesh.nodes.values():
        node.clock.advance(60_000)
    leaving = [node.agent.leave() for node in mesh.nodes.values()]
    await asyncio.wait_for(asyncio.gather(*leaving), 30)
    assert all(node.service.view.serving.phase is serving.Phase.GONE for node in mesh.nodes.values())


@clause("7.6")
async def test_a_prekey_record_is_copied_like_mail(mesh: Mesh) -> None:
    await mesh.start_all(3)
    signed = sign_record(
        Identity(b"p" * 32), b"bundle", period=period_at(NOW_MS), now_ms=NOW_MS, nonce=bytes(12), entropy=bytes(32)
    )
    connection = await mesh.nodes[1].dial()
    await connection.put_record(encode_record(signed))
    await connection.close()
    newcomer = await mesh.start(4)
    await until_true(lambda: newcomer.service.records.get(record_key_of(signed.blinded)) == encode_record(signed))


@clause("7.11", "7.1")
@pytest.mark.parametrize("hours", [-2, 2])
async def test_a_node_whose_clock_is_wrong_uses_network_time_and_health_says_so(mesh: Mesh, hours: int) -> None:
    await mesh.start_all(4)
    wrong = await mesh.start(5, clock=FakeClock(NOW_MS + hours * HOUR_MS))
    await mesh.settled()
    assert abs(wrong.service.view.now_ms() - NOW_MS) < 1_000
    health = mesh_health(wrong.agent)
    assert health is not None
    assert "wrong by about" in health["clock"]
    assert (mesh_health(mesh.nodes[1].agent) or {})["clock"] == "agrees with the network"
    inbox = inbox_now(mesh.nodes[1].clock)
    await mesh.put(5, inbox, b"in the right hour")


@clause("7.11", "7.1")
@pytest.mark.parametrize("hours", [-2, 2])
async def test_a_bootstrap_node_whose_clock_is_wrong_asks_others_for_the_time_and_takes_part(
    mesh: Mesh, hours: int
) -> None:
    """It names only two others, too few to agree with, and by its clock no descriptor is of this time."""
    ports = [free_port() for _ in range(3)]
    places = [
        RelayPlace(node_key=Identity(bytes([number]) * 32).node_key, host=f"127.0.{number}.1", port=port)
        for number, port in enumerate(ports, 1)
    ]
    for number, port in enumerate(ports, 1):
        clock = FakeClock(NOW_MS + (hours * HOUR_MS if number == 1 else 0))
        await mesh.start(number, clock=clock, by=places, port=port)
    for number in (4, 5):
        await mesh.start(number, by=places)
    await mesh.settled()
    wrong = mesh.nodes[1]
    assert abs(wrong.service.view.now_ms() - NOW_MS) < 1_000
    assert "wrong by about" in (mesh_health(wrong.agent) or {})["clock"]
    await mesh.put(1, inbox_now(mesh.nodes[2].clock), b"in the right hour")


@clause("7.11")
async def test_a_node_that_reaches_no_other_is_isolated_says_so_and_is_never_complete(mesh: Mesh) -> None:
    gone = await mesh.start(1)
    place = gone.place
    await mesh.crash(1)
    alone = await mesh.start(2, by=[place])
    await until_true(lambda: (mesh_health(alone.agent) or {})["connection"].startswith("isolated"))
    assert alone.service.view.serving.phase is serving.Phase.SYNCING
    inbox, connection = inbox_now(alone.clock), await alone.dial()
    assert not (await connection.fetch([inbox.entry(connection)])).done.answers[0].is_complete
    await connection.close()


@clause("13.6", "7.11")
async def test_an_isolated_node_runs_the_round_that_the_fleet_asked_for_once_it_has_joined(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round with no neighbour would make its silence count."""
    pinged = list[ReplicationAgent]()
    ping = ReplicationAgent.ping_neighbours

    async def noted(agent: ReplicationAgent) -> None:
        await ping(agent)
        pinged.append(agent)

    monkeypatch.setattr(ReplicationAgent, "ping_neighbours", noted)
    place = (await mesh.start(1)).place
    await mesh.crash(1)
    alone = await mesh.start(2, by=[place])
    with alone.database.transaction():
        request_round(alone.database, as_of_ms=NOW_MS)
    pinged.clear()
    await until_true(lambda: len(pinged) >= 3)
    assert alone.agent.replication.rounds == 0
    assert alone.service.view.serving.phase is serving.Phase.SYNCING
    await mesh.start(1, port=place.port)
    await mesh.settled()


@clause("7.1")
async def test_a_restarted_node_finds_the_mesh_by_peers_it_remembers(mesh: Mesh) -> None:
    await mesh.start_all(3)
    third = mesh.nodes[3]
    await third.agent._compare()
    assert len(third.service.records.peers()) == 2
    clock = third.clock
    await mesh.crash(3)
    clock.advance(1_000)  # a descriptor issued in the same millisecond would not replace the one with the old port
    again = await mesh.start(
        3, clock=clock, by=[RelayPlace(node_key=Identity(b"x" * 32).node_key, host="127.0.9.1", port=1)]
    )
    await mesh.settled()
    data = mesh_data(again.agent)
    assert data is not None
    assert {each["reached"] for each in data["peers"]} == {True}


@clause("7.1")
async def test_a_new_descriptor_is_published_to_all_neighbours_at_once(mesh: Mesh) -> None:
    await mesh.start_all(4)
    await until_true(lambda: all(len(each.service.view.table) == 3 for each in mesh.nodes.values()))
    published: set[tuple[int, bytes]] = set()

    def note(number: int, descriptor: NodeDescriptor, _: Source) -> None:
        published.add((number, encode_descriptor(descriptor)))

    for number, node in mesh.nodes.items():
        node.service.family.on_descriptor = partial(note, number)
        node.clock.advance(60_000)
    first = mesh.nodes[1]
    first.agent.directory.issue()
    raw = encode_descriptor(first.service.view.own)
    await until_true(lambda: {(number, raw) for number in mesh.nodes if number != 1} <= published)


@clause("7.1")
async def test_a_lookup_finds_the_nodes_closest_to_a_key(mesh: Mesh) -> None:
    await mesh.start_all(5)
    await until_true(lambda: all(len(each.service.view.table) == 4 for each in mesh.nodes.values()))
    agent, inbox = mesh.nodes[1].agent, inbox_now(mesh.nodes[1].clock)
    target = int.from_bytes(inbox.key, "big")
    others = [each.service.view.own for number, each in mesh.nodes.items() if number != 1]
    found = await agent.directory.look_up(inbox.key)
    assert list(found) == [each.node_id for each in sorted(others, key=lambda node: node.position ^ target)]
    await agent.directory.refresh()

"""Real clients over real node processes: nodes are killed, cut off, wrong about the time, and lie.

All mail for someone who is away arrives once and in order, and the journals of both sides account for all of it.
"""

import asyncio
import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from restante.cli.node.local_network import LocalNode, make_nodes, start, stop, wait_until_joined
from restante.client.application.sent_message import SentMessage
from restante.client.client import Client
from restante.client.home import ClientDirectory
from restante.client.mesh.host import CircuitMode
from restante.crypto.blinded_keys import BlindedSigner, in_period
from restante.model.ids import NodeId
from restante.model.journal import STATE_AFTER, JournalKind
from restante.model.states import State
from restante.policy.mesh.time_buckets import bucket_at
from restante.runtime.system import OffsetClock, SystemClock, SystemEntropy
from restante.runtime.testing_clock import MADE_FOR_TESTS
from restante.wire.inbox_keys import node_id_of
from restante.wire.mesh_keys import mesh_inbox_key
from support.mesh import bad_node
from support.mesh.bad_node import Firewall
from support.mesh.evidence import ALL, altering_nodes, events, withholding_nodes
from support.relay.node_processes import free_port
from support.spec.clauses import clause
from support.system.soak import first_now_rest_in_soak
from support.system.wait_until import LIMIT_S

SIZES = [(6, 48), (12, 4_000)]
TWO_HOURS_MS = 7_200_000
PING_MS = 500


@dataclass
class World:
    """Directories of nodes and of two people, Alice and Bob, who know each other."""

    base: Path
    nodes: list[LocalNode]

    @property
    def homes(self) -> list[Path]:
        return [self.base / "alice", self.base / "bob"]

    def make_people(self) -> None:
        bootstrap = [node.place for node in self.nodes[:3]]
        for home in self.homes:
            ClientDirectory(home).create(
                None, SystemEntropy(), mesh=bootstrap, circuits=CircuitMode.OFF, now_ms=SystemClock().now_ms()
            )

    def closest_to_bob(self) -> list[LocalNode]:
        """Return the nodes by their distance to Bob's public inbox of this hour: each is its own family and network."""
        bucket = bucket_at(SystemClock().now_ms())
        signer = BlindedSigner(ClientDirectory(self.homes[1]).identity(), place=in_period(bucket))
        key = int.from_bytes(mesh_inbox_key(signer.public_key, bucket), "big")
        return sorted(self.nodes, key=lambda node: key ^ int.from_bytes(id_of(node), "big"))


def id_of(node: LocalNode) -> NodeId:
    return node_id_of(node.place.node_key)


def configure(node: LocalNode, *, offset_ms: int = 0) -> None:
    """Let the node ping often, so that a crash is repaired within seconds, and be wrong about the time."""
    text = node.directory.config.read_text("utf-8")
    text = re.sub(r"# ping_interval_ms = .*", f"ping_interval_ms = {PING_MS}", text, count=1)
    if offset_ms:
        (node.directory.path / MADE_FOR_TESTS).touch()
        text += f"\n[testing]\nclock_offset_ms = {offset_ms}\n"
    node.directory.config.write_text(text, "utf-8")


@contextmanager
def world(base: Path, count: int) -> Iterator[World]:
    nodes = make_nodes(base / "nodes", count, port=free_port(), status_port=free_port())
    made = World(base, nodes)
    made.make_people()
    try:
        yield made
    finally:
        for node in nodes:
            if node.is_running and node.process is not None:
                node.process.send_signal(signal.SIGKILL)
        stop(nodes)


def opened(home: Path, *, offset_ms: int = 0) -> Client:
    return Client.open(home, clock=OffsetClock(offset_ms), receive_delay_s=0.0)


async def introduced(alice: Client, bob: Client) -> None:
    for one, other in ((alice, bob), (bob, alice)):
        one.contacts.add(replace(await other.as_contact(), name="peer"))


def parts(texts: list[str], count: int) -> list[list[str]]:
    size = -(-len(texts) // count)
    return [texts[at : at + size] for at in range(0, len(texts), size)]


async def all_stored(client: Client) -> None:
    while (await client.outbox.counts()).keys() & {State.PENDING, State.SENDING}:  # noqa: ASYNC110 - nodes answer
        await asyncio.sleep(0.05)


async def read_all(bob: Client, count: int) -> list[str]:
    got: list[str] = []
    async for message in bob.inbox():
        got.append(message.text)
        if len(got) == count:
            break
    return got


async def assert_accounted_for(alice: Client, bob: Client, sent: list[SentMessage]) -> None:
    """Conservation (SPEC 1.4): every accepted message is delivered, and was released to the application once."""
    for each in sent:
        await each.delivered(timeout=LIMIT_S)
    final = {
        row.message_id: STATE_AFTER[row.kind]
        for row in alice.journal.events(after=0, limit=ALL)
        if row.kind in STATE_AFTER and row.message_id is not None
    }
    ids = [each.message_id for each in sent]
    assert Counter(final[each] for each in ids) == {State.DELIVERED: len(ids)}
    released = Counter(row.message_id for row in events(bob, JournalKind.RELEASED))
    assert [released[each] for each in ids] == [1] * len(ids)


def assert_no_address(world: World) -> None:
    """No byte on any node's disk, log, journal or metrics is an address."""
    addresses = [bytes(ClientDirectory(home).identity().address) for home in world.homes]
    for node in world.nodes:
        for file in node.directory.path.rglob("*"):
            if file.is_file():
                raw = file.read_bytes()
                assert not any(each in raw or each.hex().encode() in raw for each in addresses), file.name


@clause("1.4", "7.3", "7.9")
@pytest.mark.parametrize(("count", "messages"), first_now_rest_in_soak(SIZES))
async def test_everything_arrives_once_in_order_although_a_third_of_the_nodes_is_killed(
    tmp_path: Path, count: int, messages: int
) -> None:
    third = count // 3
    with world(tmp_path, count + third) as made:
        first, spares = made.nodes[:count], made.nodes[count:]
        for node in made.nodes:
            configure(node)
        for node in first:
            start(node)
        wait_until_joined(first)
        before = opened(made.homes[1])
        async with opened(made.homes[0]) as alice, asyncio.timeout(LIMIT_S + messages / 5):
            await introduced(alice, before)
            await before.close()
            texts = [f"message {number}" for number in range(messages)]
            sent = []
            for part, victim, spare in zip(parts(texts, third), first[3:], spares, strict=False):
                sent += await alice.send_many("peer", part)
                assert victim.process is not None
                victim.process.kill()
                start(spare)
            await all_stored(alice)
            async with opened(made.homes[1]) as bob:
                assert await read_all(bob, messages) == texts
                await assert_accounted_for(alice, bob, sent)
        assert_no_address(made)


@clause("1.4", "7.5", "7.11", "13.5")
@pytest.mark.parametrize(("count", "messages"), first_now_rest_in_soak([(7, 30), (12, 4_000)]))
async def test_everything_arrives_past_a_partition_wrong_clocks_and_liars_and_each_liar_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, messages: int
) -> None:
    with world(tmp_path, count) as made:
        began, nodes = bucket_at(SystemClock().now_ms()), made.closest_to_bob()
        lies = {0: "drops", 1: "alters"} | ({2: "hides"} if count >= 12 else {})
        # A bootstrap node has too few others to ask for the time when all start at once.
        honest = [at for at, node in enumerate(nodes) if at not in lies and node not in made.nodes[:3]]
        clocks = {honest[0]: TWO_HOURS_MS, honest[1]: -TWO_HOURS_MS}
        here, there = nodes[::2], nodes[1::2]
        walls = {id(node): Firewall(tmp_path / f"{node.place.host}.cut") for node in nodes}
        for at, node in enumerate(nodes):
            configure(node, offset_ms=clocks.get(at, 0))
            start(node, bad_node.command(lies.get(at, "honest"), walls[id(node)].file))
        own_wall = Firewall(tmp_path / "people.cut")
        own_wall.install(monkeypatch.setattr)
        wait_until_joined(nodes)

        def partition(is_cut: bool) -> None:
            for side, other in ((here, there), (there, here)):
                for node in side:
                    walls[id(node)].cut([each.place.host for each in other] if is_cut else [])
            own_wall.cut([each.place.host for each in there] if is_cut else [])

        texts = [f"message {number}" for number in range(messages)]
        before = opened(made.homes[1], offset_ms=-TWO_HOURS_MS)
        async with (
            opened(made.homes[0], offset_ms=TWO_HOURS_MS) as alice,
            asyncio.timeout(LIMIT_S + messages / 5),
        ):
            await introduced(alice, before)
            await before.close()
            sent = []
            for part, is_cut in zip(parts(texts, 3), (False, True, False), strict=True):
                partition(is_cut)
                sent += await alice.send_many("peer", part)
                await all_stored(alice)
            async with opened(made.homes[1], offset_ms=-TWO_HOURS_MS) as bob:
                assert await read_all(bob, messages) == texts
                await assert_accounted_for(alice, bob, sent)
                named = {"withholding": withholding_nodes(alice, bob), "altering": altering_nodes(bob)}
        expected = {
            "withholding": {id_of(nodes[at]) for at, lie in lies.items() if lie != "alters"},
            "altering": {id_of(nodes[at]) for at, lie in lies.items() if lie == "alters"},
        }
        assert all(named[lie] <= expected[lie] for lie in named), "no honest node is named"
        if bucket_at(SystemClock().now_ms()) == began:  # else other nodes than these liars are the closest
            assert named == expected
        assert_no_address(made)

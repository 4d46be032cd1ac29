"""Two people with real clients, and the node processes that carry their mail."""

import asyncio
import http.client
import re
import signal
from base64 import b64encode, urlsafe_b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from restante.cli.node.local_network import LocalNode, make_nodes, stop
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
from restante.wire.address import show_address
from restante.wire.inbox_keys import node_id_of
from restante.wire.mesh_keys import mesh_inbox_key
from support.mesh.evidence import ALL, events
from support.relay.node_processes import free_port
from support.system.wait_until import LIMIT_S

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
    """No byte on any node's disk, log, journal or metrics is an address, in any form that people or programs write."""
    addresses = [ClientDirectory(home).identity().address for home in world.homes]
    forms = [
        form
        for each in addresses
        for form in (
            each,
            each.hex().encode(),
            b64encode(each)[:42],
            urlsafe_b64encode(each)[:42],
            show_address(each).encode(),
        )
    ]
    for node in world.nodes:
        written = {str(file): file.read_bytes() for file in node.directory.path.rglob("*") if file.is_file()}
        assert str(node.directory.path / "log") in written or node.process is None
        shown = {page: _page(node, page) for page in ("/metrics", "/status", "/healthz") if node.is_running}
        for name, raw in (written | shown).items():
            assert raw or name in written, f"{name} has an answer"
            assert not any(form in raw for form in forms), name


def _page(node: LocalNode, page: str) -> bytes:
    connection = http.client.HTTPConnection(node.status.host, node.status.port, timeout=LIMIT_S)
    try:
        connection.request("GET", page)
        return connection.getresponse().read()
    finally:
        connection.close()

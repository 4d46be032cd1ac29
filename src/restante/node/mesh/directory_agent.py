"""How a node keeps its directory: bootstrap, own descriptor, flooding, comparison, routing table, network time (SPEC
7.1, 7.11).

It dials and asks; what it keeps is decided by `core.directory` and `policy.mesh.network_time`. What others tell counts
after `admission_agent` has dialled it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final

from restante.core import lookup
from restante.core.directory.descriptor_set import DIGEST_PEERS, MOST_AHEAD_MS, REISSUE_INTERVAL_MS, Verdict
from restante.core.directory.routing_table import (
    Dial,
    DialFailed,
    Dialled,
    Effect,
    Expired,
    Heard,
    Phase,
    PingMissed,
    Seen,
)
from restante.core.mesh_proofs.descriptors import verify_descriptor
from restante.model.errors import RestanteError
from restante.model.ids import NodeId
from restante.model.node_descriptor import Endpoint, NodeDescriptor
from restante.model.places import RelayPlace
from restante.model.sources import UNKNOWN_SOURCE, Source
from restante.node.mesh.admission_agent import AdmissionAgent
from restante.node.mesh.peer_data import failing_the_peer
from restante.node.mesh.peer_pool import PeerPool
from restante.node.mesh.view import MeshView
from restante.policy.mesh.network_time import MOST_PEERS, PeerOffset, agree, measure_offset
from restante.policy.mesh.own_address import NEEDS_FAMILIES, OwnAddress
from restante.policy.mesh.placement import is_valid
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.transport.mesh_connection import MeshConnection
from restante.wire.descriptors import decode_descriptor, encode_descriptor
from restante.wire.frames.mesh_directory import TARGET_BYTES, DirectoryPage
from restante.wire.frames.mesh_types import MAX_CONTACTS
from restante.wire.inbox_keys import node_id_of

MOST_PAGES: Final = 128
"""Pages of one copy of a directory: more than 20,000 descriptors need."""
_OUT_OF_TIME: Final = frozenset({Verdict.AHEAD, Verdict.EXPIRED})
MOST_FLOODING: Final = 64  # publications under way at once
MOST_WAITING: Final = 4_096
"""Publications that wait for one of them to end. What is not passed on beyond that spreads by comparing digests."""


@dataclass(slots=True)
class DirectoryAgent:
    """`start` runs a coroutine beside the others until the node stops. `on_changed` hears of new descriptors."""

    view: MeshView
    pool: PeerPool
    entropy: Entropy
    bootstrap: Sequence[RelayPlace]
    start: Callable[[Coroutine[Any, Any, None]], None]
    on_changed: Callable[[NodeDescriptor], None] = lambda _descriptor: None
    endpoints: tuple[Endpoint, ...] = ()
    own_address: OwnAddress | None = None
    """What others say about it, if this node listens on all interfaces."""
    listen_port: int = 0
    reached: set[NodeId] = field(default_factory=set)
    """Nodes whose last answer came: what health calls not isolated."""
    admission: AdmissionAgent = field(init=False)
    _offsets: dict[NodeId, PeerOffset] = field(default_factory=dict)
    _out_of_time: dict[bytes, NodeDescriptor] = field(default_factory=dict)
    """One node of each family whose descriptor is not of this time, while too few families agree on one: it may be our
    clock that is wrong."""
    _waiting: int = 0
    _flooding: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_FLOODING))

    def __post_init__(self) -> None:
        is_private, own = self.view.is_private, self._own_endpoints
        self.admission = AdmissionAgent(self.pool, is_private, own, self.start, self._admitted)

    def heard(self, descriptor: NodeDescriptor, source: Source) -> None:
        """A descriptor came, with a valid signature. If it is newer than the one held, dial before it counts."""
        verdict = self.view.judge(descriptor)
        if verdict is Verdict.NEW:
            self.admission.offer(descriptor, source)
        elif verdict in _OUT_OF_TIME and self._may_tell_the_time(descriptor):
            self._out_of_time[descriptor.family] = descriptor

    def _may_tell_the_time(self, node: NodeDescriptor) -> bool:
        has_room = not self.view.time.is_agreed and len(self._out_of_time) < MOST_PEERS
        return has_room and self.admission.may_dial(node)

    def _admitted(self, descriptor: NodeDescriptor) -> None:
        """Pass on what counts from now on, and see whether its node belongs into the table."""
        if not self.view.admit(descriptor):
            return
        valid = is_valid(descriptor, now_ms=self.view.now_ms())
        self._step(descriptor, Heard() if valid else Expired())
        self.flood(descriptor)
        self.on_changed(descriptor)
        if self.view.table.phase_of(descriptor) is Phase.ABSENT:
            self.start(self.pool.forget([descriptor.node_id]))  # the connection by which it was checked

    def _own_endpoints(self) -> tuple[Endpoint, ...]:
        """Return where this node is; before it learns that, where those are that its operator named."""
        return self.endpoints or tuple(filter(None, map(_endpoint_of, self.bootstrap)))

    def issue(self) -> None:
        """Sign a descriptor of this moment and publish it."""
        self.flood(self.view.issue(self.endpoints))

    async def withdraw(self) -> None:
        """Publish a descriptor that expires now, and return when the nodes of the table have it or do not answer."""
        raw = encode_descriptor(self.view.issue(self.endpoints, is_leaving=True))
        await asyncio.gather(*[self._publish(node, raw) for node in list(self.view.table)])

    def is_due(self) -> bool:
        """Return whether the own descriptor must be issued again: hourly, and if it was issued by a clock far ahead."""
        now_ms, issued_at_ms = self.view.now_ms(), self.view.own.issued_at_ms
        return now_ms >= issued_at_ms + REISSUE_INTERVAL_MS or issued_at_ms > now_ms + MOST_AHEAD_MS

    def flood(self, descriptor: NodeDescriptor) -> None:
        raw = encode_descriptor(descriptor)
        for node in list(self.view.table):
            if node.node_id != descriptor.node_id and self._waiting < MOST_WAITING:
                self._waiting += 1
                self.start(self._pass_on(node, raw))

    async def join(self, persisted: Sequence[bytes]) -> bool:
        """Ask bootstrap nodes and peers of an earlier run for their directories; return whether one answered."""
        connections = [each for each in await asyncio.gather(*map(self._dial, self.bootstrap)) if each is not None]
        # Only now: descriptors are judged by network time.
        remembered = [each for each in (self.learn(raw, UNKNOWN_SOURCE) for raw in persisted) if each is not None]
        self.issue()
        await self._learn_own_address(connections)
        copied = list(await asyncio.gather(*map(self._copy_from_bootstrap, connections)))
        if await self._agree_with_out_of_time():
            self.issue()
            again = [each for each in await asyncio.gather(*map(self._dial, self.bootstrap)) if each is not None]
            copied += await asyncio.gather(*map(self._copy_from_bootstrap, again))
        if not any(copied):
            copied += await asyncio.gather(*[self.compare(node) for node in self._some(remembered, MAX_CONTACTS)])
        await self.admission.checked([each.node_id for each in remembered])
        # Without any other node in the directory this one would take its own silence for that of the mesh.
        return any(copied) and len(self.view.directory) > 1

    async def compare_with_some(self) -> None:
        """Compare directory digests with 3 random peers (SPEC 7.1), and drop what expired."""
        expired = [each for each in self.view.directory if not is_valid(each, now_ms=self.view.now_ms())]
        for node in [*self.view.drop_expired(), *expired]:
            self.reached.discard(node.node_id)
            self._step(node, Expired())
        peers = list(self.view.table) or [each for each in self.view.directory if each.node_id != self.view.own.node_id]
        await asyncio.gather(*[self.compare(node) for node in self._some(peers, DIGEST_PEERS)])

    async def compare(self, node: NodeDescriptor) -> bool:
        """Compare digests and take over what differs, on a connection of its own: it may copy once an hour (SPEC
        7.12)."""
        try:
            connection = await self.pool.dial(node)
        except AttemptFailed:
            return False
        try:
            with failing_the_peer():
                await self._copy(connection)
        except AttemptFailed:
            return False
        finally:
            await connection.close()
        return True

    async def ping(self, node: NodeDescriptor) -> bool:
        """Ask a node for what lies around this one: it shows that it lives, tells its time, and names new nodes."""
        sent_at_ms = self.view.own_clock_ms()
        try:
            with failing_the_peer():
                connection = await self.pool.to(node)
                answer = await connection.find_node(self.view.own.node_id, MAX_CONTACTS)
                self._measure(node.node_id, node.family, sent_at_ms, answer.time_ms)
                for raw in answer.descriptors:
                    self.learn(raw, Source(node.node_key))
        except AttemptFailed:
            self.reached.discard(node.node_id)
            self._step(node, PingMissed())
            return False
        self.reached.add(node.node_id)
        self._step(node, Seen())
        return True

    async def refresh(self) -> None:
        """Look up the own id, and a random id in each k-bucket that has nodes (SPEC 7.1)."""
        own = self.view.own.position
        await self.look_up(self.view.own.node_id)
        for bits in list(self.view.table.bucket_sizes()):
            within = int.from_bytes(self.entropy.draw(TARGET_BYTES), "big") % (1 << (bits - 1))
            distance = (1 << (bits - 1)) | within
            await self.look_up((own ^ distance).to_bytes(TARGET_BYTES, "big"))

    async def look_up(self, target: bytes) -> tuple[NodeId, ...]:
        """Return the closest nodes to a target that answer; what they name is learned on the way."""
        contacts = self.view.table.closest(int.from_bytes(target, "big"), MAX_CONTACTS)
        state, effects = lookup.start(target, [each.node_id for each in contacts], want=MAX_CONTACTS)
        asked: set[asyncio.Task[lookup.Event]] = set()
        try:
            while True:
                for effect in effects:
                    if isinstance(effect, lookup.Finish):
                        return effect.closest
                    asked.add(asyncio.create_task(self._ask_for(effect.node, target)))
                done, asked = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
                effects = ()
                for task in done:
                    state, more = lookup.step(state, task.result())
                    effects += more
        finally:
            for task in asked:
                task.cancel()

    async def _ask_for(self, node: NodeId, target: bytes) -> lookup.Event:
        described = self.view.directory.get(node)
        if described is None or node == self.view.own.node_id:
            return lookup.AskFailed(node)
        try:
            with failing_the_peer():
                answer = await (await self.pool.to(described)).find_node(target, MAX_CONTACTS)
                named = [self.learn(raw, Source(described.node_key)) for raw in answer.descriptors]
        except AttemptFailed:
            return lookup.AskFailed(node)
        known = [each.node_id for each in named if each is not None and self.view.directory.get(each.node_id)]
        return lookup.NodesAnswered(node, tuple(known))

    def learn(self, raw: bytes, source: Source) -> NodeDescriptor | None:
        """Take a descriptor from an answer; return it if it is well-formed.

        Signatures of what is not newer, or already waits to be dialled, are not checked again.
        """
        try:
            claimed = decode_descriptor(raw)
            held = self.view.directory.get(claimed.node_id)
            if held is None or held.issued_at_ms < claimed.issued_at_ms:
                self.heard(claimed if self.admission.machine.knows(claimed) else verify_descriptor(raw), source)
            elif is_valid(held, now_ms=self.view.now_ms()):
                self._step(held, Heard())
        except RestanteError:
            return None
        return claimed

    def _some(self, nodes: Sequence[NodeDescriptor], count: int) -> list[NodeDescriptor]:
        """Return `count` nodes at random."""
        return sorted(nodes, key=lambda _node: self.entropy.draw(8))[:count]

    async def _dial(self, place: RelayPlace) -> MeshConnection | None:
        """Connect to a bootstrap node and measure its clock by its greeting."""
        sent_at_ms = self.view.own_clock_ms()
        try:
            connection = await self.pool.at(place.host, place.port, place.node_key)
        except (AttemptFailed, OSError):
            return None
        self._measure(node_id_of(place.node_key), bytes(place.node_key), sent_at_ms, connection.hello.now_ms)
        return connection

    async def _agree_with_out_of_time(self) -> bool:
        """Ask nodes for their time whose descriptors were refused for theirs; return whether that brought agreement."""
        asked, self._out_of_time = list(self._out_of_time.values()), {}
        if not asked or self.view.time.is_agreed:
            return False
        await asyncio.gather(*map(self._measure_by_greeting, asked))
        return self.view.time.is_agreed

    async def _measure_by_greeting(self, node: NodeDescriptor) -> None:
        sent_at_ms = self.view.own_clock_ms()
        with contextlib.suppress(AttemptFailed), failing_the_peer():
            connection = await self.pool.dial(node)
            self._measure(node.node_id, node.family, sent_at_ms, connection.hello.now_ms)
            await connection.close()

    async def _copy_from_bootstrap(self, connection: MeshConnection) -> bool:
        try:
            with failing_the_peer():
                await connection.publish(encode_descriptor(self.view.own))
                await self._copy(connection)
        except AttemptFailed:
            return False
        finally:
            await connection.close()
        return True

    async def _copy(self, connection: MeshConnection) -> None:
        """Take over what the node's directory has and ours lacks; return when all of it has been dialled once.

        The next page waits for that: no more candidates come than find room.
        """
        cursor = 0
        for _ in range(MOST_PAGES):
            page: DirectoryPage = await connection.sync_directory(cursor, self.view.directory.digest)
            learned = [self.learn(raw, Source(connection.node)) for raw in page.descriptors]
            await self.admission.checked([each.node_id for each in learned if each is not None])
            if page.is_last:
                return
            cursor = page.next_cursor

    async def _learn_own_address(self, connections: Sequence[MeshConnection]) -> None:
        """Ask bootstrap nodes where they see this one. Until two families agree, the first one is believed."""
        if self.own_address is None or self.own_address.is_settled:
            return
        for connection, seen in zip(connections, await asyncio.gather(*map(self._where, connections)), strict=True):
            if seen is not None:
                self._hear_own_address(connection, seen)
        self._take_own_address(needs_families=1)

    async def _where(self, connection: MeshConnection) -> Endpoint | None:
        try:
            with failing_the_peer():
                return (await connection.publish(encode_descriptor(self.view.own))).observed
        except AttemptFailed:
            return None

    def _hear_own_address(self, connection: MeshConnection, seen: Endpoint) -> None:
        known = self.view.directory.get(node_id_of(connection.node))
        family = None if known is None else known.family
        if self.own_address is not None and connection.remote_ip is not None:
            self.own_address.hear(connection.node, seen.unmapped().ip, by=connection.remote_ip, family=family)

    def _take_own_address(self, *, needs_families: int) -> None:
        ip = None if self.own_address is None else self.own_address.choose(needs_families=needs_families)
        if ip is not None and self.endpoints != (Endpoint(ip, self.listen_port),):
            self.endpoints = (Endpoint(ip, self.listen_port),)
            self.issue()

    async def _pass_on(self, node: NodeDescriptor, raw: bytes) -> None:
        try:
            await self._publish(node, raw)
        finally:
            self._waiting -= 1

    async def _publish(self, node: NodeDescriptor, raw: bytes) -> None:
        async with self._flooding:
            with contextlib.suppress(AttemptFailed), failing_the_peer():  # it will compare digests
                await (await self.pool.to(node)).publish(raw)

    def _measure(self, node: NodeId, family: bytes, sent_at_ms: int, peer_time_ms: int) -> None:
        offset = measure_offset(
            sent_at_ms=sent_at_ms, peer_time_ms=peer_time_ms, received_at_ms=self.view.own_clock_ms()
        )
        self._offsets.pop(node, None)
        self._offsets[node] = PeerOffset(family, offset)
        while len(self._offsets) > 4 * MAX_CONTACTS:
            del self._offsets[next(iter(self._offsets))]
        self.view.time = agree(reversed(self._offsets.values()), needs_families=self.view.needs_families)

    def _step(self, node: NodeDescriptor, event: Heard | Dialled | DialFailed | Seen | PingMissed | Expired) -> None:
        if node.node_id != self.view.own.node_id:
            self._execute(self.view.table.step(node, event))

    def _execute(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            self.start(self._check(effect.node) if isinstance(effect, Dial) else self._ping_listed(effect.node))

    async def _check(self, node: NodeDescriptor) -> None:
        """Dial a node before it may enter the table, and tell it who we are, unless `join` is yet to issue that."""
        try:
            with failing_the_peer():
                connection = await self.pool.to(node)
                if self.view.own.signature:
                    taken = await connection.publish(encode_descriptor(self.view.own))
                    if self.own_address is not None and not self.own_address.is_settled:
                        self._hear_own_address(connection, taken.observed)
                        self._take_own_address(needs_families=NEEDS_FAMILIES)
        except AttemptFailed:
            self._step(node, DialFailed())
            return
        self.reached.add(node.node_id)
        self._step(node, Dialled())

    async def _ping_listed(self, node: NodeDescriptor) -> None:
        await self.ping(node)


def _endpoint_of(place: RelayPlace) -> Endpoint | None:
    """Return where a node is that is named by its IP address."""
    try:
        return Endpoint(ip_address(place.host).packed, place.port).unmapped()
    except ValueError:
        return None

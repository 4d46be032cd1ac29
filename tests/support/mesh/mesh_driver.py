"""Senders and owners of test mail: the machines of the core over real connections, without a client."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

from restante.core import store_quorum
from restante.core.mailbox_poll import reading
from restante.core.mesh_proofs.descriptors import verify_descriptor
from restante.model.ids import NodeId, PayloadHash
from restante.model.node_descriptor import NodeDescriptor
from restante.model.places import RelayPlace
from restante.policy.mesh.placement import MOST_TRIED, RESPONSIBLE_WITHIN, PlacementIndex, place
from restante.policy.mesh.time_buckets import bucket_at
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.system import SystemClock
from restante.runtime.transport.mesh_connection import AnswerForged, MeshConnection
from restante.wire.envelope import decode_envelope, hash_sealed_bytes
from restante.wire.frames.mesh_storage import NotResponsible, WrongBucket
from support.mesh.running_nodes import OpenInbox


@dataclass(slots=True)
class MeshDriver:
    """One person's view of the mesh. Puts and reads use connections of their own (SPEC 6.5)."""

    directory: dict[NodeId, NodeDescriptor] = field(default_factory=dict)
    receipts: Counter[NodeId] = field(default_factory=Counter)
    forged_by: set[NodeId] = field(default_factory=set)
    missing_at: set[tuple[NodeId, PayloadHash]] = field(default_factory=set)
    _connections: dict[NodeId, MeshConnection] = field(default_factory=dict)
    _passed_over: dict[NodeId, None] = field(default_factory=dict)

    async def learn(self, *nodes: RelayPlace) -> int:
        """Take the union of these nodes' directories; return how many nodes are known."""
        for each in nodes:
            connection = await MeshConnection.connect(each.host, each.port, node=each.node_key)
            page = await connection.sync_directory(0, bytes(32))
            for raw in page.descriptors:
                described = verify_descriptor(raw)
                held = self.directory.get(described.node_id)
                if held is None or held.issued_at_ms < described.issued_at_ms:
                    self.directory[described.node_id] = described
            await connection.close()
        return len(self._index())

    async def store(self, inbox: OpenInbox, body: bytes) -> bool:
        """Store one message; return whether two nodes signed for it."""
        now_ms = SystemClock().now_ms()
        order = self._order(inbox, MOST_TRIED)
        state, effects = store_quorum.start(
            order, bucket=inbox.bucket, now_ms=now_ms, passed_over=tuple(self._passed_over)
        )
        while True:
            puts = [each.node for each in effects if isinstance(each, store_quorum.Put)]
            self._passed_over |= {each.node: None for each in effects if isinstance(each, store_quorum.PassOver)}
            if not puts:
                return state.is_sent
            effects = ()
            for event in await asyncio.gather(*[self._put(node, inbox, body) for node in puts]):
                state, more = store_quorum.step(state, event, now_ms=now_ms)
                effects += more

    async def read(self, inbox: OpenInbox) -> list[bytes]:
        """Read the inbox once and delete what was read; return the bodies in the order of the longest list."""
        state, effects = reading.start(self._order(inbox, RESPONSIBLE_WITHIN))
        bodies: dict[PayloadHash, bytes] = {}
        while True:
            finish = [each for each in effects if isinstance(each, reading.Finish)]
            if finish:
                self.missing_at |= set(finish[0].missing_at)
                await self._delete(inbox, finish[0])
                return [bodies[each] for each in finish[0].hashes]
            asked = [self._list(each.node, inbox) for each in effects if isinstance(each, reading.AskList)]
            wanted = [self._fetch(each, inbox, bodies) for each in effects if isinstance(each, reading.FetchBodies)]
            effects = ()
            for events in await asyncio.gather(*asked, *wanted):
                for event in events:
                    state, more = reading.step(state, event)
                    effects += more

    async def close(self) -> None:
        for each in self._connections.values():
            await each.close()

    def _index(self) -> PlacementIndex:
        return PlacementIndex(self.directory.values(), now_ms=SystemClock().now_ms())

    def _order(self, inbox: OpenInbox, count: int) -> list[NodeId]:
        return [each.node_id for each in place(self._index(), inbox.key, count)]

    async def _to(self, node: NodeId) -> MeshConnection:
        kept = self._connections.get(node)
        if kept is not None and kept.is_ready:
            return kept
        described = self.directory[node]
        [endpoint] = described.endpoints
        host = str(ip_address(endpoint.ip))
        connection = await MeshConnection.connect(host, endpoint.port, node=described.node_key)
        self._connections[node] = connection
        return connection

    async def _put(self, node: NodeId, inbox: OpenInbox, body: bytes) -> store_quorum.Event:
        try:
            answer = await (await self._to(node)).put(inbox.signer.public_key, inbox.bucket, inbox.envelope(body))
        except (AttemptFailed, OSError):
            return store_quorum.PutFailed(node)
        match answer:
            case WrongBucket():
                return store_quorum.WrongBucketAnswered(node, answer.time_ms)
            case NotResponsible():
                return store_quorum.PutFailed(node)
            case _:
                self.receipts[node] += 1
                return store_quorum.ReceiptVerified(node)

    async def _list(self, node: NodeId, inbox: OpenInbox) -> Sequence[reading.Event]:
        try:
            connection = await self._to(node)
            answer = await connection.fetch([inbox.entry(connection)])
        except (AttemptFailed, OSError):
            return [reading.NodeSilent(node)]
        [said] = answer.done.answers
        return [reading.ListReceived(node, answer.listed[inbox.key], said.is_complete)]

    async def _fetch(
        self, asked: reading.FetchBodies, inbox: OpenInbox, bodies: dict[PayloadHash, bytes]
    ) -> Sequence[reading.Event]:
        node, events = asked.node, list[reading.Event]()
        for start in range(0, len(asked.hashes), 64):
            some = asked.hashes[start : start + 64]
            try:
                found = await (await self._to(node)).want(inbox.key, some)
            except AnswerForged:
                self.forged_by.add(node)
                found = {}
            except (AttemptFailed, OSError):
                found = {}
            for each in found:
                bodies[each] = decode_envelope(found[each].envelope).sealed
                assert hash_sealed_bytes(bodies[each]) == each
            events.append(reading.BodiesReceived(node, some, frozenset(found)))
        return events

    async def _delete(self, inbox: OpenInbox, finish: reading.Finish) -> None:
        for start in range(0, len(finish.hashes), 1_024):
            delete = inbox.delete(finish.hashes[start : start + 1_024])
            for node in finish.delete_at:
                try:
                    await (await self._to(node)).delete(delete)
                except (AttemptFailed, OSError):
                    continue


def inbox_of_this_hour(offset_ms: int = 0) -> OpenInbox:
    return OpenInbox(bucket_at(SystemClock().now_ms() + offset_ms))

"""A mesh without sockets: nodes in the same process, for tests of clients. It applies the rules of real nodes to puts,
lists, deletes and records (SPEC 7.3 to 7.6, 7.10). Copies are repaired when `repair` is called.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from restante.core.mesh_proofs.descriptors import sign_descriptor
from restante.core.mesh_proofs.reading import answer_for, is_delete_by_owner, is_proved, sign_done
from restante.core.mesh_proofs.receipts import leaf_of, sign_receipts_of_commit
from restante.core.mesh_proofs.records import newer_record, verify_record
from restante.crypto.identity import Identity
from restante.model.ids import BlindedKey, InboxKey, NodeKey, PayloadHash
from restante.model.node_descriptor import Endpoint, NodeDescriptor, Role
from restante.model.places import RelayPlace
from restante.policy.failures import Failure
from restante.policy.mesh.bounds import MOST_ANSWERS
from restante.policy.mesh.placement import RESPONSIBLE_WITHIN, PlacementIndex, place, rank_of
from restante.policy.mesh.time_buckets import HOUR_MS, takes_put
from restante.ports.clock import Clock
from restante.ports.mesh_connection import FetchAnswer
from restante.ports.relay_connection import AttemptFailed, ConnectionLost
from restante.wire.descriptors import encode_descriptor
from restante.wire.envelope import decode_envelope, hash_sealed_bytes
from restante.wire.frames.codec import Hello
from restante.wire.frames.mesh_directory import DirectoryPage, Nodes
from restante.wire.frames.mesh_reading import FetchEntry, MeshDelete
from restante.wire.frames.mesh_replication import Block
from restante.wire.frames.mesh_storage import NotResponsible, Record, WrongBucket
from restante.wire.frames.mesh_types import MeshFrameType
from restante.wire.inbox_keys import node_id_of
from restante.wire.mesh_keys import mesh_inbox_key, record_key_of
from restante.wire.storage_receipts import StorageReceipt

PORT: Final = 7_431
MOST_SENT: Final = 20
SILENCE_S: Final = 10.0


@dataclass(slots=True)
class MemoryNode:
    """One node: what it stores, and whether it answers. `clock_offset_ms` makes its clock wrong."""

    identity: Identity
    endpoint: Endpoint
    is_alive: bool = True
    clock_offset_ms: int = 0
    held: dict[InboxKey, dict[PayloadHash, Block]] = field(default_factory=dict)
    deleted: dict[InboxKey, set[PayloadHash]] = field(default_factory=dict)
    records: dict[bytes, bytes] = field(default_factory=dict)
    connections: list["MemoryMeshConnection"] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    entries: list[int] = field(default_factory=list)
    """How many keys each FETCH named."""
    hides_mail: bool = False
    """Whether the node signs lists without any blob."""
    is_silent: bool = False
    """Whether connections to the node fail only after a while, as with a machine that is switched off."""
    is_replaced: bool = False
    """Whether a node with another key answers at its endpoint."""
    names_instead: tuple[NodeDescriptor, ...] = ()
    """What the node names as better in answer to every put."""
    refuses_puts: bool = False
    """Whether the node says of every message that it is too large, for good."""
    body_delay_s: float = 0.0
    """How long the node takes to send bodies."""
    puts_off: int = 0
    """How many more requests for lists the node answers with E007, as one that has no tokens for them."""
    slow_key: InboxKey | None = None
    """Under this key the node takes ten times as long as a connection may be silent."""
    list_delay_s: float = 0.0
    """How long the node takes to send lists."""
    unanswered: frozenset[InboxKey] = frozenset()
    """Requests for lists that name one of these keys fail."""
    wants_left: int | None = None
    """How many WANTs the node still answers before it is silent; None: all."""

    @property
    def key(self) -> NodeKey:
        return self.identity.node_key

    def keep(self, block: Block) -> None:
        """Store a blob, unless its owner has deleted it, and push it to subscribers."""
        key = mesh_inbox_key(block.blinded, block.bucket)
        hashed = hash_sealed_bytes(decode_envelope(block.envelope).sealed)
        if hashed in self.deleted.get(key, ()) or hashed in self.held.setdefault(key, {}):
            return
        self.held[key][hashed] = block
        for connection in self.connections:
            connection.push(key, block)


class MemoryMesh:
    """Nodes on 127.0.N.1, each its own family and network."""

    def __init__(self, nodes: int, clock: Clock) -> None:
        self.clock = clock
        self.nodes: list[MemoryNode] = []
        self._issue: tuple[int, tuple[NodeKey, ...]] | None = None
        self._issued: list[NodeDescriptor] = []
        self._index: PlacementIndex | None = None
        for _ in range(nodes):
            self.add_node()

    def add_node(self) -> MemoryNode:
        number = len(self.nodes) + 1
        identity = Identity(b"mesh node" + number.to_bytes(23, "big"))
        node = MemoryNode(identity, Endpoint(bytes([127, number >> 8, number & 255, 1]), PORT))
        self.nodes.append(node)
        return node

    def node(self, key: NodeKey) -> MemoryNode:
        return next(each for each in self.nodes if each.key == key)

    def kill(self, node: MemoryNode) -> None:
        """The node is gone, with everything it stored."""
        node.is_alive = False
        for connection in node.connections[:]:
            connection.lose()

    def repair(self) -> None:
        """Copy every blob and record to the nodes that should hold it now, as anti-entropy does (SPEC 7.9)."""
        alive = {node_id_of(each.key): each for each in self._alive()}
        index = self.index()
        for source in list(alive.values()):
            for key, blobs in list(source.held.items()):
                for target in place(index, key):
                    for block in blobs.values():
                        alive[target.node_id].keep(block)
            for record_key, record in list(source.records.items()):
                for target in place(index, record_key):
                    alive[target.node_id].records.setdefault(record_key, record)

    def bootstrap(self, count: int = 3) -> tuple[RelayPlace, ...]:
        return tuple(_place_of(each) for each in self._alive()[:count])

    async def connect(self, at: RelayPlace) -> "MemoryMeshConnection":
        """Satisfies `ports.mesh_connection.MeshConnector`."""
        for node in self._alive():
            if node.key == at.node_key and _place_of(node) == at:
                if node.is_silent:
                    await asyncio.sleep(SILENCE_S)
                    break
                if node.is_replaced:
                    raise AttemptFailed("another node answers there", failure=Failure.AUTHENTICATION_FAILED)
                connection = MemoryMeshConnection(self, node)
                node.connections.append(connection)
                return connection
        raise AttemptFailed("the node does not answer", failure=Failure.CONNECTION_REFUSED)

    def index(self) -> PlacementIndex:
        descriptors = self.descriptors()
        if self._index is None:
            self._index = PlacementIndex(descriptors, now_ms=self.clock.now_ms())
        return self._index

    def descriptors(self) -> list[NodeDescriptor]:
        issued_at_ms = self.clock.now_ms() // HOUR_MS * HOUR_MS
        issue = (issued_at_ms, tuple(each.key for each in self._alive()))
        if issue == self._issue:
            return self._issued
        self._issue, self._index = issue, None
        self._issued = [
            sign_descriptor(
                NodeDescriptor(
                    node_key=each.key,
                    onion_key=bytes(32),
                    endpoints=(each.endpoint,),
                    roles=Role.STORAGE | Role.HOP,
                    issued_at_ms=issued_at_ms,
                    expires_at_ms=issued_at_ms + 2 * HOUR_MS,
                ),
                each.identity,
            )
            for each in self._alive()
        ]
        return self._issued

    def holders(self) -> Iterator[tuple[MemoryNode, InboxKey, PayloadHash]]:
        """Yield who stores which blob."""
        for node in self._alive():
            for key, blobs in node.held.items():
                for hashed in blobs:
                    yield node, key, hashed

    def _alive(self) -> list[MemoryNode]:
        return [each for each in self.nodes if each.is_alive]


class MemoryMeshConnection:
    """Satisfies `ports.mesh_connection.MeshConnection`."""

    def __init__(self, mesh: MemoryMesh, node: MemoryNode) -> None:
        self._mesh = mesh
        self._node = node
        self.node = node.key
        self.binding = len(node.requests).to_bytes(32, "big")
        self.hello = Hello(
            lowest_version=1,
            highest_version=1,
            capabilities=1,
            challenge=bytes(32),
            node_key=node.key,
            now_ms=self._now_ms(),
        )
        self.subscribed: set[InboxKey] = set()
        self._pushed: list[Block] = []
        self._answering = 0
        self._news = asyncio.Event()
        self._lost = asyncio.Event()

    async def find_node(self, target: bytes, want: int) -> Nodes:
        self._asked("find_node")
        near = sorted(self._mesh.descriptors(), key=lambda each: each.position ^ int.from_bytes(target, "big"))
        raw = tuple(encode_descriptor(each) for each in near[: min(want, MOST_SENT)])
        return Nodes(time_ms=self._now_ms(), descriptors=raw)

    async def sync_directory(self, cursor: int, digest: bytes) -> DirectoryPage:
        self._asked("sync_directory")
        raw = tuple(encode_descriptor(each) for each in self._mesh.descriptors())[cursor:]
        return DirectoryPage(next_cursor=0, is_last=True, digest=digest, descriptors=raw)

    async def put(
        self, blinded: BlindedKey, bucket: int, envelope: bytes
    ) -> StorageReceipt | WrongBucket | NotResponsible:
        self._asked("put")
        if self._node.names_instead:
            better = tuple(map(encode_descriptor, self._node.names_instead))
            return NotResponsible(time_ms=self._now_ms(), descriptors=better)
        if self._node.refuses_puts:
            raise AttemptFailed("the message is too large", failure=Failure.TOO_LARGE)
        if not takes_put(bucket, now_ms=self._now_ms()):
            return WrongBucket(time_ms=self._now_ms())
        opened, key = decode_envelope(envelope), mesh_inbox_key(blinded, bucket)
        if opened.inbox_key != key:
            raise AttemptFailed("the inbox key does not follow from the blinded key", failure=Failure.INVALID_FORMAT)
        if not self._is_responsible(key):
            better = tuple(encode_descriptor(each) for each in place(self._mesh.index(), key))
            return NotResponsible(time_ms=self._now_ms(), descriptors=better)
        self._node.keep(Block(blinded=blinded, bucket=bucket, envelope=envelope))
        [receipt] = sign_receipts_of_commit(self._node.identity, [leaf_of(opened)], now_ms=self._now_ms())
        return receipt

    async def put_record(self, record: bytes) -> Record | NotResponsible:
        self._asked("put_record")
        key = record_key_of(verify_record(record).blinded)
        self._node.records[key] = newer_record(self._node.records.get(key), record)
        return Record(record=self._node.records[key])

    async def get_record(self, key: bytes) -> bytes | None:
        self._asked("get_record")
        return self._node.records.get(key)

    async def fetch(self, entries: Sequence[FetchEntry]) -> FetchAnswer:
        return await self._list(entries, MeshFrameType.FETCH)

    async def subscribe(self, entries: Sequence[FetchEntry]) -> FetchAnswer:
        answer = await self._list(entries, MeshFrameType.MESH_SUBSCRIBE)
        self.subscribed |= set(answer.listed)
        return answer

    async def next_pushed(self) -> list[Block]:
        while not self._pushed:
            if self._lost.is_set():
                raise ConnectionLost
            self._news.clear()
            await self._news.wait()
        pushed, self._pushed = self._pushed, []
        return pushed

    async def want(self, key: InboxKey, hashes: Sequence[PayloadHash]) -> dict[PayloadHash, Block]:
        self._asked("want")
        if self._answering >= MOST_ANSWERS:
            raise AttemptFailed("too many answers of this connection wait to be read", failure=Failure.RATE_LIMITED)
        self._answering += 1
        await asyncio.sleep(10 * SILENCE_S if key == self._node.slow_key else self._node.body_delay_s)
        self._answering -= 1
        if self._node.wants_left is not None:
            self._node.wants_left -= 1
            if self._node.wants_left < 0:
                await asyncio.sleep(SILENCE_S)
                raise AttemptFailed("the node does not answer", failure=Failure.NETWORK_TIMEOUT)
        held = self._node.held.get(key, {})
        return {each: held[each] for each in hashes if each in held}

    async def delete(self, delete: MeshDelete) -> None:
        self._asked("delete")
        if not is_delete_by_owner(delete):
            raise AttemptFailed("the DELETE is not signed by the owner", failure=Failure.AUTHENTICATION_FAILED)
        key = mesh_inbox_key(delete.blinded, delete.bucket)
        for each in map(PayloadHash, delete.hashes):
            self._node.held.get(key, {}).pop(each, None)
            self._node.deleted.setdefault(key, set()).add(each)

    async def lost(self) -> None:
        await self._lost.wait()

    async def close(self) -> None:
        self.lose()

    def lose(self) -> None:
        if self in self._node.connections:
            self._node.connections.remove(self)
        self._lost.set()
        self._news.set()

    def push(self, key: InboxKey, block: Block) -> None:
        if key in self.subscribed:
            self._pushed.append(block)
            self._news.set()

    async def _list(self, entries: Sequence[FetchEntry], frame_type: MeshFrameType) -> FetchAnswer:
        if self._node.list_delay_s:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._lost.wait(), self._node.list_delay_s)
        self._asked(frame_type.name.lower())
        if self._node.puts_off:
            self._node.puts_off -= 1
            raise AttemptFailed("too fast", failure=Failure.RATE_LIMITED, retry_after_ms=20)
        if frame_type is MeshFrameType.FETCH:
            self._node.entries.append(len(entries))
        answers, listed = [], {}
        for entry in entries:
            if not is_proved(entry, frame_type, challenge=self.hello.challenge, connection=self.binding):
                self.lose()
                raise AttemptFailed("the entry is not proved", failure=Failure.AUTHENTICATION_FAILED)
            key = mesh_inbox_key(entry.blinded, entry.bucket)
            if key in self._node.unanswered:
                raise AttemptFailed("the node does not answer", failure=Failure.NETWORK_TIMEOUT)
            listed[key] = () if self._node.hides_mail else tuple(self._node.held.get(key, {}))
            answers.append(answer_for(key, listed[key], after=0, last=0, is_complete=self._is_responsible(key)))
        return FetchAnswer(listed=listed, done=sign_done(self._node.identity, answers, now_ms=self._now_ms()))

    def _is_responsible(self, key: InboxKey) -> bool:
        own = NodeDescriptor(
            node_key=self._node.key,
            onion_key=bytes(32),
            endpoints=(self._node.endpoint,),
            roles=Role.STORAGE,
            issued_at_ms=0,
            expires_at_ms=1,
        )
        return rank_of(self._mesh.index(), key, own, within=RESPONSIBLE_WITHIN) is not None

    def _now_ms(self) -> int:
        return self._mesh.clock.now_ms() + self._node.clock_offset_ms

    def _asked(self, what: str) -> None:
        if self._lost.is_set():
            raise ConnectionLost
        self._node.requests.append(what)


def _place_of(node: MemoryNode) -> RelayPlace:
    return RelayPlace(node_key=node.key, host=".".join(map(str, node.endpoint.ip)), port=node.endpoint.port)

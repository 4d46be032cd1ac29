"""A connection to one node of the mesh: mesh frames as requests and answers (docs/protocol/mesh.md).

Clients and nodes use it alike. A client stays anonymous; a node calls `authenticate` first. Every call raises
`AttemptFailed` if the node refuses or is silent for 10 s (each part of a long answer starts the time again), and
`ConnectionLost` once the connection has ended. Requests may be made concurrently.

What arrives is verified before a caller sees it: receipts and FETCH_DONE by the node's signature and against what was
sent, blocks by their hash. A node that sends anything else gets `AnswerForged`, and the connection ends.

SPEC 6.5: use one connection for one inbox, and never put on a connection that proves one.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeVar

from restante.core.link.messages import Faulted
from restante.core.mesh_proofs.reading import is_done_by, matches_list
from restante.core.mesh_proofs.receipts import SignedCommits
from restante.crypto.identity import Identity
from restante.model.errors import LocalProtocolError, RemoteProtocolError, RestanteError
from restante.model.ids import BlindedKey, InboxKey, NodeKey, PayloadHash
from restante.policy.connection_limits import RelayLimits
from restante.policy.failures import Failure, failure_of_refusal
from restante.policy.quota import MailboxQuota
from restante.ports.mesh_connection import MAX_WANTED_AT_ONCE, FetchAnswer
from restante.ports.relay_connection import AttemptFailed, ConnectionLost
from restante.runtime.transport.outgoing_connection import OutgoingConnection
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.envelope_parser import parse_envelope, parse_put
from restante.wire.frames import codec
from restante.wire.frames.mesh import MESH_TYPES, MeshFrame, decode_mesh_body, encode_mesh_frame
from restante.wire.frames.mesh_directory import (
    Authenticate,
    DescriptorTaken,
    DirectoryPage,
    FindNode,
    Nodes,
    PublishDescriptor,
    SyncDirectory,
    authenticate_to_sign,
)
from restante.wire.frames.mesh_reading import (
    Fetch,
    FetchDone,
    FetchEntry,
    Listed,
    MeshDelete,
    MeshDeleted,
    MeshSubscribe,
)
from restante.wire.frames.mesh_replication import Block, Have, HaveDone, HaveList, KeySummary, Want, WantDone
from restante.wire.frames.mesh_storage import (
    GetRecord,
    MeshPut,
    MeshRoom,
    MeshStored,
    NotResponsible,
    PutRecord,
    Record,
    WrongBucket,
)
from restante.wire.mesh_keys import mesh_inbox_key
from restante.wire.storage_receipts import StorageReceipt

MAX_LISTED: Final = MailboxQuota().max_blobs
MAX_COMPARED: Final = 131_072
"""Hashes in one answer to HAVE; a page without hashes counts as one. A node ends it after some thousand."""
MAX_PUSHED_BYTES: Final = 8_388_608
"""Several times what a node pushes ahead of our DELETEs. One that sends more breaks the protocol."""

_FRAMES: Final = dict.fromkeys(MESH_TYPES, 0)
End = TypeVar("End")


class AnswerForged(AttemptFailed):
    """The node sent bytes that it should not have: a wrong signature, another list than it signed, an altered blob."""

    def __init__(self, text: str) -> None:
        super().__init__(text, failure=Failure.STORAGE_REFUSED)


@dataclass(slots=True, eq=False)
class _Request:
    """What waits for an answer: frames of the types `parts`, then one of the types `ends`."""

    answer: asyncio.Future[Any]
    ends: tuple[type, ...]
    parts: tuple[type, ...] = ()
    room: int = 0
    """How many more parts may come. A page of a list counts as many as it has hashes."""
    collected: list[Any] = field(default_factory=list)
    on_room: Callable[[MeshRoom], None] | None = None
    number: int = 0


class MeshConnection(OutgoingConnection[_Request]):
    """Made by `connect(host, port, node=KEY)`, which refuses any other node that answers there."""

    def __init__(self, node: NodeKey, *, limits: RelayLimits) -> None:
        super().__init__(node, _FRAMES, limits=limits)
        self._commits = SignedCommits(node)
        self._pushed: deque[Block] = deque()
        self._pushed_bytes = 0
        self._puts: dict[int, _Request] = {}
        self._subscribed: set[InboxKey] = set()
        self._news = asyncio.Event()

    @classmethod
    def _to(cls, node: NodeKey, limits: RelayLimits) -> Self:
        return cls(node, limits=limits)

    def authenticate(self, identity: Identity) -> None:
        """Prove the own node key, for connections between nodes. Not answered; a bad proof ends the connection."""
        to_sign = authenticate_to_sign(
            challenge=self.hello.challenge, connection=self.binding, server=self.node, dialler=identity.node_key
        )
        frame = Authenticate(node_key=identity.node_key, signature=identity.sign(to_sign))
        self._queue(encode_mesh_frame(frame, 0))

    async def ping(self) -> None:
        """Return once the node has answered."""
        await self._ask_raw(codec.Ping(), _Request(self._loop.create_future(), (codec.Pong,)))

    async def find_node(self, target: bytes, want: int) -> Nodes:
        """Return the node's time and the descriptors it knows closest to `target`, not verified."""
        return await self._ask(FindNode(target=target, want=want), Nodes)

    async def sync_directory(self, cursor: int, digest: bytes) -> DirectoryPage:
        """Return a page of the node's directory. With an equal digest it is empty and the last."""
        return await self._ask(SyncDirectory(cursor=cursor, digest=digest), DirectoryPage)

    async def publish(self, descriptor: bytes) -> DescriptorTaken:
        return await self._ask(PublishDescriptor(descriptor=descriptor), DescriptorTaken)

    async def put(
        self,
        blinded: BlindedKey,
        bucket: int,
        envelope: bytes,
        *,
        on_room: Callable[[MeshRoom], None] = lambda _room: None,
    ) -> StorageReceipt | WrongBucket | NotResponsible:
        """Store the envelope. A receipt is verified: the node signed exactly the leaf that follows from `envelope`.

        `on_room` hears what a node that limits its sources lets us store from now on, also if it refuses this.
        """
        _, _, _, _, leaf = parse_put(envelope)
        question = MeshPut(blinded=blinded, bucket=bucket, envelope=envelope)
        request = _Request(self._loop.create_future(), (MeshStored, WrongBucket, NotResponsible), on_room=on_room)
        try:
            answer = await self._ask_raw(question, request)
        finally:
            self._puts.pop(request.number, None)
        if isinstance(answer, WrongBucket | NotResponsible):
            return answer
        receipt = _only(answer, MeshStored).receipt
        if not self._commits.has_stored(receipt, leaf):
            raise self._forged("the storage receipt is not signed for this message")
        return receipt

    async def put_record(self, record: bytes) -> Record | NotResponsible:
        """Store a prekey record; return the newest one that the node holds, not verified."""
        answer = await self._ask_any(PutRecord(record=record), (Record, NotResponsible))
        return answer if isinstance(answer, NotResponsible) else _only(answer, Record)

    async def get_record(self, key: bytes) -> bytes | None:
        """Return the record under this key, not verified; None if the node holds none."""
        return (await self._ask(GetRecord(key=key), Record)).record or None

    async def fetch(self, entries: Sequence[FetchEntry]) -> FetchAnswer:
        """Return what the node lists for these proved entries (`core.mesh_proofs.connection_proofs`)."""
        return await self._list(Fetch(entries=tuple(entries)))

    async def subscribe(self, entries: Sequence[FetchEntry]) -> FetchAnswer:
        """As `fetch`; from then on the node pushes new mail of these keys, for `next_pushed`."""
        self._subscribed |= {mesh_inbox_key(each.blinded, each.bucket) for each in entries}
        return await self._list(MeshSubscribe(entries=tuple(entries)))

    async def next_pushed(self) -> list[Block]:
        """Return all blocks that were pushed since the last call, at least one. Their keys are subscribed ones.

        The node pushes some megabytes ahead, and goes on when blobs of the subscription are deleted.
        """
        while not self._pushed:
            if self._lost.is_set():
                raise ConnectionLost
            self._news.clear()
            await self._news.wait()
        pushed = list(self._pushed)
        self._pushed.clear()
        self._pushed_bytes = 0
        return pushed

    async def delete(self, delete: MeshDelete) -> None:
        """Hand over the owner's signed DELETE; return after the node's commit."""
        await self._ask(delete, MeshDeleted)

    async def have(
        self, low: bytes, high: bytes, summaries: Sequence[KeySummary]
    ) -> tuple[dict[InboxKey, dict[PayloadHash, None]], bytes]:
        """Return the node's hashes, in its order, for the keys from `low` on that differ, and how far it compared.

        For nodes that called `authenticate`.
        """
        question = Have(low=low, high=high, summaries=tuple(summaries))
        pages, done = await self._ask_parts(question, (HaveList,), HaveDone, MAX_COMPARED)
        lists: dict[InboxKey, dict[PayloadHash, None]] = {}
        for page in pages:
            if not low <= page.inbox_key <= high:
                raise self._forged("the node lists a key that it was not asked for")
            lists.setdefault(page.inbox_key, {}).update(dict.fromkeys(map(PayloadHash, page.hashes)))
        if not low <= done.through <= high:
            raise self._forged("the node compared other keys than it was asked for")
        return lists, done.through

    async def want(self, key: InboxKey, hashes: Sequence[PayloadHash]) -> dict[PayloadHash, Block]:
        """Return the blobs that the node sent of at most 64 wanted ones, verified by hash; it lacks the others."""
        found: dict[PayloadHash, Block] = {}
        for block in await self._want(key, hashes):
            if isinstance(block, Record):
                raise self._forged("the node sent a record in place of a blob")
            payload_hash = self._verified_hash(block, key)
            if payload_hash not in hashes:
                raise self._forged("the node sent a blob that it was not asked for")
            found[payload_hash] = block
        return found

    async def want_copy(self, key: InboxKey, payload_hash: PayloadHash) -> Block | Record | None:
        """Return a blob or prekey record that the node listed, verified by hash. For nodes, which hold both."""
        for part in await self._want(key, [payload_hash]):
            matches = (
                hashlib.sha256(part.record).digest() == payload_hash
                if isinstance(part, Record)
                else self._verified_hash(part, key) == payload_hash
            )
            if not matches:
                raise self._forged("the node sent something that it was not asked for")
            return part
        return None

    async def _want(self, key: InboxKey, hashes: Sequence[PayloadHash]) -> list[Block | Record]:
        if len(hashes) > MAX_WANTED_AT_ONCE:
            raise LocalProtocolError(f"a WANT of ours names at most {MAX_WANTED_AT_ONCE} blobs")
        """Return what the node sent of these within the time limit. The caller asks again for the rest only."""
        request = _Request(self._loop.create_future(), (WantDone,), (Block, Record), len(hashes))
        try:
            await self._ask_raw(Want(inbox_key=key, hashes=tuple(hashes)), request)
        except AttemptFailed:
            if not request.collected:
                raise
        return request.collected

    def on_lost(self) -> None:
        super().on_lost()
        self._news.set()

    def _handle(self, frames: Sequence[codec.RawFrame]) -> None:
        for frame in frames:
            decoded = decode_mesh_body(frame.type, frame.body)
            if frame.request == 0 and isinstance(decoded, Block):
                self._push(decoded)
                continue
            if isinstance(decoded, MeshRoom):
                self._hear_room(decoded, frame.request)
                continue
            request = self._link.requests.get(frame.request)
            if request is None:
                continue  # an answer to a request that has expired
            if isinstance(decoded, request.ends):
                self._link.requests.close(frame.request)
                self._resolve(request, decoded)
                self._has_room.set()
            elif isinstance(decoded, request.parts) and request.room > 0:
                request.room -= max(1, len(decoded.hashes)) if isinstance(decoded, Listed | HaveList) else 1
                request.collected.append(decoded)
                self._link.requests.extend(frame.request, now_s=self._loop.time())
            else:
                raise RemoteProtocolError(f"frame type {frame.type} does not answer this request")

    def _hear_room(self, room: MeshRoom, number: int) -> None:
        """It belongs to the answer of a put, which a REFUSED in the same piece of input has ended already."""
        put = self._puts.get(number)
        if put is not None and put.on_room is not None:
            put.on_room(room)

    def _push(self, block: Block) -> None:
        self._pushed_bytes += len(block.envelope)
        if self._pushed_bytes > MAX_PUSHED_BYTES:
            raise RemoteProtocolError("the node pushes more than the window allows")
        if mesh_inbox_key(block.blinded, block.bucket) not in self._subscribed:
            raise RemoteProtocolError("the node pushes mail of a key that is not subscribed")
        self._pushed.append(block)
        self._news.set()

    def _resolve(self, request: _Request, frame: object) -> None:
        if not request.answer.done():
            request.answer.set_result(frame)

    def _answer(self, request: _Request, frame: codec.Frame) -> None:
        if isinstance(frame, codec.Refused):
            failure = failure_of_refusal(frame.code, permanent=frame.permanent)
            self._fail(request, AttemptFailed(frame.text, failure=failure, retry_after_ms=frame.retry_after_ms or None))
        elif isinstance(frame, request.ends):
            self._resolve(request, frame)
        else:
            self._fail(request, self._forged("the node answered a request with PONG"))

    def _fail(self, request: _Request, error: AttemptFailed) -> None:
        if not request.answer.done():
            request.answer.set_exception(error)

    async def _list(self, question: Fetch | MeshSubscribe) -> FetchAnswer:
        after = {mesh_inbox_key(each.blinded, each.bucket): each.after for each in question.entries}
        pages, done = await self._ask_parts(question, (Listed,), FetchDone, len(after) * MAX_LISTED)
        listed: dict[InboxKey, list[PayloadHash]] = {key: [] for key in after}
        for page in pages:
            if page.inbox_key not in listed:
                raise self._forged("the node lists a key that it was not asked for")
            listed[page.inbox_key] += map(PayloadHash, page.hashes)
            if len(listed[page.inbox_key]) > MAX_LISTED:
                raise self._forged("the node lists more blobs than an inbox can have")
        answered = {each.inbox_key: each.after for each in done.answers}
        if answered != after or not is_done_by(done, self.node):
            raise self._forged("FETCH_DONE is not signed for this request")
        if not all(matches_list(each, listed[each.inbox_key]) for each in done.answers):
            raise self._forged("the node signed another list than it sent")
        return FetchAnswer(listed={key: tuple(hashes) for key, hashes in listed.items()}, done=done)

    def _verified_hash(self, block: Block, key: InboxKey) -> PayloadHash:
        """Return the hash of a block that lies under `key`, by what it names and by its envelope."""
        try:
            envelope_key, _, sealed = parse_envelope(block.envelope)
        except RestanteError as error:
            raise self._forged("the node sent a blob that is no envelope") from error
        if not envelope_key == key == mesh_inbox_key(block.blinded, block.bucket):
            raise self._forged("the node sent a blob of another inbox")
        return hash_sealed_bytes(sealed)

    def _forged(self, text: str) -> AnswerForged:
        self._feed(Faulted(RemoteProtocolError(text)))
        return AnswerForged(text)

    async def _ask(self, question: MeshFrame, end: type[End]) -> End:
        return _only(await self._ask_any(question, (end,)), end)

    async def _ask_any(self, question: MeshFrame, ends: tuple[type, ...]) -> object:
        return await self._ask_raw(question, _Request(self._loop.create_future(), ends))

    async def _ask_parts(
        self, question: MeshFrame, parts: tuple[type, ...], end: type[End], most: int
    ) -> tuple[list[Any], End]:
        request = _Request(self._loop.create_future(), (end,), parts, most)
        ending = _only(await self._ask_raw(question, request), end)
        return request.collected, ending

    async def _ask_raw(self, question: MeshFrame | codec.Ping, request: _Request) -> object:
        if not self._may_send():
            await self._wait_for_room()
        number = request.number = self._open_request(request)
        if request.on_room is not None:
            self._puts[number] = request
        if isinstance(question, codec.Ping):
            self._queue(codec.encode_frame(question, number))
        else:
            self._queue(encode_mesh_frame(question, number))
        return await request.answer


def _only(frame: object, kind: type[End]) -> End:
    """Return the frame, which is of this kind: `_handle` resolves a request with its own kinds only."""
    if not isinstance(frame, kind):
        raise LocalProtocolError(f"{type(frame).__name__} is no answer to this request")
    return frame

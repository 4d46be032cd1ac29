"""A client's connection to one relay: the mailbox family on an outgoing connection.

Encrypted to the relay's key. Memory is bounded: puts by the request table, mail by the receive window. A put is stored
once the relay has signed a Merkle root that contains the leaf which is computed here, from the bytes that were put.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Self, TypeVar

from restante.core.inboxes.relay_inbox import OwnInbox
from restante.core.link.messages import Faulted
from restante.core.link.windows import ReceiveWindow
from restante.core.mesh_proofs.receipts import SignedCommits
from restante.crypto.blinded_keys import SIGNING_ENTROPY_BYTES
from restante.model.errors import RemoteProtocolError, RestanteError
from restante.model.ids import NodeKey
from restante.policy.connection_limits import RelayLimits
from restante.policy.failures import Failure, failure_of_refusal
from restante.ports.relay_connection import AttemptFailed, ConnectionLost, StoredBlob
from restante.runtime.system import SystemEntropy
from restante.runtime.transport.outgoing_connection import OutgoingConnection
from restante.wire.envelope_parser import parse_put
from restante.wire.frames import codec
from restante.wire.frames.mailbox import decode_blob
from restante.wire.frames.types import FrameType
from restante.wire.storage_receipts import StorageReceipt

Reply = TypeVar("Reply", codec.Subscribed, codec.Deleted, codec.Pong)

_PUT: Final = FrameType.PUT
_BLOB: Final = FrameType.BLOB
_WRONG_KIND: Final = "the relay gave an answer of the wrong kind"
_UNSIGNED: Final = "the relay's acknowledgement is not signed for this message"
_MAILBOX_FRAMES: Final = dict.fromkeys(map(int, (FrameType.STORED, _BLOB, FrameType.DELETED, FrameType.SUBSCRIBED)), 0)


class _Request(NamedTuple):
    """What waits for an answer; `leaf` is what the receipt of a put must cover."""

    answer: asyncio.Future[Any]
    leaf: bytes | None = None


class TlsRelayConnection(OutgoingConnection[_Request]):
    """Satisfies `ports.relay_connection.RelayConnection`. Made by `connect`."""

    def __init__(self, node: NodeKey, *, limits: RelayLimits) -> None:
        super().__init__(node, _MAILBOX_FRAMES, limits=limits)
        self._blobs: deque[StoredBlob] = deque()
        self._window = ReceiveWindow()
        self._commits = SignedCommits(node)
        self._news = asyncio.Event()

    @classmethod
    def _to(cls, node: NodeKey, limits: RelayLimits) -> Self:
        return cls(node, limits=limits)

    async def subscribe(self, inbox: OwnInbox) -> None:
        """Prove the inbox under its blinded key, so that the relay pushes its blobs on this connection."""
        signer = inbox.signer_at(self.node)
        to_sign = codec.open_to_sign(self.hello, self.binding, signer.public_key)
        signature = signer.sign(to_sign, entropy=SystemEntropy().draw(SIGNING_ENTROPY_BYTES))
        await self._ask(codec.Subscribe(blinded_key=signer.public_key, signature=signature), codec.Subscribed)

    async def put(self, envelope: bytes) -> StorageReceipt:
        if not self._may_send():
            await self._wait_for_room()
        return await self._begin_put(envelope)

    async def put_many(self, envelopes: Sequence[bytes]) -> list[StorageReceipt | AttemptFailed]:
        """Put all, as many at a time as may be in flight; return for each its receipt or why it was not stored."""
        in_flight: list[asyncio.Future[StorageReceipt] | AttemptFailed] = []
        for envelope in envelopes:
            try:
                if not self._may_send():
                    await self._wait_for_room()
                in_flight.append(self._begin_put(envelope))
            except AttemptFailed as failed:
                in_flight.append(failed)
        return [each if isinstance(each, AttemptFailed) else await _outcome(each) for each in in_flight]

    async def next_blob(self) -> StoredBlob:
        while not self._blobs:
            if self._lost.is_set():
                raise ConnectionLost
            self._news.clear()
            await self._news.wait()
        blob = self._blobs.popleft()
        self._take([blob])
        return blob

    async def next_blobs(self) -> list[StoredBlob]:
        """Return all blobs that have arrived, at least one."""
        blobs = [await self.next_blob(), *self._blobs]
        self._blobs.clear()
        if len(blobs) > 1:
            self._take(blobs[1:])
        return blobs

    async def delete(self, blob_id: int) -> None:
        await self.delete_many((blob_id,))

    async def delete_many(self, blob_ids: Sequence[int]) -> None:
        """Delete up to 1,024 blobs with one request."""
        await self._ask(codec.Delete(blob_ids=tuple(blob_ids)), codec.Deleted)

    async def ping(self) -> None:
        """Return once the relay has answered."""
        await self._ask(codec.Ping(), codec.Pong)

    def on_lost(self) -> None:
        super().on_lost()
        self._news.set()

    def _handle(self, frames: Sequence[codec.RawFrame]) -> None:
        """Handle frames of the mailbox family."""
        before, new_bytes = len(self._blobs), 0
        for frame in frames:
            if frame.type == _BLOB:
                blob = StoredBlob._make(decode_blob(frame.body))
                self._blobs.append(blob)
                new_bytes += len(blob.envelope)
                continue
            decoded = codec.decode_body(frame.type, frame.body)
            match decoded:
                case codec.Stored():
                    self._stored(decoded)
                case codec.Subscribed() | codec.Deleted():
                    request = self._link.requests.close(frame.request)
                    if request is not None:
                        self._answer(request, decoded)
                        self._has_room.set()
                case _:
                    raise RemoteProtocolError(f"frame type {frame.type} is no answer of a mailbox")
        if len(self._blobs) > before:
            self._news.set()
            if not self._window.received(len(self._blobs) - before, new_bytes):
                raise RemoteProtocolError("the relay sent more blobs than the window allows")

    def _stored(self, frame: codec.Stored) -> None:
        """Answer the puts of a commit. A request that is not open hides a leaf, so none of them can be verified."""
        puts = [self._link.requests.close(request) for request in frame.requests]
        known = [put for put in puts if put is not None]
        leaves = [put.leaf for put in known if put.leaf is not None]
        receipts = self._commits.receipts_of_run(frame.ack, frame.path, leaves)
        if receipts is None:
            for put in known:
                self._fail(put, AttemptFailed(_UNSIGNED, failure=Failure.STORAGE_REFUSED))
        else:
            for put, receipt in zip(known, receipts, strict=True):
                if not put.answer.done():
                    put.answer.set_result(receipt)
        self._has_room.set()

    def _answer(self, request: _Request, frame: codec.Frame) -> None:
        if isinstance(frame, codec.Refused):
            failure = failure_of_refusal(frame.code, permanent=frame.permanent)
            self._fail(request, AttemptFailed(frame.text, failure=failure, retry_after_ms=frame.retry_after_ms or None))
        elif request.leaf is not None:  # only a signed STORED says that a put is on disk
            self._fail(request, AttemptFailed(_WRONG_KIND, failure=Failure.STORAGE_REFUSED))
            raise RemoteProtocolError(_WRONG_KIND)
        elif not request.answer.done():
            request.answer.set_result(frame)

    def _fail(self, request: _Request, error: AttemptFailed) -> None:
        if not request.answer.done():
            request.answer.set_exception(error)

    def _begin_put(self, envelope: bytes) -> asyncio.Future[StorageReceipt]:
        try:
            _, _, _, _, leaf = parse_put(envelope)
        except RestanteError as error:  # no relay would store it
            raise AttemptFailed(str(error), failure=failure_of_refusal(error.code, permanent=True)) from error
        answer: asyncio.Future[StorageReceipt] = self._loop.create_future()
        request = self._open_request(_Request(answer, leaf))
        self._queue(codec.frame_head(_PUT, request, len(envelope)), envelope)
        return answer

    def _take(self, blobs: Sequence[StoredBlob]) -> None:
        if self._window.taken(len(blobs), sum([len(blob.envelope) for blob in blobs])):
            self.send(codec.encode_frame(codec.Credit(through=blobs[-1].blob_id), 0))

    async def _ask(self, question: codec.Frame, reply: type[Reply]) -> Reply:
        if not self.is_ready:
            raise ConnectionLost
        answer: asyncio.Future[codec.Frame] = self._loop.create_future()
        self._queue(codec.encode_frame(question, self._open_request(_Request(answer))))
        got = await answer
        if not isinstance(got, reply):
            self._feed(Faulted(RemoteProtocolError(_WRONG_KIND)))
            raise AttemptFailed(_WRONG_KIND, failure=Failure.NETWORK_TIMEOUT)
        return got


async def _outcome(answer: asyncio.Future[StorageReceipt]) -> StorageReceipt | AttemptFailed:
    """Return the receipt or the failure. Most are there at the first look: a commit answers many puts."""
    try:
        return await answer
    except AttemptFailed as failed:
        return failed

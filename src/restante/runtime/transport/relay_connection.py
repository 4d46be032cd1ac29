"""A client's connection to one relay: executes the effects of `core.link.client_end` on a TLS connection.

Encrypted to the relay's key. Memory is bounded: puts by the request table, mail by the receive window. An
acknowledgement counts only with the relay's signature over exactly the bytes that were put.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeVar

from restante.core.link.client_end import ANSWER_TIMEOUT_S, ClientLink
from restante.core.link.messages import (
    CLOSE_REQUESTED,
    LOST,
    TIME_PASSED,
    WRITE_BLOCKED,
    WRITE_RESUMED,
    Abort,
    Answer,
    BecomeReady,
    ClientSecured,
    Close,
    CloseReason,
    Dispatch,
    Effect,
    Event,
    ExpireRequests,
    Faulted,
    FramesReceived,
    OpenWindow,
    ReportFault,
    Send,
    WakeAt,
)
from restante.core.link.table import Phase
from restante.core.link.windows import ReceiveWindow
from restante.core.signed_acks import Evidence, is_evidence_by
from restante.crypto.identity import Identity
from restante.model.errors import LocalProtocolError, RemoteProtocolError, RestanteError
from restante.model.ids import NodeKey, PayloadHash
from restante.policy.connection_limits import RelayLimits
from restante.policy.failures import Failure, failure_of_refusal
from restante.ports.relay_connection import AttemptFailed, ConnectionLost, StoredBlob
from restante.runtime.transport.tls import channel_of, client_context, peer_key
from restante.runtime.transport.tls_connection import TlsConnection
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.envelope_parser import parse_envelope
from restante.wire.frames import codec
from restante.wire.frames.mailbox import decode_blob
from restante.wire.frames.types import FrameType

Reply = TypeVar("Reply", codec.Subscribed, codec.Deleted, codec.Pong)

_PUT: Final = FrameType.PUT
_BLOB: Final = FrameType.BLOB
_MAILBOX_FRAMES: Final = dict.fromkeys(map(int, (FrameType.STORED, _BLOB, FrameType.DELETED, FrameType.SUBSCRIBED)), 0)
_FAILURES: Final = {
    CloseReason.WRONG_NODE: (Failure.AUTHENTICATION_FAILED, "another node answers at the relay's endpoint"),
    CloseReason.WRONG_VERSION: (Failure.CONNECTION_REFUSED, "the relay speaks only other versions"),
    CloseReason.HANDSHAKE_FAILED: (Failure.TLS_HANDSHAKE_FAILED, "what answers there speaks no TLS 1.3 of ours"),
    CloseReason.HANDSHAKE_TIMEOUT: (Failure.CONNECTION_REFUSED, "the relay does not answer"),
}


class _Request(NamedTuple):
    """What waits for an answer; `payload_hash` is what a put's STORED must be signed over."""

    answer: asyncio.Future[Any]
    payload_hash: PayloadHash | None = None


class TlsRelayConnection(TlsConnection):
    """Satisfies `ports.relay_connection.RelayConnection`. Made by `connect`."""

    def __init__(self, node: NodeKey, *, limits: RelayLimits) -> None:
        super().__init__(client_context(), server_side=False)
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._link: ClientLink[_Request] = ClientLink(_MAILBOX_FRAMES, node, limits, now_s=self._loop.time())
        self._ready: asyncio.Future[codec.Hello] = self._loop.create_future()
        self._blobs: deque[StoredBlob] = deque()
        self._window = ReceiveWindow()
        self._news = asyncio.Event()
        self._lost = asyncio.Event()
        self._has_room = asyncio.Event()
        self._can_write = True
        self._corked: list[bytes] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def connect(
        cls, host: str, port: int, *, node: NodeKey, limits: RelayLimits | None = None
    ) -> "TlsRelayConnection":
        """Connect to the relay whose key is `node`; any other node that answers there is refused."""
        connection = cls(node, limits=limits or RelayLimits())
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await connection._loop.create_connection(lambda: connection, host, port)
                await connection._ready
        except (OSError, TimeoutError) as error:
            connection.abort()
            raise AttemptFailed("the relay does not answer", failure=Failure.CONNECTION_REFUSED) from error
        except BaseException:
            connection.abort()  # a caller that gave up leaves no connection behind
            raise
        return connection

    async def subscribe(self, identity: Identity) -> None:
        """Prove the address, so that the relay pushes its blobs on this connection."""
        to_sign = codec.open_to_sign(self._ready.result(), channel_of(self.encryption), identity.address)
        await self._ask(codec.Subscribe(address=identity.address, signature=identity.sign(to_sign)), codec.Subscribed)

    async def put(self, envelope: bytes) -> Evidence:
        if not self._may_put():
            await self._wait_for_room()
        evidence: Evidence = await self._begin_put(envelope)
        return evidence

    async def put_many(self, envelopes: Sequence[bytes]) -> list[Evidence | AttemptFailed]:
        """Put all, as many at a time as may be in flight; return for each its evidence or why it was not stored."""
        in_flight: list[asyncio.Future[Evidence] | AttemptFailed] = []
        for envelope in envelopes:
            try:
                if not self._may_put():
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
        self._take(1, blob.blob_id)
        return blob

    async def next_blobs(self) -> list[StoredBlob]:
        """Return all blobs that have arrived, at least one."""
        blobs = [await self.next_blob(), *self._blobs]
        self._blobs.clear()
        if len(blobs) > 1:
            self._take(len(blobs) - 1, blobs[-1].blob_id)
        return blobs

    async def delete(self, blob_id: int) -> None:
        await self.delete_many((blob_id,))

    async def delete_many(self, blob_ids: Sequence[int]) -> None:
        """Delete up to 1,024 blobs with one request."""
        await self._ask(codec.Delete(blob_ids=tuple(blob_ids)), codec.Deleted)

    async def ping(self) -> None:
        """Return once the relay has answered."""
        await self._ask(codec.Ping(), codec.Pong)

    async def lost(self) -> None:
        await self._lost.wait()

    async def close(self) -> None:
        self._feed(CLOSE_REQUESTED)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._feed(TIME_PASSED)  # orders the timer of the handshake

    def on_secured(self) -> None:
        self._feed(ClientSecured(peer_key(self.encryption)))

    def on_frames(self, frames: list[codec.RawFrame], *, partial_bytes: int) -> None:
        self._feed(FramesReceived(frames, partial_bytes))

    def on_fault(self, error: RestanteError) -> None:
        self._feed(Faulted(error))

    def on_lost(self) -> None:
        self._feed(LOST)
        if self._timer is not None:
            self._timer.cancel()
        self._lost.set()
        self._news.set()
        self._has_room.set()
        self._fail_ready(ConnectionResetError("the relay closed the connection"))
        for request in self._link.requests.close_all():
            _fail(request, ConnectionLost())

    def pause_writing(self) -> None:
        self._can_write = False
        self._feed(WRITE_BLOCKED)

    def resume_writing(self) -> None:
        self._can_write = True
        self._feed(WRITE_RESUMED)

    def _wake(self) -> None:
        self._timer = None
        self._feed(TIME_PASSED)

    def _feed(self, event: Event) -> None:
        try:
            self._execute(self._link.handle(event, now_s=self._loop.time()))
        except RemoteProtocolError as error:
            self._feed(Faulted(error))

    def _execute(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Dispatch():
                    self._handle(effect.frames)
                case Answer():
                    self._answer(effect.waiting, effect.frame)
                case Send():
                    self.send(effect.raw)
                case WakeAt():
                    self._order_wake(effect.at_s)
                case ExpireRequests():
                    self._expire(effect.waiting)
                case BecomeReady():
                    self._ready.set_result(effect.hello)
                case ReportFault():
                    self._feed(Faulted(effect.error))
                case Close():
                    self.disconnect()
                case Abort():
                    self._fail_ready(_connect_failure(effect.reason))
                    self.abort()
                case OpenWindow():
                    self._has_room.set()
                case _:
                    raise LocalProtocolError(f"a client has no use for {type(effect).__name__}")

    def _expire(self, requests: Sequence[_Request]) -> None:
        for request in requests:
            _fail(request, AttemptFailed("the relay did not answer in time", failure=Failure.NETWORK_TIMEOUT))
        self._has_room.set()

    def _order_wake(self, at_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self.transport is None else self._loop.call_at(at_s, self._wake)

    def _handle(self, frames: Sequence[codec.RawFrame]) -> None:
        """Handle frames of the mailbox family."""
        before = len(self._blobs)
        for frame in frames:
            if frame.type == _BLOB:
                self._blobs.append(StoredBlob._make(decode_blob(frame.body)))
                continue
            decoded = codec.decode_body(frame.type, frame.body)
            match decoded:
                case codec.Stored():
                    self._stored(decoded)
                case codec.Subscribed() | codec.Deleted():
                    request = self._link.requests.close(frame.request)
                    if request is not None:
                        self._answer(request, decoded)
                case _:
                    raise RemoteProtocolError(f"frame type {frame.type} is no answer of a mailbox")
        if len(self._blobs) > before:
            self._news.set()
            if not self._window.received(len(self._blobs) - before):
                raise RemoteProtocolError("the relay sent more blobs than the window allows")

    def _stored(self, frame: codec.Stored) -> None:
        """Answer the puts of a commit. A request that is not open makes the signature unverifiable, for all of them."""
        puts = [self._link.requests.close(request) for request in frame.requests]
        known = [put for put in puts if put is not None]
        hashes = tuple([put.payload_hash for put in known if put.payload_hash is not None])
        evidence = Evidence(batch=frame.batch, sealed_hashes=hashes)
        is_valid = len(hashes) == len(puts) and is_evidence_by(evidence, self._node)
        for put in known:
            if is_valid:
                if not put.answer.done():
                    put.answer.set_result(evidence)
            else:
                text = "the relay's acknowledgement is not signed for this message"
                _fail(put, AttemptFailed(text, failure=Failure.STORAGE_REFUSED))
        self._has_room.set()

    def _answer(self, request: _Request, frame: codec.Frame) -> None:
        if isinstance(frame, codec.Refused):
            failure = failure_of_refusal(frame.code, permanent=frame.permanent)
            _fail(request, AttemptFailed(frame.text, failure=failure, retry_after_ms=frame.retry_after_ms or None))
        elif not request.answer.done():
            request.answer.set_result(frame)
        self._has_room.set()

    def _fail_ready(self, error: Exception) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # a caller that gave up waiting does not read it

    def _may_put(self) -> bool:
        return not self._link.requests.is_full and self._can_write and self._link.phase is Phase.READY

    async def _wait_for_room(self) -> None:
        while not self._may_put():
            if self._link.phase is not Phase.READY:
                raise ConnectionLost
            self._has_room.clear()
            await self._has_room.wait()

    def _begin_put(self, envelope: bytes) -> asyncio.Future[Evidence]:
        try:
            _, _, sealed_bytes = parse_envelope(envelope)
        except RestanteError as error:  # no relay would store it
            raise AttemptFailed(str(error), failure=failure_of_refusal(error.code, permanent=True)) from error
        answer: asyncio.Future[Evidence] = self._loop.create_future()
        request = self._open_request(_Request(answer, hash_sealed_bytes(sealed_bytes)))
        self._queue(codec.frame_head(_PUT, request, len(envelope)), envelope)
        return answer

    def _open_request(self, request: _Request) -> int:
        number, effects = self._link.open_request(request, now_s=self._loop.time())
        if effects:
            self._execute(effects)
        return number

    def _queue(self, *parts: bytes) -> None:
        """Send what one turn of the loop queues as one piece: that costs less, and the relay commits it whole."""
        if self._corked is None:
            self._corked = []
            self._loop.call_soon(self._uncork)
        self._corked += parts

    def _uncork(self) -> None:
        corked, self._corked = self._corked, None
        if corked:
            self.send(b"".join(corked))

    def _take(self, blobs: int, through: int) -> None:
        if self._window.taken(blobs):
            self.send(codec.encode_frame(codec.Credit(through=through), 0))

    async def _ask(self, question: codec.Frame, reply: type[Reply]) -> Reply:
        if self._link.phase is not Phase.READY:
            raise ConnectionLost
        answer: asyncio.Future[codec.Frame] = self._loop.create_future()
        self._queue(codec.encode_frame(question, self._open_request(_Request(answer))))
        got = await answer
        if not isinstance(got, reply):
            self._feed(Faulted(RemoteProtocolError("the relay gave an answer of the wrong kind")))
            raise AttemptFailed("the relay gave an answer of the wrong kind", failure=Failure.NETWORK_TIMEOUT)
        return got


def _fail(request: _Request, error: AttemptFailed) -> None:
    if not request.answer.done():
        request.answer.set_exception(error)


def _connect_failure(reason: CloseReason | None) -> Exception:
    if reason not in _FAILURES:
        return ConnectionResetError("the relay broke the protocol")
    failure, text = _FAILURES[reason]
    return AttemptFailed(text, failure=failure)


async def _outcome(answer: asyncio.Future[Evidence]) -> Evidence | AttemptFailed:
    """Return the evidence or the failure. Most are there at the first look: a commit answers many puts."""
    try:
        return await answer
    except AttemptFailed as failed:
        return failed

"""A client's connection to one relay: many requests in flight, each with a deadline (SPEC 6.4, 6.5, 6.8).

Encrypted to the relay's key and nobody else's. What waits in memory is bounded: puts by how many may be under way, mail
by what the relay may send ahead of what was taken.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, TypeVar

from restante.core.signed_acks import Evidence
from restante.crypto.identity import Identity
from restante.model.errors import RestanteError
from restante.model.ids import NodeKey
from restante.policy.connection_limits import RelayLimits
from restante.policy.failures import Failure, failure_of_refusal
from restante.ports.relay_connection import AttemptFailed, ConnectionLost, StoredBlob
from restante.runtime.transport.pending_puts import PendingPuts
from restante.runtime.transport.tls import channel_of, client_context, peer_key
from restante.runtime.transport.tls_connection import TlsConnection
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.envelope_parser import view_envelope
from restante.wire.field_checks import MAX_U32
from restante.wire.frames import codec

Answer = TypeVar("Answer", codec.Subscribed, codec.Deleted, codec.Pong)

DEADLINE_S: Final = 10.0  # SPEC 6.8: the handshake's limit, used for every answer
TAKEN_EVERY: Final = 128  # blobs taken before the relay is told, at the latest
MAX_UNTAKEN_BLOBS: Final = 4_096
"""Several times what a relay sends ahead: one that sends more does not keep to the protocol."""

_PUT: Final = codec.FrameType.PUT
_CAPABILITIES: Final = int(codec.Capability.RECEIVE)


class TlsRelayConnection(TlsConnection):
    """Satisfies `ports.relay_connection.RelayConnection`. Made by `connect`."""

    def __init__(self, node: NodeKey, *, limits: RelayLimits) -> None:
        super().__init__(client_context(), server_side=False)
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._puts = PendingPuts(node, self._loop)
        self._answers: dict[int, asyncio.Future[codec.Frame]] = {}
        self._blobs: deque[StoredBlob] = deque()
        self._news = asyncio.Event()
        self._untold = 0
        self._hello: asyncio.Future[codec.Hello] = self._loop.create_future()
        self._last_request = 0
        self._lost = asyncio.Event()
        self._corked: list[bytes] | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._limits = limits
        self._heard_s = self._loop.time()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    @classmethod
    async def connect(
        cls, host: str, port: int, *, node: NodeKey, limits: RelayLimits | None = None
    ) -> "TlsRelayConnection":
        """A link to the relay that *is* `node`; any other answering there is refused."""
        link = cls(node, limits=limits or RelayLimits())
        try:
            async with asyncio.timeout(DEADLINE_S):
                await link._loop.create_connection(lambda: link, host, port)
                hello = await link._hello
            link._start(hello)
        except (OSError, TimeoutError) as error:
            link.abort()
            raise AttemptFailed("the relay does not answer", failure=Failure.CONNECTION_REFUSED) from error
        except BaseException:
            link.abort()  # a caller that gave up leaves no connection behind
            raise
        return link

    async def subscribe(self, identity: Identity) -> None:
        """Prove the address, so that the relay hands over its mail on this connection."""
        to_sign = codec.open_to_sign(self._hello.result(), channel_of(self.encryption), identity.address)
        await self._ask(codec.Subscribe(address=identity.address, signature=identity.sign(to_sign)), codec.Subscribed)

    async def put(self, envelope: bytes) -> Evidence:
        if not self._has_room():
            await self._wait_for_room()
        return await self._begin_put(envelope)

    async def put_many(self, envelopes: Sequence[bytes]) -> list[Evidence | AttemptFailed]:
        """All of them, as many at a time as may be under way: for each its evidence, or why it was not stored."""
        under_way: list[asyncio.Future[Evidence] | AttemptFailed] = []
        for envelope in envelopes:
            try:
                if not self._has_room():
                    await self._wait_for_room()
                under_way.append(self._begin_put(envelope))
            except AttemptFailed as failed:
                under_way.append(failed)
        return [each if isinstance(each, AttemptFailed) else await _outcome(each) for each in under_way]

    async def next_blob(self) -> StoredBlob:
        while not self._blobs:
            if self._lost.is_set():
                raise ConnectionLost
            self._news.clear()
            await self._news.wait()
        blob = self._blobs.popleft()
        self._untold += 1
        if self._untold >= TAKEN_EVERY or not self._blobs:
            self._tell_taken(blob.blob_id)
        return blob

    async def next_blobs(self) -> list[StoredBlob]:
        """All that have come by now, at least one."""
        blobs = [await self.next_blob(), *self._blobs]
        self._blobs.clear()
        self._tell_taken(blobs[-1].blob_id)
        return blobs

    async def delete(self, blob_id: int) -> None:
        await self.delete_many((blob_id,))

    async def delete_many(self, blob_ids: Sequence[int]) -> None:
        """Up to 1,024 in one request."""
        await self._ask(codec.Delete(blob_ids=tuple(blob_ids)), codec.Deleted)

    async def ping(self) -> None:
        """Returns once the relay has answered."""
        await self._ask(codec.Ping(), codec.Pong)

    async def lost(self) -> None:
        await self._lost.wait()

    async def close(self) -> None:
        self.disconnect()

    def on_secured(self) -> None:
        """Before any byte of ours: is it the relay we meant?"""
        if peer_key(self.encryption) != self._node:
            text = "another node answers at the relay's place"
            self._fail_hello(AttemptFailed(text, failure=Failure.AUTHENTICATION_FAILED))
            self.abort()

    def on_frames(self, came: list[codec.RawFrame]) -> None:
        self._heard_s = self._loop.time()
        for frame in came:
            self._take(frame.request, codec.decode_body(frame.type, frame.body))
        if self._blobs:
            self._news.set()
            if len(self._blobs) > MAX_UNTAKEN_BLOBS:
                self.abort()

    def on_fault(self, error: RestanteError) -> None:
        if not self.is_secure:
            failed = AttemptFailed("what answers there speaks no TLS of ours", failure=Failure.TLS_HANDSHAKE_FAILED)
            failed.__cause__ = error
            self._fail_hello(failed)
        self.abort()

    def on_lost(self) -> None:
        self._lost.set()
        self._news.set()
        self._may_write.set()
        for timer in self._timers.values():
            timer.cancel()
        self._fail_hello(ConnectionResetError("the relay hung up"))
        self._puts.lose()
        for waiting in self._answers.values():
            if not waiting.done():
                waiting.set_exception(ConnectionLost())

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def _take(self, request: int, frame: codec.Frame | codec.Unknown) -> None:
        match frame:
            case codec.Blob():
                self._blobs.append(StoredBlob(frame.blob_id, frame.stored_at_ms, frame.envelope))
            case codec.Stored():
                self._puts.stored(frame)
            case codec.Refused() if self._puts.fail(request, _as_failure(frame)):
                pass
            case codec.Hello() if not self._hello.done():
                self._hello.set_result(frame)
            case codec.Hello() | codec.Unknown():
                self.abort()
            case _ if (waiting := self._answers.get(request)) is not None and not waiting.done():
                waiting.set_result(frame)

    def _start(self, hello: codec.Hello) -> None:
        """Choose a version and say which capabilities will be used; the relay answers only if it minds."""
        if not hello.lowest_version <= codec.PROTOCOL_VERSION <= hello.highest_version:
            raise AttemptFailed("the relay speaks only other versions", failure=Failure.CONNECTION_REFUSED)
        if hello.node_key != self._node:
            raise AttemptFailed("the relay calls itself another node", failure=Failure.AUTHENTICATION_FAILED)
        chosen = codec.Start(version=codec.PROTOCOL_VERSION, capabilities=hello.capabilities & _CAPABILITIES)
        self.send(codec.encode_frame(chosen, 0))
        self._beat()

    def _fail_hello(self, error: Exception) -> None:
        if not self._hello.done():
            self._hello.set_exception(error)
            self._hello.exception()  # a caller that gave up waiting need not be told

    def _has_room(self) -> bool:
        return not self._puts.is_full() and self._may_write.is_set() and not self._lost.is_set()

    async def _wait_for_room(self) -> None:
        while not self._lost.is_set() and not self._has_room():
            await self._puts.room()
            await self._may_write.wait()
        if self._lost.is_set():
            raise ConnectionLost

    def _begin_put(self, envelope: bytes) -> asyncio.Future[Evidence]:
        try:
            _, _, sealed_bytes = view_envelope(envelope)
        except RestanteError as error:  # no relay would take it
            raise AttemptFailed(str(error), failure=failure_of_refusal(error.code, permanent=True)) from error
        request = self._next_request()
        sealed = hash_sealed_bytes(sealed_bytes)
        answer = self._puts.add(request, sealed, due_s=self._loop.time() + DEADLINE_S)
        self._say(codec.frame_head(_PUT, request, len(envelope)), envelope)
        if "puts" not in self._timers:
            self._timers["puts"] = self._loop.call_later(DEADLINE_S, self._expire_puts)
        return answer

    def _say(self, *parts: bytes) -> None:
        """All of a turn leave together at its end: encrypting them one by one is dear, and the relay would commit the
        first of them alone."""
        if self._corked is None:
            self._corked = []
            self._loop.call_soon(self._uncork)
        self._corked += parts

    def _uncork(self) -> None:
        corked, self._corked = self._corked, None
        if corked:
            self.send(b"".join(corked))

    def _expire_puts(self) -> None:
        del self._timers["puts"]
        again_s = self._puts.expire(self._loop.time())
        if again_s is not None:
            self._timers["puts"] = self._loop.call_at(again_s, self._expire_puts)

    def _beat(self) -> None:
        """Tell the relay that we are there (SPEC 6.8), and notice when it is not."""
        if self._loop.time() - self._heard_s > self._limits.idle_timeout_ms / 1_000:
            self.abort()
            return
        self.send(codec.encode_frame(codec.Ping(), 0))
        self._timers["beat"] = self._loop.call_later(self._limits.heartbeat_interval_ms / 1_000, self._beat)

    def _tell_taken(self, through: int) -> None:
        self._untold = 0
        self.send(codec.encode_frame(codec.Credit(through=through), 0))

    def _next_request(self) -> int:
        """0 is for what nobody waits for."""
        self._last_request = self._last_request % MAX_U32 + 1
        return self._last_request

    async def _ask(self, question: codec.Frame, answer: type[Answer]) -> Answer:
        if self._lost.is_set():
            raise ConnectionLost
        request = self._next_request()
        waiting: asyncio.Future[codec.Frame] = self._loop.create_future()
        self._answers[request] = waiting
        try:
            self._say(codec.encode_frame(question, request))
            async with asyncio.timeout(DEADLINE_S):
                got = await waiting
        except TimeoutError as error:
            raise AttemptFailed("the relay did not answer in time", failure=Failure.NETWORK_TIMEOUT) from error
        finally:
            self._answers.pop(request, None)
        if isinstance(got, codec.Refused):
            raise _as_failure(got)
        if not isinstance(got, answer):
            self.abort()
            raise AttemptFailed("the relay gave an answer of the wrong kind", failure=Failure.NETWORK_TIMEOUT)
        return got


async def _outcome(answer: asyncio.Future[Evidence]) -> Evidence | AttemptFailed:
    """All of one commit are answered together: most are there when they are asked for."""
    try:
        return await answer
    except AttemptFailed as failed:
        return failed


def _as_failure(refused: codec.Refused) -> AttemptFailed:
    failure = failure_of_refusal(refused.code, permanent=refused.permanent)
    return AttemptFailed(refused.text, failure=failure, retry_after_ms=refused.retry_after_ms or None)

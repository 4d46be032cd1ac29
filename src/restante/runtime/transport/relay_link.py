"""A client's connection to one relay: many requests in flight, each with a deadline (SPEC 6.4, 6.5)."""

import asyncio
from typing import Final, TypeVar

from restante.core.acks import is_delivery_ack_for
from restante.crypto.identity import Identity
from restante.model.codes import Code
from restante.model.ids import NodeKey
from restante.policy.failures import Failure
from restante.ports.relay import Blob, LinkLost, TryFailed
from restante.runtime.transport.framed import FramedConnection
from restante.wire import frames
from restante.wire.acks import Ack
from restante.wire.envelope import decode_envelope, payload_hash

Answer = TypeVar("Answer", frames.Opened, frames.Stored, frames.Deleted)

DEADLINE_S: Final = 10.0  # SPEC 6.8: the handshake's limit, used for every answer


class TcpRelayLink:
    """Satisfies `ports.relay.RelayLink`."""

    def __init__(self, node: NodeKey) -> None:
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._answers: dict[int, asyncio.Future[frames.Frame]] = {}
        self._blobs: asyncio.Queue[Blob | None] = asyncio.Queue()
        self._hello: asyncio.Future[frames.Hello] = self._loop.create_future()
        self._last_request = 0
        self._lost = False
        self._connection = FramedConnection(on_frame=self._take, on_open=lambda: None, on_lost=self._on_lost)

    @classmethod
    async def connect(cls, host: str, port: int, *, node: NodeKey) -> "TcpRelayLink":
        """A link to the relay that *is* `node`; any other answering there is refused."""
        link = cls(node)
        try:
            async with asyncio.timeout(DEADLINE_S):
                await link._loop.create_connection(lambda: link._connection, host, port)
                hello = await link._hello
        except (OSError, TimeoutError) as error:
            link._connection.abort()
            raise TryFailed("the relay does not answer", failure=Failure.CONNECTION_REFUSED) from error
        except asyncio.CancelledError:
            link._connection.abort()  # a caller that gave up leaves no connection behind
            raise
        if hello.node_key != node:
            link._connection.abort()
            raise TryFailed("another node answers at the relay's place", failure=Failure.AUTHENTICATION_FAILED)
        return link

    async def open(self, identity: Identity) -> None:
        """Prove the address, so that the relay hands over its mail on this connection."""
        hello = self._hello.result()
        signature = identity.sign(frames.open_to_sign(hello, identity.address))
        await self._ask(frames.Open(address=identity.address, signature=signature), frames.Opened)

    async def put(self, envelope: bytes) -> Ack:
        stored = await self._ask(frames.Put(envelope=envelope), frames.Stored)
        if not is_delivery_ack_for(stored.ack, node=self._node, sealed=payload_hash(decode_envelope(envelope).sealed)):
            raise TryFailed("the relay's acknowledgement is not its own", failure=Failure.STORAGE_REFUSED)
        return stored.ack

    async def next_blob(self) -> Blob:
        blob = await self._blobs.get()
        if blob is None:
            self._blobs.put_nowait(None)
            raise LinkLost
        return blob

    async def delete(self, blob_id: int) -> None:
        await self._ask(frames.Delete(blob_id=blob_id), frames.Deleted)

    async def close(self) -> None:
        self._connection.abort()

    async def _ask(self, question: frames.Frame, answer: type[Answer]) -> Answer:
        if self._lost:
            raise LinkLost
        self._last_request += 1
        request = self._last_request
        waiting: asyncio.Future[frames.Frame] = self._loop.create_future()
        self._answers[request] = waiting
        try:
            self._connection.send(question, request)
            async with asyncio.timeout(DEADLINE_S):
                got = await waiting
        except TimeoutError as error:
            raise TryFailed("the relay did not answer in time", failure=Failure.NETWORK_TIMEOUT) from error
        finally:
            self._answers.pop(request, None)
        if isinstance(got, frames.Refused):
            raise TryFailed(got.text, failure=_failure_for(got), retry_after_ms=got.retry_after_ms or None)
        if not isinstance(got, answer):
            self._connection.abort()
            raise TryFailed("the relay gave an answer of the wrong kind", failure=Failure.NETWORK_TIMEOUT)
        return got

    def _take(self, request: int, frame: frames.Frame) -> None:
        match frame:
            case frames.Hello() if not self._hello.done():
                self._hello.set_result(frame)
            case frames.Blob():
                self._blobs.put_nowait(
                    Blob(blob_id=frame.blob_id, stored_at_ms=frame.stored_at_ms, envelope=frame.envelope)
                )
            case _ if (waiting := self._answers.get(request)) is not None and not waiting.done():
                waiting.set_result(frame)

    def _on_lost(self) -> None:
        self._lost = True
        self._blobs.put_nowait(None)
        if not self._hello.done():
            self._hello.set_exception(ConnectionResetError("the relay hung up"))
        for waiting in self._answers.values():
            if not waiting.done():
                waiting.set_exception(LinkLost())


def _failure_for(refused: frames.Refused) -> Failure:
    """The failure class a refusal belongs to: by its code, and by whether the relay calls it permanent (SPEC 6.7)."""
    by_code = {
        Code.MESSAGE_TOO_LARGE: Failure.TOO_LARGE,
        Code.RATE_LIMITED: Failure.RATE_LIMITED,
        Code.AUTHENTICATION_FAILED: Failure.AUTHENTICATION_FAILED,
    }
    fallback = Failure.INVALID_FORMAT if refused.permanent else Failure.STORAGE_REFUSED
    return next((failure for code, failure in by_code.items() if code == refused.code), fallback)

"""The dialling end of a connection: executes the effects of `core.link.client_end` on a TLS connection.

Subclasses add what one frame family means: `relay_connection` the mailbox, `mesh_connection` the mesh. The node is
authenticated by its key before any byte of ours is sent.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Final, Generic, Self, TypeVar

from restante.core.link.client_end import ANSWER_TIMEOUT_S, ClientLink
from restante.core.link.messages import (
    CLOSE_REQUESTED,
    Abort,
    Answer,
    BecomeReady,
    ClientSecured,
    Close,
    CloseReason,
    Dispatch,
    Effect,
    ExpireRequests,
    Faulted,
    OpenWindow,
    ReportFault,
    Send,
    WakeAt,
)
from restante.core.link.table import Phase
from restante.model.errors import LocalProtocolError
from restante.model.ids import NodeKey
from restante.policy.connection_limits import RelayLimits
from restante.policy.failures import Failure
from restante.ports.relay_connection import AttemptFailed, ConnectionLost
from restante.runtime.transport.link_connection import LinkConnection
from restante.runtime.transport.tls import client_context, peer_key
from restante.wire.frames import codec

Waiting = TypeVar("Waiting")
Dial = Callable[[asyncio.BufferedProtocol], Awaitable[None]]
"""Opens a byte stream to a node and makes the argument its protocol."""

_FAILURES: Final = {
    CloseReason.WRONG_NODE: (Failure.AUTHENTICATION_FAILED, "another node answers at this endpoint"),
    CloseReason.WRONG_VERSION: (Failure.CONNECTION_REFUSED, "the node speaks only other versions"),
    CloseReason.HANDSHAKE_FAILED: (Failure.TLS_HANDSHAKE_FAILED, "what answers there speaks no TLS 1.3 of ours"),
    CloseReason.HANDSHAKE_TIMEOUT: (Failure.CONNECTION_REFUSED, "the node does not answer"),
}


class OutgoingConnection(LinkConnection, Generic[Waiting]):
    """A connection to the node whose key is `node`. `families` are the frame types that the subclass handles."""

    def __init__(self, node: NodeKey, families: Mapping[int, int], *, limits: RelayLimits) -> None:
        super().__init__(client_context(), server_side=False)
        self.node = node
        self._link: ClientLink[Waiting] = ClientLink(families, node, limits, now_s=self._loop.time())
        self._ready: asyncio.Future[codec.Hello] = self._loop.create_future()
        self._lost = asyncio.Event()
        self._has_room = asyncio.Event()
        self._corked: list[bytes] | None = None

    @classmethod
    async def connect(cls, host: str, port: int, *, node: NodeKey, limits: RelayLimits | None = None) -> Self:
        """Connect to the node whose key is `node`; any other node that answers there is refused."""

        async def dial(connection: asyncio.BufferedProtocol) -> None:
            await asyncio.get_running_loop().create_connection(lambda: connection, host, port)

        return await cls.connect_over(dial, node=node, limits=limits)

    @classmethod
    async def connect_over(
        cls, dial: Dial, *, node: NodeKey, limits: RelayLimits | None = None, within_s: float = ANSWER_TIMEOUT_S
    ) -> Self:
        """Connect over whatever `dial` opens: a socket, or a stream of a circuit."""
        connection = cls._to(node, limits or RelayLimits())
        try:
            async with asyncio.timeout(within_s):
                await dial(connection)
                await connection._ready
        except (OSError, TimeoutError) as error:
            connection.abort()
            raise AttemptFailed("the node does not answer", failure=Failure.CONNECTION_REFUSED) from error
        except BaseException:
            connection.abort()  # a caller that gave up leaves no connection behind
            raise
        return connection

    @classmethod
    @abstractmethod
    def _to(cls, node: NodeKey, limits: RelayLimits) -> Self:
        """Return a new connection to `node` that is not opened yet."""

    @abstractmethod
    def _handle(self, frames: Sequence[codec.RawFrame]) -> None:
        """Handle frames of the family."""

    @abstractmethod
    def _answer(self, waiting: Waiting, frame: codec.Frame) -> None:
        """Give PONG or REFUSED to the caller that waits for it."""

    @abstractmethod
    def _fail(self, waiting: Waiting, error: AttemptFailed) -> None:
        """Tell the caller that no answer will come."""

    @property
    def hello(self) -> codec.Hello:
        """The node's greeting, whose challenge proofs sign."""
        return self._ready.result()

    @property
    def is_ready(self) -> bool:
        """Whether requests can be sent now."""
        return self._link.phase is Phase.READY

    @property
    def remote_ip(self) -> bytes | None:
        """The address that was dialled; None if the connection is lost, or runs over a circuit."""
        peer = None if self.transport is None else self.transport.get_extra_info("peername")
        return None if peer is None else ip_address(peer[0].partition("%")[0]).packed

    async def lost(self) -> None:
        """Return once the connection has ended."""
        await self._lost.wait()

    async def close(self) -> None:
        self._feed(CLOSE_REQUESTED)

    def on_secured(self) -> None:
        self._feed(ClientSecured(peer_key(self.encryption)))

    def on_lost(self) -> None:
        super().on_lost()
        self._lost.set()
        self._has_room.set()
        self._fail_ready(ConnectionResetError("the node closed the connection"))
        for waiting in self._link.requests.close_all():
            self._fail(waiting, ConnectionLost())

    def _execute(self, effects: Sequence[Effect], now_s: float) -> None:  # noqa: ARG002 - a node needs the time
        for effect in effects:
            match effect:
                case Dispatch():
                    self._handle(effect.frames)
                case Answer():
                    self._answer(effect.waiting, effect.frame)
                    self._has_room.set()
                case Send():
                    self.send(effect.raw)
                case WakeAt():
                    self._order_wake(effect.at_s)
                case ExpireRequests():
                    self._expire(effect.waiting)
                case BecomeReady():
                    self._become_ready(effect.hello)
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

    def _expire(self, late: Sequence[Any]) -> None:
        for waiting in late:
            self._fail(waiting, AttemptFailed("the node did not answer in time", failure=Failure.NETWORK_TIMEOUT))
        self._has_room.set()

    def _become_ready(self, hello: codec.Hello) -> None:
        if not self._ready.done():  # else the caller has given up, and aborts the connection in a moment
            self._ready.set_result(hello)

    def _fail_ready(self, error: Exception) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # a caller that gave up waiting does not read it

    def _may_send(self) -> bool:
        return not self._link.requests.is_full and self.can_write and self._link.phase is Phase.READY

    async def _wait_for_room(self) -> None:
        """Return when a further request may be sent."""
        while not self._may_send():
            if self._link.phase is not Phase.READY:
                raise ConnectionLost
            self._has_room.clear()
            await self._has_room.wait()

    def _open_request(self, waiting: Waiting) -> int:
        now_s = self._loop.time()
        number, effects = self._link.open_request(waiting, now_s=now_s)
        if effects:
            self._execute(effects, now_s)
        return number

    def _queue(self, *parts: bytes) -> None:
        """Send what one turn of the loop queues as one piece: that costs less, and the node commits it whole."""
        if self._corked is None:
            self._corked = []
            self._loop.call_soon(self._uncork)
        self._corked += parts

    def _uncork(self) -> None:
        corked, self._corked = self._corked, None
        if corked:
            self.send(b"".join(corked))


def _connect_failure(reason: CloseReason | None) -> Exception:
    if reason not in _FAILURES:
        return ConnectionResetError("the node broke the protocol")
    failure, text = _FAILURES[reason]
    return AttemptFailed(text, failure=failure)

"""One circuit of a client: executes the effects of `core.circuit.client_end` and `client_streams`.

Names where a failure happened (SPEC 11.7): the guard, the middle, the exit, or the node behind it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from restante.core.circuit import client_streams
from restante.core.circuit.client_end import ClientEnd, Hop
from restante.core.circuit.client_streams import ClientStreams
from restante.core.circuit.effects import Built, Deliver, DestroyForward, Effect, Ended, SendForward
from restante.core.circuit.table import Phase
from restante.model.errors import LocalProtocolError
from restante.model.ids import NodeId
from restante.policy.circuits.client_rates import circuit_meter
from restante.policy.circuits.path import Path
from restante.policy.failures import Failure
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed, ConnectionLost
from restante.runtime.transport.circuit_connection import CircuitConnection
from restante.wire.circuit.frames import Create
from restante.wire.circuit.streams import Failed, StoreAnswer, StoreRequest, StreamFailure

HOP_NAMES: Final = ("guard", "middle", "exit")
SHORT_KEY_BYTES: Final = 4
STORE_TIMEOUT_S: Final = 30.0
NO_NODE: Final = NodeId(bytes(32))

_STREAM_FAILURES: Final = {
    StreamFailure.UNKNOWN_NODE: (Failure.NETWORK_TIMEOUT, "the exit {exit} does not know the node"),
    StreamFailure.UNREACHABLE: (Failure.CONNECTION_REFUSED, "the node can't be reached from the exit {exit}"),
    StreamFailure.BUSY: (Failure.STORAGE_REFUSED, "the exit {exit} has no memory for the upload now"),
    StreamFailure.RATE_LIMITED: (Failure.RATE_LIMITED, "the exit {exit} takes no more STOREs for now"),
}


class CircuitFailed(AttemptFailed):
    """A circuit could not be built, has ended or is not free: no node is to blame. `hop` is 1 for the guard, None if no
    hop can be named."""

    def __init__(
        self,
        text: str,
        *,
        hop: int | None = None,
        failure: Failure = Failure.CIRCUIT_BUILD_FAILED,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(text, failure=failure, retry_after_ms=retry_after_ms, reached=False)
        self.hop = hop


class NoHopsLeft(CircuitFailed):
    """The mesh is large enough, but no three hops fit what this circuit must avoid."""


def short_key(node_id: NodeId) -> str:
    """Return what people see of a node."""
    return node_id[:SHORT_KEY_BYTES].hex()


class _Stream:
    """What waits for one stream."""

    def __init__(self) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answers: asyncio.Queue[StoreAnswer | Failed | None] = asyncio.Queue()
        self.on_data: Callable[[bytes, int], None] = lambda _data, _cost: None
        self.on_drained: Callable[[], None] = lambda: None
        self.on_over: Callable[[], None] = lambda: None


class ClientCircuit:
    """Satisfies `runtime.transport.circuit_connection.CircuitUser`.

    `on_freed` is called when a stream has ended, `on_ended` once, when the circuit has.
    """

    def __init__(
        self,
        path: Path,
        connection: CircuitConnection,
        *,
        entropy: Entropy,
        on_freed: Callable[[], None] = lambda: None,
        on_ended: Callable[["ClientCircuit"], None],
    ) -> None:
        self.path = path
        self.hops = tuple(each.node_id for each in path.hops)
        self._connection = connection
        self._on_freed = on_freed
        self._on_ended = on_ended
        hops = [Hop(each.node_id, each.onion_key) for each in path.hops]
        self._end = ClientEnd(hops, entropy=entropy.draw)
        self._streams = ClientStreams()
        self._open: dict[int, _Stream] = {}
        self.built: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self.meter = circuit_meter(self._loop.time())
        self.owed_since_s: float | None = None
        """Since when an answer is owed and nothing has come (`policy.circuits.silence`)."""
        self.is_probed = False
        self.was_cut = False
        """Whether the guard ended it, while the connection to the guard stood."""
        self._id = connection.create(self, Create(1, self._end.first_request))

    @property
    def is_open(self) -> bool:
        return self._end.phase is not Phase.CLOSED

    @property
    def has_guard(self) -> bool:
        """Whether the guard has answered."""
        return self._end.has_guard

    def late(self) -> CircuitFailed:
        """Return at which hop the circuit was not built in time. A guard is not blamed here: the pool pings it."""
        hop = self._end.asked_hop
        name, node = HOP_NAMES[hop - 1], short_key(self.hops[hop - 1])
        return CircuitFailed(f"the {name} {node} did not answer in time", hop=hop if self.has_guard else None)

    @property
    def streams(self) -> int:
        return len(self._streams)

    async def store(self, request: StoreRequest) -> AsyncIterator[StoreAnswer]:
        """Upload once; yield each node's answer as it comes. Raises `AttemptFailed` if the exit refuses."""
        number, effects = self._streams.store(request)
        stream = self._open[number] = _Stream()
        self._run_streams(effects)
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S):
                while (answer := await stream.answers.get()) is not None:
                    if isinstance(answer, Failed):
                        raise self._refused(answer)
                    yield answer
        except TimeoutError:
            raise CircuitFailed("the exit did not answer in time", hop=3, failure=Failure.NETWORK_TIMEOUT) from None
        finally:
            self.close_stream(number)
        if not self.is_open:
            raise ConnectionLost

    async def begin(self, node_id: NodeId) -> tuple[int, _Stream]:
        """Open an inner connection; return its number and what to listen to."""
        number, effects = self._streams.begin(node_id)
        stream = self._open[number] = _Stream()
        self._run_streams(effects)
        try:
            await stream.opened
        except BaseException:
            self.close_stream(number)
            raise
        return number, stream

    def probe(self) -> None:
        """Ask the exit for a node that does not exist: if the circuit works, the exit says so at once."""
        self.is_probed = True
        if not self._streams.is_full:
            number, effects = self._streams.begin(NO_NODE)
            self._open[number] = _Stream()
            self._run_streams(effects)

    def write(self, stream: int, data: bytes) -> bool:
        """Send bytes on an inner connection; return whether more may be written now."""
        if stream in self._open:
            self._run_streams(self._streams.write(stream, data))
        return not self._streams.is_waiting(stream)

    def consumed(self, stream: int, cost: int) -> None:
        self._run_streams(self._streams.consumed(stream, cost))

    def close_stream(self, stream: int) -> None:
        if self._open.pop(stream, None) is not None and self.is_open:
            self._run_streams(self._streams.close(stream))
            self._on_freed()

    def close(self) -> None:
        self._run(self._end.close())

    def on_created(self, answer: bytes) -> None:
        self._run(self._end.guard_answered(answer))

    def on_cell(self, body: bytes) -> None:
        self._run(self._end.received(body))
        self.owed_since_s = self._loop.time() if self._streams.is_owed_an_answer else None
        self.is_probed = False

    def on_destroyed(self) -> None:
        self.was_cut = self._connection.is_ready
        self._run(self._end.destroyed())

    def on_overflow(self) -> None:
        self.close()

    def _run(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case SendForward(body):
                    self._connection.send_cell(self, self._id, body)
                case Deliver(content, cell_class):
                    self._run_streams(self._streams.received(content, cell_class))
                case Built():
                    self.built.set_result(None)
                case DestroyForward():
                    self._connection.destroy(self, self._id)
                case Ended(failed_hop):
                    self._ended(failed_hop)
                case _:
                    raise LocalProtocolError(f"a client has no use for {type(effect).__name__}")

    def _run_streams(self, effects: client_streams.Effects) -> None:
        for effect in effects:
            match effect:
                case client_streams.SendCell(content, cell_class):
                    self._run(self._end.send(content, cell_class))
                    if self.owed_since_s is None and self._streams.is_owed_an_answer:
                        self.owed_since_s = self._loop.time()
                case client_streams.Answered(number, answer) if number in self._open:
                    self._open[number].answers.put_nowait(answer)
                case client_streams.Connected(number) if number in self._open:
                    if not self._open[number].opened.done():
                        self._open[number].opened.set_result(None)
                case client_streams.Received(number, data, cost) if number in self._open:
                    self._open[number].on_data(data, cost)
                case client_streams.Drained(number) if number in self._open:
                    self._open[number].on_drained()
                case client_streams.StreamOver(number, failed) if number in self._open:
                    self._over(self._open.pop(number), failed)
                case client_streams.Break():
                    self.close()

    def _over(self, stream: _Stream, failed: Failed | None) -> None:
        stream.answers.put_nowait(failed)
        if not stream.opened.done():
            error = ConnectionLost() if failed is None else self._refused(failed)
            stream.opened.set_exception(error)
            stream.opened.exception()  # a STORE does not wait for it
        stream.on_over()
        self._on_freed()

    def _refused(self, failed: Failed) -> AttemptFailed:
        failure, text = _STREAM_FAILURES[failed.failure]
        named = text.format(exit=short_key(self.hops[-1]))
        if failed.failure in (StreamFailure.UNKNOWN_NODE, StreamFailure.UNREACHABLE):
            return AttemptFailed(named, failure=failure)
        if failed.failure is StreamFailure.RATE_LIMITED:
            self.meter.empty(self._loop.time())
        return CircuitFailed(named, hop=3, failure=failure, retry_after_ms=failed.retry_after_ms or None)

    def _ended(self, failed_hop: int | None) -> None:
        if not self.built.done():
            name = HOP_NAMES[failed_hop - 1] if failed_hop else "guard"
            node = short_key(self.hops[(failed_hop or 1) - 1])
            self.built.set_exception(CircuitFailed(f"the circuit failed at the {name} {node}", hop=failed_hop))
            self.built.exception()  # a caller that gave up waiting does not read it
        streams, self._open = self._open, {}
        for stream in streams.values():
            self._over(stream, None)
        self._on_ended(self)

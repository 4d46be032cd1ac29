"""The streams of a circuit at its exit: uploads of STORE, inner connections of BEGIN (SPEC 11.6).

Decides what a command leads to; knows no socket. The host executes the effects: it puts to the nodes, dials, writes and
reads, and reports what came of it. A circuit carries either STOREs or inner connections, never both. Whatever breaks
the protocol is `Break`: the host destroys the circuit.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from restante.core.circuit.flow import MAX_STREAMS, Cell, Flow
from restante.core.circuit.stream_table import EXIT_STREAMS, StreamInput, StreamPhase
from restante.model.errors import LocalProtocolError, RestanteError
from restante.model.ids import NODE_ID_BYTES, NodeId, exactly
from restante.policy.circuits.token_bucket import TokenBucket
from restante.wire.circuit.cells import CellClass, CellContent, Command
from restante.wire.circuit.streams import (
    Failed,
    StoreAnswer,
    StoreRequest,
    StreamFailure,
    cell_cost,
    decode_store,
    encode_failed,
    encode_stored,
    store_bytes,
)

STORES_PER_MINUTE: Final = 100  # SPEC 11.2
_MINUTE_S: Final = 60.0


class Reply(NamedTuple):
    """Send this command to the client."""

    content: CellContent
    cell_class: CellClass


class Store(NamedTuple):
    """Put to all nodes of the request at once; report each answer by `answered`."""

    stream: int
    request: StoreRequest


class Dial(NamedTuple):
    """Open a TCP connection to a node of the own directory; report by `connected` or `dial_failed`."""

    stream: int
    node_id: NodeId


class Write(NamedTuple):
    """Write to the node's connection; report by `written` with this cost when the connection takes more."""

    stream: int
    data: bytes
    cost: int


class StopReading(NamedTuple):
    """The client has given no credit: read no more from the node of this stream."""

    stream: int


class StartReading(NamedTuple):
    stream: int


class HangUp(NamedTuple):
    """Close the connection of this stream, if there is one."""

    stream: int


class Break(NamedTuple):
    """The client broke the protocol: destroy the circuit."""


Effect = Reply | Store | Dial | Write | StopReading | StartReading | HangUp | Break
Effects = tuple[Effect, ...]


class ByteBudget:
    """Memory that all circuits of a node share for uploads, until the last node of each has answered."""

    __slots__ = ("_max", "used")

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self.used = 0

    def take(self, size: int) -> bool:
        if self.used + size > self._max:
            return False
        self.used += size
        return True

    def give_back(self, size: int) -> None:
        self.used -= size


class _Stream:
    __slots__ = ("is_stopped", "needed", "phase", "to_answer", "uploaded")

    def __init__(self, phase: StreamPhase) -> None:
        self.phase = phase
        self.uploaded = bytearray()
        self.needed = 0
        self.to_answer = 0
        self.is_stopped = False


class ExitStreams:
    """All streams of one circuit. `now_s` is a clock that never jumps."""

    def __init__(self, budget: ByteBudget, *, now_s: float) -> None:
        self._budget = budget
        self._flow = Flow()
        self._streams: dict[int, _Stream] = {}
        self._left: dict[int, _Stream] = {}
        """STOREs that the client has ended while nodes still had to answer: the host holds the message until then."""
        self._last = 0
        self._kind: Command | None = None
        self._stores = TokenBucket(per_s=STORES_PER_MINUTE / _MINUTE_S, burst=STORES_PER_MINUTE, now_s=now_s)

    @property
    def open_streams(self) -> tuple[int, ...]:
        return tuple(self._streams)

    def phase_of(self, stream: int) -> StreamPhase:
        found = self._streams.get(stream)
        return StreamPhase.ENDED if found is None else found.phase

    def received(self, content: CellContent, cell_class: CellClass, *, now_s: float) -> Effects:
        """A command of the client came."""
        try:
            return self._received(content, cell_class, now_s)
        except LocalProtocolError:
            raise
        except RestanteError:
            return (Break(),)

    def answered(self, stream: int, answer: StoreAnswer) -> Effects:
        """One node of a STORE has answered, or did not in time."""
        if stream in self._left:
            self._answered_late(stream, self._left[stream])
            return ()
        found = self._local(stream, StreamInput.STORED)
        if found is None:
            return ()
        self._flow.queue(Command.STORED, stream, encode_stored(answer))
        found.to_answer -= 1
        if found.to_answer:
            return self._sendable()
        self._flow.queue(Command.END, stream)
        return self._end_after_sending(found)

    def connected(self, stream: int) -> Effects:
        found = self._local(stream, StreamInput.CONNECTED)
        if found is None:
            return ()
        found.phase = StreamPhase.OPEN
        self._flow.queue(Command.CONNECTED, stream)
        return self._sendable()

    def dial_failed(self, stream: int, failure: StreamFailure) -> Effects:
        found = self._local(stream, StreamInput.FAILED)
        return () if found is None else self._refuse(stream, Failed(failure))

    def read(self, stream: int, data: bytes) -> Effects:
        """The node of an inner connection sent bytes."""
        found = self._local(stream, StreamInput.WRITE)
        if found is None:
            return ()
        self._flow.queue(Command.DATA, stream, data)
        effects = self._sendable()
        if self._flow.is_waiting(stream) and not found.is_stopped:
            found.is_stopped = True
            return (*effects, StopReading(stream))
        return effects

    def written(self, stream: int, cost: int) -> Effects:
        """The node's connection took what `Write` gave it."""
        return _replies(self._flow.consumed(stream, cost))

    def hung_up(self, stream: int) -> Effects:
        """The node closed its connection: what it sent before still goes to the client."""
        found = self._local(stream, StreamInput.CLOSE)
        if found is None:
            return ()
        self._flow.queue(Command.END, stream)
        return self._end_after_sending(found)

    def closed(self) -> Effects:
        """The circuit is gone, and with it its puts: hang up everywhere and give back the memory."""
        ended = tuple(HangUp(stream) for stream in self._streams)
        for found in (*self._streams.values(), *self._left.values()):
            self._budget.give_back(found.needed)
        self._streams.clear()
        self._left.clear()
        return ended

    def _received(self, content: CellContent, cell_class: CellClass, now_s: float) -> Effects:
        command, stream, data = content
        if command is Command.CREDIT:
            self._flow.credited(stream, data)
            return self._sendable()
        if command is not Command.END:  # a client ends a stream whatever credit it has: see core.circuit.flow
            self._flow.received(stream, cell_class)
        if command in (Command.STORE, Command.BEGIN):
            return self._begin(content, cell_class, now_s)
        if not 0 < stream <= self._last:
            return (Break(),)
        return self._continue(content, cell_class)

    def _continue(self, content: CellContent, cell_class: CellClass) -> Effects:
        command, stream, data = content
        found = self._streams.get(stream)
        if found is None or (found.phase is StreamPhase.ENDED and command is Command.DATA):  # still under way
            return () if command is Command.END else _replies(self._flow.consumed(stream, cell_cost(cell_class)))
        heard = {Command.DATA: StreamInput.DATA, Command.END: StreamInput.END}.get(command)
        if heard is None or heard not in EXIT_STREAMS[found.phase]:
            return (Break(),)
        if heard is StreamInput.END:
            return self._end(stream, found)
        if found.phase is StreamPhase.OPEN:
            return (Write(stream, data, cell_cost(cell_class)),)
        return self._uploaded(stream, found, data, cell_class)

    def _begin(self, content: CellContent, cell_class: CellClass, now_s: float) -> Effects:
        command, stream, data = content
        if stream <= self._last or self._kind not in (None, command):
            return (Break(),)
        self._last = stream
        self._kind = command
        if len(self._streams) >= MAX_STREAMS:
            return (Break(),)  # the client knows the limit
        self._flow.open(stream)
        spent = cell_cost(cell_class)
        if command is Command.BEGIN:
            node_id = NodeId(exactly(data, NODE_ID_BYTES, "node id of BEGIN"))
            self._streams[stream] = _Stream(StreamPhase.DIALLING)
            return (*_replies(self._flow.consumed(stream, spent)), Dial(stream, node_id))
        found = self._streams[stream] = _Stream(StreamPhase.UPLOADING)
        needed = store_bytes(data)
        if not self._stores.take(1, now_s):
            refused = Failed(StreamFailure.RATE_LIMITED, self._stores.wait_ms(1))
            return (*self._refuse(stream, refused), *_replies(self._flow.consumed(stream, spent)))
        if not self._budget.take(needed):
            refused = Failed(StreamFailure.BUSY)
            return (*self._refuse(stream, refused), *_replies(self._flow.consumed(stream, spent)))
        found.needed = needed
        return self._uploaded(stream, found, data, cell_class)

    def _uploaded(self, stream: int, found: _Stream, data: bytes, cell_class: CellClass) -> Effects:
        found.uploaded += data
        spent = _replies(self._flow.consumed(stream, cell_cost(cell_class)))
        if len(found.uploaded) < found.needed:
            return spent
        request = decode_store(bytes(found.uploaded))  # longer than it says: malformed
        found.uploaded = bytearray()
        found.phase = StreamPhase.STORING
        found.to_answer = len(request.nodes)
        return (*spent, Store(stream, request))

    def _refuse(self, stream: int, failed: Failed) -> Effects:
        self._flow.queue(Command.FAILED, stream, encode_failed(failed))
        return self._end_after_sending(self._streams[stream])

    def _end_after_sending(self, found: _Stream) -> Effects:
        """End a stream whose last cells wait for credit as soon as they are sent."""
        found.phase = StreamPhase.ENDED
        return self._sendable()

    def _end(self, stream: int, found: _Stream) -> Effects:
        if found.to_answer:
            self._left[stream] = found
        else:
            self._budget.give_back(found.needed)
        del self._streams[stream]
        self._flow.close(stream)
        return (HangUp(stream),)

    def _answered_late(self, stream: int, found: _Stream) -> None:
        found.to_answer -= 1
        if not found.to_answer:
            del self._left[stream]
            self._budget.give_back(found.needed)

    def _sendable(self) -> Effects:
        effects: list[Effect] = [Reply(*cell) for cell in self._flow.take()]
        for stream, found in tuple(self._streams.items()):
            if self._flow.is_waiting(stream):
                continue
            if found.phase is StreamPhase.ENDED:
                effects += self._end(stream, found)
            elif found.is_stopped:
                found.is_stopped = False
                effects.append(StartReading(stream))
        return tuple(effects)

    def _local(self, stream: int, happened: StreamInput) -> _Stream | None:
        """Return the stream that the host reports about; None if it ended meanwhile."""
        found = self._streams.get(stream)
        if found is None or found.phase is StreamPhase.ENDED:
            return None
        if happened not in EXIT_STREAMS[found.phase]:
            raise LocalProtocolError(f"{happened} while the stream is {found.phase}")
        return found


def _replies(cells: Iterable[Cell]) -> Effects:
    return tuple(Reply(*cell) for cell in cells)

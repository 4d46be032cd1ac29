"""The streams of a circuit at the client: one upload a STORE, one inner connection a BEGIN (SPEC 11.6).

Decides what may be sent and what an answer means. What an exit says is only passed on: the host verifies receipts, and
the inner connection authenticates its node.
"""

from typing import Final, NamedTuple

from restante.core.circuit.flow import MAX_STREAMS, Cell, Flow
from restante.core.circuit.stream_table import CLIENT_STREAMS, StreamInput, StreamPhase
from restante.model.errors import LocalProtocolError, RestanteError
from restante.model.ids import NodeId
from restante.wire.circuit.cells import CellClass, CellContent, Command
from restante.wire.circuit.streams import (
    Failed,
    StoreAnswer,
    StoreRequest,
    cell_cost,
    decode_failed,
    decode_stored,
    encode_store,
)

MAX_STREAM_NUMBER: Final = 0xFFFF


class SendCell(NamedTuple):
    content: CellContent
    cell_class: CellClass


class Answered(NamedTuple):
    """One node's answer to a STORE, as the exit passed it on."""

    stream: int
    answer: StoreAnswer


class Connected(NamedTuple):
    """The exit has connected to the node of a BEGIN."""

    stream: int


class Received(NamedTuple):
    """Bytes of an inner connection; call `consumed` with the cost when they are used."""

    stream: int
    data: bytes
    cost: int


class Drained(NamedTuple):
    """All that was written to the stream has left: more may be written."""

    stream: int


class StreamOver(NamedTuple):
    """The stream is gone; `failed` says why if the exit could not serve it."""

    stream: int
    failed: Failed | None = None


class Break(NamedTuple):
    """The exit broke the protocol: destroy the circuit."""


Effect = SendCell | Answered | Connected | Received | Drained | StreamOver | Break
Effects = tuple[Effect, ...]

_HEARD: Final = {
    Command.STORED: StreamInput.STORED,
    Command.CONNECTED: StreamInput.CONNECTED,
    Command.DATA: StreamInput.DATA,
    Command.END: StreamInput.END,
    Command.FAILED: StreamInput.FAILED,
}


class ClientStreams:
    """All streams of one circuit."""

    def __init__(self) -> None:
        self._flow = Flow()
        self._phases: dict[int, StreamPhase] = {}
        self._filled: set[int] = set()
        self._unanswered: set[int] = set()
        self._has_asked = False
        self._last = 0
        self._kind: Command | None = None

    def __len__(self) -> int:
        return len(self._phases)

    @property
    def is_full(self) -> bool:
        return len(self._phases) >= MAX_STREAMS or self._last >= MAX_STREAM_NUMBER

    @property
    def is_owed_an_answer(self) -> bool:
        """Whether a STORE has no answer of any node yet, or nothing has come since a BEGIN or bytes of an inner
        connection were sent."""
        return bool(self._unanswered) or self._has_asked

    def phase_of(self, stream: int) -> StreamPhase:
        return self._phases.get(stream, StreamPhase.ENDED)

    def store(self, request: StoreRequest) -> tuple[int, Effects]:
        stream = self._open(Command.STORE, StreamPhase.STORING)
        self._flow.queue(Command.STORE, stream, encode_store(request))
        self._unanswered.add(stream)
        return stream, self._sendable()

    def begin(self, node_id: NodeId) -> tuple[int, Effects]:
        stream = self._open(Command.BEGIN, StreamPhase.DIALLING)
        self._flow.queue(Command.BEGIN, stream, node_id)
        self._has_asked = True
        return stream, self._sendable()

    def write(self, stream: int, data: bytes) -> Effects:
        """Send bytes on an inner connection. `Drained` tells when all of them have left."""
        if not self._is_legal(stream, StreamInput.WRITE):
            return ()
        self._flow.queue(Command.DATA, stream, data)
        self._has_asked = True
        effects = self._sendable()
        if self._flow.is_waiting(stream):
            self._filled.add(stream)
        return effects

    def is_waiting(self, stream: int) -> bool:
        """Return whether written bytes still wait for credit."""
        return self._flow.is_waiting(stream)

    def close(self, stream: int) -> Effects:
        """End a stream. What was written and waits for credit is dropped; END itself needs and costs none.

        If that is all of the stream, the exit has not heard of it, and an END would break the circuit.
        """
        if not self._is_legal(stream, StreamInput.CLOSE):
            return ()
        is_known = self._flow.has_sent(stream)
        self._forget(stream)
        end = (SendCell(CellContent(Command.END, stream), CellClass.SMALL),) if is_known else ()
        return (*end, StreamOver(stream))

    def consumed(self, stream: int, cost: int) -> Effects:
        """The host used what `Received` brought."""
        return tuple(SendCell(*cell) for cell in self._flow.consumed(stream, cost))

    def received(self, content: CellContent, cell_class: CellClass) -> Effects:
        """A command of the exit came."""
        self._has_asked = False
        try:
            return self._received(content, cell_class)
        except LocalProtocolError:
            raise
        except RestanteError:
            return (Break(),)

    def _received(self, content: CellContent, cell_class: CellClass) -> Effects:
        command, stream, data = content
        if command is Command.CREDIT:
            self._flow.credited(stream, data)
            return self._sendable()
        self._flow.received(stream, cell_class)
        heard = _HEARD.get(command)
        if heard is None or not 0 < stream <= self._last:
            return (Break(),)
        phase = self.phase_of(stream)
        if heard not in CLIENT_STREAMS[phase]:
            return (Break(),)
        cost = cell_cost(cell_class)
        if phase is StreamPhase.OPEN and heard is StreamInput.DATA:
            return (Received(stream, data, cost),)
        spent = self.consumed(stream, cost)
        return spent if phase is StreamPhase.ENDED else (*spent, self._report(stream, heard, data))

    def _report(self, stream: int, heard: StreamInput, data: bytes) -> Effect:
        match heard:
            case StreamInput.STORED:
                self._unanswered.discard(stream)
                return Answered(stream, decode_stored(data))
            case StreamInput.CONNECTED:
                self._phases[stream] = StreamPhase.OPEN
                return Connected(stream)
            case StreamInput.FAILED:
                failed = decode_failed(data)
                self._forget(stream)
                return StreamOver(stream, failed)
            case _:
                self._forget(stream)
                return StreamOver(stream)

    def _open(self, kind: Command, phase: StreamPhase) -> int:
        if self.is_full:
            raise LocalProtocolError(f"a circuit has at most {MAX_STREAMS} open streams")
        if self._kind not in (None, kind):
            raise LocalProtocolError("a circuit carries STOREs or inner connections, never both")
        self._kind = kind
        self._last += 1
        self._phases[self._last] = phase
        self._flow.open(self._last)
        return self._last

    def _forget(self, stream: int) -> None:
        del self._phases[stream]
        self._filled.discard(stream)
        self._unanswered.discard(stream)
        self._flow.close(stream)

    def _sendable(self) -> Effects:
        sent: list[Cell] = self._flow.take()
        drained = [each for each in self._filled if not self._flow.is_waiting(each)]
        self._filled.difference_update(drained)
        return (*(SendCell(*cell) for cell in sent), *map(Drained, drained))

    def _is_legal(self, stream: int, happened: StreamInput) -> bool:
        """Return whether the stream still exists. Raise for a call that its phase does not allow."""
        phase = self.phase_of(stream)
        if happened not in CLIENT_STREAMS[phase]:
            raise LocalProtocolError(f"{happened} while the stream is {phase}")
        return phase is not StreamPhase.ENDED

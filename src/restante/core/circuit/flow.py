"""Flow control of one end of a circuit: what may be sent now, and which credits to give (SPEC 11.5, NETWORK 4).

A stream may have 256 KiB under way in each direction, a circuit 512 KiB, counted in whole cells. Credits travel inside
the layers, so only the other end can give them. Streams take turns, one cell each. CREDIT costs nothing. END of the
client neither, so that a stream whose window is used up can be ended: both ends leave it out of the count. END of the
exit follows what the node sent, and costs as much as any cell.
"""

from collections import deque
from typing import Final

from restante.model.error_codes import Code
from restante.model.errors import RemoteProtocolError
from restante.wire.circuit.cells import CellClass, CellContent, Command
from restante.wire.circuit.streams import cell_cost, decode_credit, encode_credit, split_into_cells

STREAM_WINDOW: Final = 262_144
CIRCUIT_WINDOW: Final = 524_288
CREDIT_AFTER: Final = 2
"""A credit is given when one half of a window is used."""
MAX_STREAMS: Final = 8
"""Open streams of one circuit."""
_CIRCUIT: Final = 0

Cell = tuple[CellContent, CellClass]


class _Window:
    """One stream or the whole circuit, both directions."""

    __slots__ = ("consumed", "has_sent", "may_receive", "may_send", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.may_send = size
        self.may_receive = size
        self.consumed = 0
        self.has_sent = False


class Flow:
    """The windows and the queue of cells that wait for credit."""

    def __init__(self) -> None:
        self._circuit = _Window(CIRCUIT_WINDOW)
        self._streams: dict[int, _Window] = {}
        self._waiting: dict[int, deque[Cell]] = {}

    def open(self, stream: int) -> None:
        self._streams[stream] = _Window(STREAM_WINDOW)

    def close(self, stream: int) -> None:
        """Forget a stream and what it still had to send."""
        self._streams.pop(stream, None)
        self._waiting.pop(stream, None)

    def queue(self, command: Command, stream: int, data: bytes = b"") -> None:
        """Queue the cells of one piece of data of an open stream."""
        self._waiting.setdefault(stream, deque()).extend(split_into_cells(command, stream, data))

    def is_waiting(self, stream: int) -> bool:
        """Return whether cells of the stream wait for credit."""
        return bool(self._waiting.get(stream))

    def has_sent(self, stream: int) -> bool:
        """Return whether a cell of an open stream has left: before that the other end knows nothing of it."""
        return self._streams[stream].has_sent

    def take(self) -> list[Cell]:
        """Return the cells that may be sent now, one of each stream in turn.

        No stream begins before an older one: the exit takes their numbers in that order only.
        """
        taken: list[Cell] = []
        blocked: set[int] = set()
        may_begin = True
        while len(blocked) < len(self._waiting):
            stream = next(each for each in self._waiting if each not in blocked)
            queue = self._waiting.pop(stream)
            cost = cell_cost(queue[0][1])
            window = self._streams[stream]
            may_send = window.has_sent or may_begin
            if not may_send or cost > window.may_send or cost > self._circuit.may_send:
                may_begin = may_begin and window.has_sent
                blocked.add(stream)
                self._waiting[stream] = queue
                continue
            window.may_send -= cost
            window.has_sent = True
            self._circuit.may_send -= cost
            taken.append(queue.popleft())
            if queue:
                self._waiting[stream] = queue  # to the end of the turn
        return taken

    def credited(self, stream: int, data: bytes) -> None:
        """The other end gave credit. More than was used breaks the protocol."""
        window = self._circuit if stream == _CIRCUIT else self._streams.get(stream)
        if window is None:
            return  # of a stream that this end has closed
        window.may_send += decode_credit(data)
        if window.may_send > window.size:
            raise RemoteProtocolError("the other end gives more credit than was used", code=Code.MALFORMED)

    def received(self, stream: int, cell_class: CellClass) -> None:
        """A cell came. One that no credit covers breaks the protocol."""
        cost = cell_cost(cell_class)
        window = self._streams.get(stream)
        self._circuit.may_receive -= cost
        if window is not None:
            window.may_receive -= cost
        if self._circuit.may_receive < 0 or (window is not None and window.may_receive < 0):
            raise RemoteProtocolError("the other end sends more than its credit", code=Code.MALFORMED)

    def consumed(self, stream: int, cost: int) -> list[Cell]:
        """What arrived was used; return the credits to send. A stream that is closed gets none, the circuit does."""
        given: list[Cell] = []
        for number, window in ((stream, self._streams.get(stream)), (_CIRCUIT, self._circuit)):
            if window is None:
                continue
            window.consumed += cost
            if window.consumed * CREDIT_AFTER >= window.size:
                content = CellContent(Command.CREDIT, number, encode_credit(window.consumed))
                given.append((content, CellClass.SMALL))
                window.may_receive += window.consumed
                window.consumed = 0
        return given

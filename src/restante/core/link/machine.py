"""What both ends of a link share: phases by table, flow control, deadlines and the dispatch of frames to families.

A machine has no clock and no socket. The host feeds events with the time of a clock that never jumps, and executes the
returned effects in order. Whatever is not in the end's table changes nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final

from restante.core.link.messages import (
    Abort,
    ClientSecured,
    Close,
    CloseReason,
    Dispatch,
    Effect,
    Event,
    Faulted,
    FramesReceived,
    NodeSecured,
    OpenWindow,
    ReportFault,
    Send,
    Signal,
    StartReading,
    StopReading,
    WakeAt,
)
from restante.core.link.table import REMOTE, Input, Phase, Table
from restante.model.error_codes import Code
from restante.model.errors import LocalProtocolError, RemoteProtocolError, RestanteError
from restante.wire.frames import codec
from restante.wire.frames.types import FrameType

LINGER_S: Final = 2.0
"""How long a closing connection may take to write its last bytes."""

_INPUTS: Final[Mapping[int, Input]] = {
    FrameType.HELLO: Input.HELLO,
    FrameType.START: Input.START,
    FrameType.PING: Input.PING,
    FrameType.PONG: Input.PONG,
    FrameType.REFUSED: Input.REFUSED,
}


class Link(ABC):
    """One end of a link. `families` maps each frame type this end may receive to the number of its family."""

    def __init__(self, table: Table, families: Mapping[int, int], *, now_s: float) -> None:
        self._table = table
        self._families = families
        self.phase = Phase.CONNECTING
        self._allowed: frozenset[Phase] = frozenset()
        self.heard_s = now_s
        self.began_s = now_s
        self.hello: codec.Hello | None = None
        self._blocked_since_s: float | None = None
        self._partial_since_s: float | None = None
        self._closing_since_s = now_s
        self._is_held = False
        self._is_reading = True
        self._wake_at_s: float | None = None

    def handle(self, event: Event, *, now_s: float) -> list[Effect]:
        """Advance by one event. Raises `LocalProtocolError` if the table forbids a local event in this phase."""
        effects: list[Effect] = []
        match event:
            case FramesReceived():
                self._receive(event, effects, now_s)
            case Faulted():
                self._check(Input.FAULT)
                self._fault(event.error, effects, now_s)
            case NodeSecured() | ClientSecured():
                self._check(Input.SECURED)
                self._secured(event, effects, now_s)
            case Signal():
                self._check(event.input)
                self._signal(event.input, effects, now_s)
        self._order_timer(effects)
        return effects

    @abstractmethod
    def due_s(self) -> float | None:
        """Return the next deadline of the phase and the flow-control state; None if there is none."""

    @abstractmethod
    def _secured(self, event: NodeSecured | ClientSecured, effects: list[Effect], now_s: float) -> None: ...

    @abstractmethod
    def _link_frame(self, frame: codec.RawFrame, effects: list[Effect], now_s: float) -> None:
        """Handle a legal frame that belongs to no family."""

    @abstractmethod
    def _illegal_frame(self, frame: codec.RawFrame, error: RemoteProtocolError, effects: list[Effect]) -> bool:
        """Order what follows a frame that the table forbids; return whether the frames after it count."""

    @abstractmethod
    def _fault(self, error: RestanteError, effects: list[Effect], now_s: float) -> None: ...

    @abstractmethod
    def _pass_deadline(self, effects: list[Effect], now_s: float) -> None:
        """Order what the deadline that has passed demands."""

    def _receive(self, event: FramesReceived, effects: list[Effect], now_s: float) -> None:
        if self.phase in (Phase.CLOSING, Phase.CLOSED):
            return
        if event.frames:
            self.heard_s = now_s
        if not event.partial_bytes:
            self._partial_since_s = None
        elif event.frames or self._partial_since_s is None:  # its first byte came just now
            self._partial_since_s = now_s
        family_of, current = self._families.get, None
        kinds = {frame[0] for frame in event.frames}
        if len(kinds) == 1 and self.phase is Phase.READY and (family := family_of(kinds.pop())) is not None:
            effects.append(Dispatch(family, event.frames))  # the usual case: a run of puts or blobs
            return
        run: list[codec.RawFrame] = []
        for frame in event.frames:
            family = family_of(frame.type)
            if family is not None and self.phase is Phase.READY:
                if family != current:
                    current, run = family, []
                    effects.append(Dispatch(family, run))
                run.append(frame)
                continue
            current = None
            if not self._take(frame, family, effects, now_s):
                return

    def _take(self, frame: codec.RawFrame, family: int | None, effects: list[Effect], now_s: float) -> bool:
        """Handle one frame that is no family's business now; return whether the frames after it count."""
        received = Input.FAMILY if family is not None else _INPUTS.get(frame.type, Input.UNKNOWN)
        try:
            self._check(received)
        except RemoteProtocolError as error:
            return self._illegal_frame(frame, error, effects)
        try:
            self._link_frame(frame, effects, now_s)
        except RestanteError as error:
            effects.append(ReportFault(error))
            return False
        return self.phase in (Phase.GREETING, Phase.READY)

    def _signal(self, received: Input, effects: list[Effect], now_s: float) -> None:
        match received:
            case Input.TIME_PASSED:
                self._wake_at_s = None
                due_s = self.due_s()
                if due_s is not None and due_s <= now_s:
                    self._pass_deadline(effects, now_s)
            case Input.CLOSE_REQUESTED:
                self._close(effects, now_s)
            case Input.LOST:
                self._move(Phase.CLOSED)
            case Input.WRITE_BLOCKED:
                self._blocked_since_s = now_s
            case Input.WRITE_RESUMED:
                self._blocked_since_s = None
                effects.append(OpenWindow())
            case Input.READING_PAUSED:
                self._is_held = True
            case Input.READING_RESUMED:
                self._is_held = False
            case _:  # SECURED and frames carry data: they are events of their own
                raise LocalProtocolError(f"{received} needs an event with data")
        self._order_reading(effects, now_s)

    def _close(self, effects: list[Effect], now_s: float, reason: CloseReason | None = None) -> None:
        """End the link, with the last bytes if TLS is established; in a phase that ends already, do nothing."""
        if self.phase is Phase.CONNECTING:
            self._abort(effects, reason)
        elif self.phase not in (Phase.CLOSING, Phase.CLOSED):
            self._move(Phase.CLOSING)
            self._closing_since_s = now_s
            effects.append(Close(reason))

    def _abort(self, effects: list[Effect], reason: CloseReason | None = None) -> None:
        if self.phase is not Phase.CLOSED:
            self._move(Phase.CLOSED)
            effects.append(Abort(reason))

    def _move(self, to: Phase) -> None:
        if to not in self._allowed:
            raise LocalProtocolError(f"the table of the link does not allow {self.phase} to become {to}")
        self.phase = to

    def _check(self, received: Input) -> None:
        """Raise if the table does not list `received` in this phase."""
        allowed = self._table[self.phase].get(received)
        if allowed is not None:
            self._allowed = allowed
            return
        text = f"{received} is not allowed while the connection is {self.phase}"
        if received in REMOTE:
            raise RemoteProtocolError(text, code=Code.ILLEGAL_TRANSITION)
        raise LocalProtocolError(text)

    def _order_reading(self, effects: list[Effect], now_s: float) -> None:
        """A peer that does not read is not read from either: its requests would only add answers to the buffer."""
        should_read = not self._is_held and self._blocked_since_s is None
        if should_read == self._is_reading or self.phase in (Phase.CLOSING, Phase.CLOSED):
            return
        self._is_reading = should_read
        if should_read:
            self.heard_s = now_s  # its silence was our doing
            if self._partial_since_s is not None:
                self._partial_since_s = now_s
        effects.append(StartReading() if should_read else StopReading())

    def _order_timer(self, effects: list[Effect]) -> None:
        """Order a timer for the next deadline, unless an earlier one is ordered: then that one orders the next."""
        due_s = self.due_s()
        if due_s is not None and (self._wake_at_s is None or due_s < self._wake_at_s):
            self._wake_at_s = due_s
            effects.append(WakeAt(due_s))


def pong(request: int) -> Send:
    """Answer a PING."""
    return Send(codec.encode_frame(codec.Pong(), request))


def earliest(times_s: Sequence[float | None]) -> float | None:
    return min((at_s for at_s in times_s if at_s is not None), default=None)

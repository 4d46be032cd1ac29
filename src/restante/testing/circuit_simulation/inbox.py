"""What a simulated client shows to its application: hosts core/receiving, as runtime/sqlite/inbox does.

Every arrival passes the real rules: fingerprints, verdicts, sequence numbers, the reorder buffer. Only the keys are not
simulated: `decrypt` returns what the sender wrote.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from restante.core import inbox
from restante.core.decrypted_messages import DecryptedMessage
from restante.core.deduplication import Fingerprint, header_of, message_key
from restante.core.inbox import InboxSession
from restante.core.inbox_events import Hold, RecordGap, Release, TimePassed
from restante.core.peer_sessions import PeerSessions
from restante.core.receiving import Arrival, Effect, Record, Remember, receive
from restante.model.ids import Address
from restante.policy.reorder_limits import OrderLimits
from restante.testing.mesh_simulation.engine import Engine

_LIMITS = OrderLimits()


@dataclass(slots=True)
class _Session:
    """One session with one sender."""

    order: InboxSession = field(default_factory=InboxSession)
    peer: PeerSessions = field(default_factory=PeerSessions)
    buffered: dict[int, DecryptedMessage] = field(default_factory=dict)


class SimulatedInbox:
    """`show` gets each message that is released, and whether it is marked as late."""

    def __init__(self, engine: Engine, show: Callable[[DecryptedMessage, bool], None]) -> None:
        self.verdicts: Counter[str] = Counter()
        self.gaps = 0
        self._engine = engine
        self._show = show
        self._sessions: dict[Address, _Session] = {}
        self._known: dict[bytes, list[Fingerprint]] = {}

    def arrived(self, message: DecryptedMessage) -> None:
        session = self._sessions.setdefault(message.sender, _Session())
        known = self._known.setdefault(message_key(message.sender, message.message_id), [])
        result = receive(
            Arrival(header_of(message), 0, False, known),
            session.order,
            session.peer,
            decrypt=lambda: message,
            now_ms=self._engine.now_ms,
            limits=_LIMITS,
        )
        session.order, session.peer = result.order, result.peer
        for effect in result.effects:
            match effect:
                case Record(code):
                    self.verdicts[code.value] += 1
                case Remember(fingerprint):
                    known.append(fingerprint)
                case _:
                    self._execute(session, effect, message)
        self._wake(session)

    def _execute(self, session: _Session, effect: Effect, arrival: DecryptedMessage | None) -> None:
        match effect:
            case Hold(sequence) if arrival is not None:
                session.buffered[sequence] = arrival
            case Release(sequence, is_late):
                is_arrival = arrival is not None and arrival.sequence == sequence
                message = arrival if is_arrival and arrival is not None else session.buffered.pop(sequence)
                self._show(message, is_late)
            case RecordGap():
                self.gaps += 1

    def _wake(self, session: _Session) -> None:
        at_ms = inbox.next_wake_ms(session.order, limits=_LIMITS)
        if at_ms is not None:
            self._engine.at(at_ms, partial(self._time_passed, session))

    def _time_passed(self, session: _Session) -> None:
        """Skip gaps that are old. The request for what is missing is not simulated: its sender tries on anyway."""
        session.order, effects = inbox.step(session.order, TimePassed(), now_ms=self._engine.now_ms, limits=_LIMITS)
        for effect in effects:
            self._execute(session, effect, None)

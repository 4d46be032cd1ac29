"""A writer and a reader with a bad network between them: sessions, retransmit requests and resets, without keys.

The writer is plain rules over a list; the reader is the SQLite inbox. Envelopes lie on the network until they are lost.
"""

from dataclasses import dataclass
from pathlib import Path

from restante.core.decrypted_messages import DecryptedMessage
from restante.core.inbox_events import AskReset, ResetReason
from restante.core.retransmit import SentMessage, plan_retransmit
from restante.core.session_reset import Move, Numbered, Standing, on_reset, to_reseal
from restante.model.ids import MessageId, SessionId
from restante.model.kinds import Kind
from restante.model.states import State
from restante.policy.reorder_limits import OrderLimits
from restante.policy.settings import Settings
from restante.runtime.sqlite.inbox.results import Asked, InboxEvent, ReceiveResult
from restante.testing.deterministic import FakeClock
from restante.wire.acks import AckType
from restante.wire.control_messages import RetransmitRequest, SessionReset, decode_control, encode_session_reset
from support.inbox.decrypted_messages import ALICE, letter
from support.sqlite.files import NOW_MS, open_client_file

SETTINGS = Settings(order=OrderLimits(max_gap=6))


@dataclass(frozen=True, slots=True, kw_only=True)
class Written(Numbered):
    number: int
    envelope: DecryptedMessage


class Writer:
    """Numbers, seals and keeps its messages until each has a receipt."""

    def __init__(self) -> None:
        self.standing = Standing(current=self._session(0))
        self.sessions = 1
        self.next_sequence = 0
        self.numbers = 0
        self.kept: list[Written] = []
        self.sent: list[bytes] = []

    def write(self) -> DecryptedMessage:
        number, self.numbers = self.numbers, self.numbers + 1
        envelope = self._seal(number)
        self.sent.append(envelope.body)
        self._keep(number, envelope)
        return envelope

    def reset(self, old: SessionId, reason: ResetReason) -> list[DecryptedMessage]:
        """A new session in place of the one we send in: the reset first, then all without a receipt."""
        if old != self.standing.current:
            return []  # the request is older than the session we are in
        self.standing = Standing(current=self._session(self.sessions), replaced=old)
        assert on_reset(Standing(current=old), old=old, new=self.standing.current) is Move.ADOPT
        self.sessions += 1
        self.next_sequence = 0
        body = encode_session_reset(SessionReset(old=old, reason=reason))
        number, self.numbers = self.numbers, self.numbers + 1
        made = [self._seal(number, kind=Kind.CONTROL, body=body)]
        waiting = to_reseal(self.kept, session=self.standing.current)
        self.kept = [one for one in self.kept if one not in waiting]
        for one in waiting:
            made.append(self._seal(one.number))
            self._keep(one.number, made[-1])
        return made

    def retransmit(self, request: RetransmitRequest, *, now_ms: int) -> list[DecryptedMessage]:
        held = [one for one in self.kept if one.session_id == request.session_id]
        entries = [
            SentMessage(message_id=one.message_id, sequence=one.sequence, state=one.state, last_attempt_at_ms=None)
            for one in held
        ]
        again = plan_retransmit(request, entries, now_ms=now_ms).resend
        return [one.envelope for one in held if one.message_id in again]

    def receipted(self, ids: tuple[MessageId, ...]) -> None:
        self.kept = [one for one in self.kept if one.message_id not in ids]

    @staticmethod
    def _session(number: int) -> SessionId:
        return SessionId(bytes([number + 1]) * 32)

    def _seal(self, number: int, *, kind: Kind = Kind.TEXT, body: bytes | None = None) -> DecryptedMessage:
        sequence, self.next_sequence = self.next_sequence, self.next_sequence + 1
        # A year to live: this is about order, not about expiry.
        return letter(
            number, sequence=sequence, session=self.standing.current, kind=kind, body=body, ttl_s=365 * 86_400
        )

    def _keep(self, number: int, envelope: DecryptedMessage) -> None:
        self.kept.append(
            Written(
                message_id=envelope.message_id,
                session_id=envelope.session_id,
                sequence=envelope.sequence,
                state=State.SENT,
                number=number,
                envelope=envelope,
            )
        )


class Reader:
    """The inbox in a file, with a life between two crashes."""

    def __init__(self, path: Path, clock: FakeClock) -> None:
        self._path = path
        self._clock = clock
        self._lives = 0
        self.changes: list[InboxEvent] = []
        self.asks: list[Asked] = []
        self._open()

    def _open(self) -> None:
        self._lives += 1
        self.file = open_client_file(self._path, settings=SETTINGS, seed=self._lives)
        self.file.database.run("PRAGMA synchronous = OFF")  # a crash here is one between two transactions

    def crash(self) -> None:
        self.file.database.close()
        self._open()

    def receive(self, envelopes: list[DecryptedMessage]) -> None:
        with self.file.database.transaction():
            with self.file.inbox.batch(now_ms=self._clock.now_ms()) as batch:
                arrivals = [batch.receive(envelope, server_timestamp_ms=NOW_MS) for envelope in envelopes]
            self._follow(arrivals)
        self._listen()

    def pass_time(self) -> None:
        with self.file.database.transaction():
            self._follow(self.file.inbox.pass_time(now_ms=self._clock.now_ms()))
        self._listen()

    def receipts(self) -> tuple[MessageId, ...]:
        return self.file.inbox.take_owed(ALICE, limit=64, type_=AckType.RECEIPT)

    def _listen(self) -> None:
        self.changes += self.file.inbox.take_changes()

    def _follow(self, arrivals: list[ReceiveResult]) -> None:
        for arrival in arrivals:
            self.asks += arrival.asks
            for control in arrival.control:
                reset = decode_control(control.body)
                assert isinstance(reset, SessionReset)
                with self.file.inbox.batch(now_ms=self._clock.now_ms()) as batch:
                    ended = batch.continue_session(control.sender, old=reset.old, new=control.session_id)
                self._follow([ended])


class Peers:
    def __init__(self, path: Path) -> None:
        self.clock = FakeClock(NOW_MS)
        self.writer = Writer()
        self.reader = Reader(path, self.clock)
        self.network: list[DecryptedMessage] = []

    def answer_asks(self) -> None:
        """What the reader asked for reaches the writer."""
        asks, self.reader.asks = self.reader.asks, []
        for ask in asks:
            if isinstance(ask.what, AskReset):
                self.network += self.writer.reset(ask.session_id, ask.what.reason)
            else:
                request = RetransmitRequest(session_id=ask.session_id, first=ask.what.first, last=ask.what.last)
                self.network += self.writer.retransmit(request, now_ms=self.clock.now_ms())

    def acknowledge(self) -> None:
        while ids := self.reader.receipts():
            self.writer.receipted(ids)

    def settle(self) -> None:
        """The network heals: what has no receipt is stored again until it has one."""
        for _ in range(40):
            self.reader.receive(self.network)
            self.network = []
            self.answer_asks()
            self.acknowledge()
            self.clock.advance(SETTINGS.order.gap_timeout_ms)
            self.reader.pass_time()
            if not (self.writer.kept or self.network or self.reader.asks):
                return
            self.network += [one.envelope for one in self.writer.kept]
        raise AssertionError("messages without a receipt are left")

    def forged(self, envelope: DecryptedMessage, *, new_id: bool) -> DecryptedMessage:
        """Other bytes under a known id, or a used number under a new one."""
        number, self.writer.numbers = self.writer.numbers, self.writer.numbers + 1
        known = envelope
        made = letter(
            number, sequence=known.sequence, session=known.session_id, body=b"forged", sealed=b"forged %d" % number
        )
        return made if new_id else made._replace(message_id=known.message_id)

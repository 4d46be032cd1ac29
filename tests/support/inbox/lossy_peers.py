"""A sender and a recipient with a bad network between them: sessions and retransmit requests, without keys.

The sender is plain rules over a list; the recipient is the SQLite inbox. Envelopes lie on the network until they are
lost. The sender may go on in another session and encrypt again there what has no receipt.
"""

from dataclasses import dataclass
from pathlib import Path

from restante.core.decrypted_messages import DecryptedMessage
from restante.core.retransmit import SentMessage, plan_retransmit
from restante.model.ids import MessageId, SessionId
from restante.model.kinds import Kind
from restante.model.states import State
from restante.policy.reorder_limits import OrderLimits
from restante.policy.settings import Settings
from restante.runtime.sqlite.inbox.results import Asked, InboxEvent
from restante.testing.deterministic import FakeClock
from restante.wire.acks import AckType
from restante.wire.control_messages import RetransmitRequest, encode_lost
from support.inbox.decrypted_messages import ALICE, letter
from support.sqlite.files import NOW_MS, open_client_file

SETTINGS = Settings(order=OrderLimits(max_gap=6))


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    message_id: MessageId
    session_id: SessionId
    sequence: int
    state: State
    number: int
    envelope: DecryptedMessage


class Sender:
    """Numbers and encrypts its messages and keeps each until it has a receipt."""

    def __init__(self) -> None:
        self.current = self._session(0)
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

    def change_session(self) -> list[DecryptedMessage]:
        """Go on in a new session: a control message first, then all without a receipt, encrypted again."""
        self.current = self._session(self.sessions)
        self.sessions += 1
        self.next_sequence = 0
        number, self.numbers = self.numbers, self.numbers + 1
        made = [self._seal(number, kind=Kind.CONTROL, body=encode_lost())]
        waiting, self.kept = self.kept, []
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
        return letter(number, sequence=sequence, session=self.current, kind=kind, body=body, ttl_s=365 * 86_400)

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


class Recipient:
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
        with self.file.inbox.batch(now_ms=self._clock.now_ms()) as batch:
            arrivals = [batch.receive_decrypted(envelope, server_timestamp_ms=NOW_MS) for envelope in envelopes]
        for arrival in arrivals:
            self.asks += arrival.asks
        self._listen()

    def pass_time(self) -> None:
        self.asks += self.file.inbox.pass_time(now_ms=self._clock.now_ms())
        self._listen()

    def receipts(self) -> tuple[MessageId, ...]:
        return self.file.inbox.take_owed(ALICE, limit=64, now_ms=self._clock.now_ms(), type_=AckType.RECEIPT)

    def _listen(self) -> None:
        self.changes += self.file.inbox.take_changes()


class Peers:
    def __init__(self, path: Path) -> None:
        self.clock = FakeClock(NOW_MS)
        self.sender = Sender()
        self.recipient = Recipient(path, self.clock)
        self.network: list[DecryptedMessage] = []

    def answer_asks(self) -> None:
        """What the recipient asked for reaches the sender."""
        asks, self.recipient.asks = self.recipient.asks, []
        for ask in asks:
            request = RetransmitRequest(session_id=ask.session_id, first=ask.what.first, last=ask.what.last)
            self.network += self.sender.retransmit(request, now_ms=self.clock.now_ms())

    def acknowledge(self) -> None:
        while ids := self.recipient.receipts():
            self.sender.receipted(ids)

    def settle(self) -> None:
        """The network heals: what has no receipt is stored again until it has one."""
        for _ in range(60):
            self.recipient.receive(self.network)
            self.network = []
            self.answer_asks()
            self.acknowledge()
            self.clock.advance(6 * 3_600_000)  # gaps end, and acks of duplicates leave
            self.recipient.pass_time()
            if not (self.sender.kept or self.network or self.recipient.asks):
                return
            self.network += [one.envelope for one in self.sender.kept]
        raise AssertionError("messages without a receipt are left")

    def forged(self, envelope: DecryptedMessage, *, new_id: bool) -> DecryptedMessage:
        """Other bytes under a known id, or a used number under a new one."""
        number, self.sender.numbers = self.sender.numbers, self.sender.numbers + 1
        known = envelope
        made = letter(
            number, sequence=known.sequence, session=known.session_id, body=b"forged", sealed=b"forged %d" % number
        )
        return made if new_id else made._replace(message_id=known.message_id)

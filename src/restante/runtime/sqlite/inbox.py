"""The receiving side in SQLite: verdict, order and storage of an arrival in one transaction (SPEC 9.3)."""

from dataclasses import dataclass
from typing import Any, Final

from restante.core.inbox import SessionOrder, place, verdict_after_opening, verdict_before_opening
from restante.core.letters import Opened, dedup_key
from restante.crypto.at_rest import NONCE_BYTES, StorageSeal
from restante.crypto.tags import session_tag
from restante.model.ids import Address, MessageId, PayloadHash, SessionId
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from restante.model.records import InboxEntry
from restante.model.states import Verdict
from restante.policy.acks import AckBatching, batch_due_at_ms
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.database import Database, load_queries
from restante.runtime.sqlite.journal import Journal
from restante.wire.letter import Letter

_SQL: Final = load_queries("inbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedBatch:
    """Receipts to one sender, and when they are to leave."""

    sender: Address
    due_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """A control message whose turn has come."""

    sender: Address
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """What an arrival was, and the control messages it let through; those are for us, not for the application."""

    verdict: Verdict
    control: tuple[Released, ...]


class SqliteInbox:
    """Messages that arrived for one client. Methods may be called inside a wider transaction."""

    def __init__(
        self, database: Database, journal: Journal, *, seal: StorageSeal, entropy: Entropy, tag_secret: bytes
    ) -> None:
        self._database = database
        self._journal = journal
        self._seal = seal
        self._entropy = entropy
        self._tag_secret = tag_secret

    def take_in(self, opened: Opened, *, server_timestamp_ms: int, now_ms: int) -> Arrival:
        """Judge, record and place one arrival. Whatever came is acknowledged again, except an attack (SPEC 9.1)."""
        letter = opened.letter
        control: tuple[Released, ...] = ()
        with self._database.transaction():
            order = self._order(letter)
            verdict = self._judge(opened, order)
            self._journal_arrival(JournalKind.ARRIVED, opened, code=verdict, now_ms=now_ms)
            match verdict:
                case Verdict.NEW:
                    self._remember(opened, now_ms)
                    self._add(letter, server_timestamp_ms, now_ms)
                    control = self._release(letter, order, now_ms)
                    self._owe_receipt(letter, now_ms)
                case Verdict.DUPLICATE:
                    self._owe_receipt(letter, now_ms)
                case Verdict.COLLISION | Verdict.REPLAY:
                    self._journal_arrival(JournalKind.SECURITY, opened, code=verdict, now_ms=now_ms)
        return Arrival(verdict=verdict, control=control)

    def released(self, *, after: int, limit: int) -> list[tuple[int, InboxEntry]]:
        """Messages for the application, in order, each with its place."""
        return [self._entry(row) for row in self._database.run(_SQL["released_after"], after=after, limit=limit)]

    def owed(self, batching: AckBatching) -> list[OwedBatch]:
        """To whom receipts are owed, and when each batch is due (SPEC 10.5)."""
        return [
            OwedBatch(sender=Address(sender), due_at_ms=due)
            for sender, count, oldest in self._database.run(_SQL["owed_receipts"])
            if (due := batch_due_at_ms(batching, count=count, oldest_at_ms=oldest)) is not None
        ]

    def take_owed(self, sender: Address, *, limit: int) -> tuple[MessageId, ...]:
        """The receipts of one batch, settled by the transaction that queues it."""
        rows = self._database.run(_SQL["take_owed"], sender=sender, limit=limit)
        unique = tuple(dict.fromkeys(MessageId(message_id) for (message_id,) in rows))
        for message_id in unique:
            self._database.run(_SQL["mark_acked"], sender=sender, message_id=message_id)
        return unique

    def _entry(self, row: tuple[Any, ...]) -> tuple[int, InboxEntry]:
        """A row of `released_after`. STRICT tables make the types of its columns certain."""
        (place_number, message_id, sender, session, sequence, sealed, received_at_ms, server_timestamp_ms,
         ack_sent, first_read_at_ms) = row  # fmt: skip
        return place_number, InboxEntry(
            message_id=MessageId(message_id),
            sender=Address(sender),
            session_id=SessionId(session),
            sequence_number=sequence,
            plaintext=self._seal.open(sealed, context=message_id),
            received_at_ms=received_at_ms,
            server_timestamp_ms=server_timestamp_ms,
            ack_sent=bool(ack_sent),
            first_read_at_ms=first_read_at_ms,
        )

    def _judge(self, opened: Opened, order: SessionOrder) -> Verdict:
        letter = opened.letter
        key = dedup_key(letter.sender, letter.session_id, letter.message_id)
        rows = self._database.run(_SQL["known_hash"], dedup_key=key)
        known = PayloadHash(rows[0][0]) if rows else None
        early = verdict_before_opening(known=known, arrived=opened.payload_hash)
        return early or verdict_after_opening(order, letter.sequence)

    def _order(self, letter: Letter) -> SessionOrder:
        session = {"sender": letter.sender, "session_id": letter.session_id}
        rows = self._database.run(_SQL["expected"], **session)
        expected = int(rows[0][0]) if rows else 0
        waiting = self._database.run(_SQL["waiting"], expected=expected, **session)
        return SessionOrder(expected=expected, waiting=frozenset(number for (number,) in waiting))

    def _remember(self, opened: Opened, now_ms: int) -> None:
        letter = opened.letter
        self._database.run(
            _SQL["remember"],
            dedup_key=dedup_key(letter.sender, letter.session_id, letter.message_id),
            payload_hash=opened.payload_hash,
            seen_at_ms=now_ms,
        )

    def _add(self, letter: Letter, server_timestamp_ms: int, now_ms: int) -> None:
        nonce = self._entropy.draw(NONCE_BYTES)
        self._database.run(
            _SQL["add_message"],
            message_id=letter.message_id,
            sender=letter.sender,
            session_id=letter.session_id,
            sequence_number=letter.sequence,
            kind=letter.kind,
            sealed_plaintext=self._seal.close(letter.body, nonce=nonce, context=letter.message_id),
            received_at_ms=now_ms,
            server_timestamp_ms=server_timestamp_ms,
        )

    def _release(self, letter: Letter, order: SessionOrder, now_ms: int) -> tuple[Released, ...]:
        session = {"sender": letter.sender, "session_id": letter.session_id}
        placement = place(order, letter.sequence)
        self._database.run(_SQL["advance_session"], expected=placement.order.expected, **session)
        tag = session_tag(self._tag_secret, letter.session_id)
        control = []
        for sequence in placement.released:
            [(message_id, kind, sealed, received_at_ms)] = self._database.run(
                _SQL["release"], sequence_number=sequence, **session
            )
            self._journal.append(
                JournalKind.RELEASED,
                at_ms=now_ms,
                message_id=MessageId(message_id),
                session_tag=tag,
                sequence=sequence,
                message_kind=Kind(kind),
                latency_ms=max(0, now_ms - received_at_ms),
            )
            if kind == Kind.CONTROL:
                body = self._seal.open(sealed, context=message_id)
                control.append(Released(sender=letter.sender, body=body))
        return tuple(control)

    def _owe_receipt(self, letter: Letter, now_ms: int) -> None:
        if letter.kind is Kind.CONTROL:
            return  # an acknowledgement is not acknowledged
        self._database.run(_SQL["owe_receipt"], message_id=letter.message_id, sender=letter.sender, since_ms=now_ms)

    def _journal_arrival(self, kind: JournalKind, opened: Opened, *, code: str, now_ms: int) -> None:
        letter = opened.letter
        self._journal.append(
            kind,
            at_ms=now_ms,
            message_id=letter.message_id,
            session_tag=session_tag(self._tag_secret, letter.session_id),
            sequence=letter.sequence,
            payload_hash=opened.payload_hash,
            size_bytes=opened.envelope_bytes,  # never the body's own: padding hides that (SPEC 2.9)
            message_kind=letter.kind,
            code=code,
            ttl_s=opened.header.ttl_s,
        )

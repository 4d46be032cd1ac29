"""Arrivals that share a transaction: core/receiving decides on each, and this module executes its effects (SPEC 9.3).

Fingerprints, pending acks and journal events are written as they come; sessions, totals and released messages once,
when the batch ends. Nothing that a peer sends makes a batch fail.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from restante.core.decrypted_messages import DecryptedMessage
from restante.core.deduplication import Fingerprint, UnsealedHeader, header_of, message_key
from restante.core.inbox import step
from restante.core.inbox_events import (
    Discard,
    Hold,
    InboxEventType,
    RecordGap,
    Release,
    RequestRetransmit,
    TimePassed,
)
from restante.core.peer_sessions import PeerSessions
from restante.core.receiving import (
    Acknowledge,
    AcknowledgeAgain,
    ActOnControl,
    AdvanceSession,
    Arrival,
    CannotDecrypt,
    Effect,
    Record,
    RefreshFingerprint,
    Remember,
    Suspect,
    receive,
)
from restante.crypto.journal_tags import session_tag
from restante.model.error_codes import Code
from restante.model.errors import LocalProtocolError
from restante.model.ids import Address, MessageId, SessionId
from restante.model.journal import JournalKind
from restante.model.states import Verdict
from restante.policy.ack_batching import again_delay_ms, may_acknowledge_again
from restante.policy.reorder_limits import OrderLimits
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.file.journal import ArrivedEvent, Journal, ReleasedEvent
from restante.runtime.sqlite.inbox.dedup_index import DedupIndex, KnownArrival
from restante.runtime.sqlite.inbox.messages import MessageTable, ReleasedMessage, TakenMessage, taken_from
from restante.runtime.sqlite.inbox.pending_acks import PendingAcks
from restante.runtime.sqlite.inbox.reorder_state import KeptSession, SessionTable
from restante.runtime.sqlite.inbox.results import Asked, InboxEvent, ReceiveResult
from restante.wire.acks import AckType

_SQL: Final = load_queries("inbox/store")
_SAVE_TOTALS: Final = _SQL["save_totals"]
# By names of their own: a member of an enum is looked up through its class each time, which shows in a batch.
_NEW: Final = Verdict.NEW
_DUPLICATE: Final = Verdict.DUPLICATE
_NEW_MESSAGE: Final = InboxEventType.NEW_MESSAGE
_RECEIPT: Final = AckType.RECEIPT
_NO_SESSIONS: Final = PeerSessions()
_NONE_KNOWN: Final[tuple[Fingerprint, ...]] = ()


@dataclass(slots=True, kw_only=True)
class Totals:
    """Numbers given so far, and the entries of the dedup cache."""

    arrivals: int
    places: int
    turns: int
    seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """What every batch of one file works with."""

    database: Database
    journal: Journal
    seen: DedupIndex
    owed: PendingAcks
    sessions: SessionTable
    messages: MessageTable
    tag_secret: bytes
    limits: OrderLimits
    entropy: Entropy


@dataclass(slots=True)
class _AtHand:
    """The arrival that effects are executed for, and what came of it so far."""

    kept: KeptSession
    header: UnsealedHeader
    opened: DecryptedMessage | None
    key: bytes
    known: list[KnownArrival]
    server_timestamp_ms: int
    verdict: Verdict | None = None
    is_read: bool = False
    is_held: bool = False
    control: DecryptedMessage | None = None


class ReceiveBatch:
    """To be used inside one transaction, and ended with `finish`."""

    def __init__(self, tables: Tables, *, now_ms: int) -> None:
        self._tables = tables
        self._now_ms = now_ms
        self._sessions: dict[tuple[Address, SessionId], KeptSession] = {}
        self._asks: list[Asked] = []
        self._handed_on: list[ReleasedMessage] = []
        self.changes: list[InboxEvent] = []
        [values] = tables.database.rows(_SQL["totals"])
        self._totals = Totals(arrivals=values[0], places=values[1], turns=values[2], seen=values[3])
        self._saved = replace(self._totals)
        tables.seen.look_anew()

    def expect(self, arrivals: Iterable[tuple[Address, MessageId]]) -> None:
        """Look up these messages at once, which costs a third of looking them up one by one."""
        self._tables.seen.look_up([message_key(sender, message_id) for sender, message_id in arrivals])

    def receive(
        self,
        header: UnsealedHeader,
        *,
        decrypt: Callable[[], DecryptedMessage | CannotDecrypt],
        server_timestamp_ms: int,
        peer: PeerSessions = _NO_SESSIONS,
        generation: int = 1,
        has_opening: bool = False,
    ) -> ReceiveResult:
        """Let core/receiving decide on one arrival with a valid sender tag, and execute the effects in this file.

        What concerns keys and other messages is returned: the caller executes it in the same transaction.
        """
        key = message_key(header.sender, header.message_id)
        known = self._tables.seen.find(key, now_ms=self._now_ms)
        kept = self._session(header.sender, header.session_id)
        received = receive(
            Arrival(header, generation, has_opening, [one.mark for one in known] if known else _NONE_KNOWN),
            kept.state,
            peer,
            decrypt=decrypt,
            now_ms=self._now_ms,
            limits=self._tables.limits,
        )
        kept.state = received.order
        self._totals.arrivals += 1
        at_hand = _AtHand(kept, header, received.opened, key, known, server_timestamp_ms)
        for effect in received.effects:
            self._execute(at_hand, effect)
        asks, self._asks = tuple(self._asks), []
        return ReceiveResult(
            at_hand.verdict, received.peer, at_hand.is_read, at_hand.control, asks, received.peer_effects
        )

    def receive_decrypted(self, opened: DecryptedMessage, *, server_timestamp_ms: int) -> ReceiveResult:
        """Receive an arrival that is decrypted already."""
        return self.receive(header_of(opened), decrypt=lambda: opened, server_timestamp_ms=server_timestamp_ms)

    def pass_time(self, sender: Address, session_id: SessionId) -> tuple[Asked, ...]:
        """Skip the gaps of a session that are old enough; return what is to be requested again."""
        kept = self._session(sender, session_id)
        kept.state, effects = step(kept.state, TimePassed(), now_ms=self._now_ms, limits=self._tables.limits)
        for effect in effects:
            self._carry_out(kept, effect)
        asks, self._asks = tuple(self._asks), []
        return asks

    def owe_read(self, sender: Address, message_id: MessageId) -> None:
        self._totals.arrivals += 1
        self._tables.owed.owe(self._totals.arrivals, AckType.READ, sender, message_id, since_ms=self._now_ms)

    def forget_old(self) -> int:
        """Entries of the dedup cache past their window."""
        gone = self._tables.seen.sweep(now_ms=self._now_ms)
        self._totals.seen -= gone
        return gone

    def finish(self) -> None:
        """Write down messages, sessions and totals; what no longer fits the dedup cache is forgotten, visibly."""
        self._tables.messages.add(self._handed_on)
        for kept in self._sessions.values():
            self._tables.sessions.save(kept)
        pushed = self._tables.seen.push_out(self._totals.seen, now_ms=self._now_ms)
        self._totals.seen -= pushed.entries
        if pushed.early:
            self._tables.journal.append(
                JournalKind.DEDUP_EVICTED, at_ms=self._now_ms, code="dedup_full", latency_ms=pushed.youngest_age_ms
            )
            self.changes.append(
                InboxEvent(
                    notice=InboxEventType.DEDUP_EVICTED, at_ms=self._now_ms, code="dedup_full", how_many=pushed.early
                )
            )
        totals = self._totals
        if totals != self._saved:
            self._tables.database.defer(_SAVE_TOTALS, (totals.arrivals, totals.places, totals.turns, totals.seen))

    def _session(self, sender: Address, session_id: SessionId) -> KeptSession:
        kept = self._sessions.get((sender, session_id))
        if kept is None:
            tag = session_tag(self._tables.tag_secret, session_id)
            kept = self._sessions[sender, session_id] = self._tables.sessions.load(sender, session_id, tag)
        return kept

    def _execute(self, at_hand: "_AtHand", effect: Effect) -> None:
        kept, header, opened = at_hand.kept, at_hand.header, at_hand.opened
        match effect:
            case Record(code):
                at_hand.verdict = code if isinstance(code, Verdict) else None
                self._recorded(kept, header, opened, code)
            case Suspect(code):
                self._suspect(kept, header, opened, code)
            case Remember(fingerprint):
                self._totals.turns += 1
                self._totals.seen += 1
                self._tables.seen.remember(self._totals.turns, at_hand.key, fingerprint, now_ms=self._now_ms)
            case Acknowledge():
                self._tables.owed.owe(
                    self._totals.arrivals, _RECEIPT, header.sender, header.message_id, since_ms=self._now_ms
                )
            case AdvanceSession():
                at_hand.is_read = True
            case ActOnControl():
                at_hand.control = opened
            case Release() if at_hand.verdict is _NEW and not at_hand.is_held and _is_number(effect, opened):
                # Before the verdict, this number may be that of a buffered message: a gap has just ended.
                self._release(kept, effect, self._taken(at_hand))
            case Hold(sequence, is_placeholder):
                at_hand.is_held = True
                row = self._tables.sessions.ensure_row(kept)
                self._tables.messages.hold(row, sequence, self._taken(at_hand), is_placeholder=is_placeholder)
            case RefreshFingerprint(session, payload):
                [again, *_] = [one for one in at_hand.known if one.mark[:2] == (session, payload)]
                self._totals.turns += 1
                self._tables.seen.touch(at_hand.key, again, self._totals.turns, now_ms=self._now_ms)
            case AcknowledgeAgain():
                self._acknowledge_again(at_hand)
            case _:
                self._carry_out(kept, effect)

    def _acknowledge_again(self, at_hand: "_AtHand") -> None:
        """Owe another receipt after a random delay, unless one was owed within a day (SPEC 10.3)."""
        known = self._tables.seen.find(at_hand.key, now_ms=self._now_ms)
        marks = [one for one in known if one.mark.is_acknowledged]
        if not marks or not may_acknowledge_again(max(one.acked_again_at_ms for one in marks), now_ms=self._now_ms):
            return
        delay_ms = again_delay_ms(self._tables.entropy.dice())
        self._tables.seen.acked_again(at_hand.key, marks[0], now_ms=self._now_ms)
        self._tables.owed.owe(
            self._totals.arrivals,
            _RECEIPT,
            at_hand.header.sender,
            at_hand.header.message_id,
            since_ms=self._now_ms + delay_ms,
        )

    def _taken(self, at_hand: "_AtHand") -> TakenMessage:
        if at_hand.opened is None:
            raise LocalProtocolError("a message that was not decrypted can't be stored")
        return taken_from(
            at_hand.opened,
            arrival=self._totals.arrivals,
            server_timestamp_ms=at_hand.server_timestamp_ms,
            now_ms=self._now_ms,
        )

    def _recorded(
        self, kept: KeptSession, outside: UnsealedHeader, opened: DecryptedMessage | None, code: Verdict | Code
    ) -> None:
        self._arrived(kept, outside, opened, code=code)
        if code is not _NEW and code is not _DUPLICATE:
            self._suspect(kept, outside, opened, code)

    def _suspect(
        self, kept: KeptSession, outside: UnsealedHeader, opened: DecryptedMessage | None, code: Verdict | Code
    ) -> None:
        self._tables.journal.append(
            JournalKind.SECURITY,
            at_ms=self._now_ms,
            message_id=outside.message_id,
            session_tag=kept.tag,
            sequence=None if opened is None else opened.sequence,
            payload_hash=outside.payload_hash,
            size_bytes=outside.envelope_bytes,
            message_kind=None if opened is None else opened.kind,
            code=code,
            ttl_s=None if opened is None else opened.header.ttl_s,
        )
        self._tell(InboxEventType.SECURITY, kept, message_id=outside.message_id, code=code)

    def _arrived(
        self, kept: KeptSession, outside: UnsealedHeader, opened: DecryptedMessage | None, *, code: str
    ) -> None:
        # The envelope's size, never the body's own: padding hides that (SPEC 2.9).
        _, _, message_id, payload_hash, envelope_bytes = outside
        sequence = kind = ttl_s = None
        if opened is not None:
            sequence, kind, ttl_s = opened.sequence, opened.kind, opened.header.ttl_s
        fact = ArrivedEvent(message_id, kept.tag, sequence, payload_hash, envelope_bytes, kind, code, ttl_s)
        self._tables.journal.append_arrived(fact, self._now_ms)

    def _tell(self, notice: InboxEventType, kept: KeptSession, **details: Any) -> None:
        self.changes.append(
            InboxEvent(notice=notice, at_ms=self._now_ms, sender=kept.sender, session_id=kept.session_id, **details)
        )

    def _carry_out(self, kept: KeptSession, effect: Effect) -> None:
        """Execute an effect on the session or its buffered messages."""
        journal, now_ms = self._tables.journal, self._now_ms
        match effect:
            case Release():
                self._release(kept, effect, self._tables.messages.take(kept.row, effect.sequence))
            case Discard(sequence):
                self._tables.messages.discard(kept.row, sequence)
            case RecordGap(first, last):
                journal.append(
                    JournalKind.GAP_SKIPPED, at_ms=now_ms, session_tag=kept.tag, sequence=first, last_sequence=last
                )
                self._tell(InboxEventType.GAP, kept, code=f"{first}_through_{last}", how_many=last + 1 - first)
            case RequestRetransmit(first, last):
                journal.append(
                    JournalKind.RETRANSMIT_REQUESTED,
                    at_ms=now_ms,
                    session_tag=kept.tag,
                    sequence=first,
                    last_sequence=last,
                )
                self._asks.append(Asked(sender=kept.sender, session_id=kept.session_id, what=effect))

    def _release(self, kept: KeptSession, effect: Release, message: TakenMessage) -> None:
        waited_ms = max(0, self._now_ms - message.received_at_ms)
        reason = "late" if effect.is_late else None
        self._tables.journal.append_released(
            ReleasedEvent(message.message_id, kept.tag, effect.sequence, message.kind, reason, waited_ms),
            self._now_ms,
        )
        self._totals.places += 1
        place = self._totals.places
        row = self._tables.sessions.ensure_row(kept)
        self._handed_on.append((place, row, effect.sequence, message, effect.is_late))
        self.changes.append(
            InboxEvent(
                _NEW_MESSAGE,
                self._now_ms,
                kept.sender,
                kept.session_id,
                message.message_id,
                place,
                effect.is_late,
            )
        )


def _is_number(effect: Release, opened: DecryptedMessage | None) -> bool:
    return opened is not None and effect.sequence == opened.sequence

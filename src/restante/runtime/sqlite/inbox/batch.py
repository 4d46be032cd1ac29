"""Arrivals that share a transaction: each is judged, recorded and placed as if it were alone (SPEC 9.3).

Marks, debts and facts are written as they come; sessions, totals and what was handed on once, when the batch ends.
Nothing that a peer sends makes a batch fail.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from restante.core.decrypted_messages import DecryptedMessage
from restante.core.deduplication import (
    Fingerprint,
    UnsealedHeader,
    classify_before_decryption,
    content_fingerprint,
    known_in_other_session,
    message_key,
    payload_fingerprint,
    session_fingerprint,
)
from restante.core.inbox import step
from restante.core.inbox_events import (
    Arrived,
    AskReset,
    Discard,
    Effect,
    Event,
    Hold,
    InboxEventType,
    KnownInOtherSession,
    RecordGap,
    RecordVerdict,
    Refuse,
    Release,
    RequestRetransmit,
    ResetAgreed,
    ResetReason,
    SessionFailed,
    TimePassed,
)
from restante.crypto.journal_tags import session_tag
from restante.model.error_codes import Code
from restante.model.ids import Address, MessageId, SessionId
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from restante.model.states import Verdict
from restante.policy.reorder_limits import OrderLimits
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.file.journal import ArrivedEvent, Journal, ReleasedEvent
from restante.runtime.sqlite.inbox.dedup_index import DedupIndex, Remembered
from restante.runtime.sqlite.inbox.messages import MessageTable, ReleasedMessage, TakenMessage, taken_from
from restante.runtime.sqlite.inbox.pending_acks import PendingAcks
from restante.runtime.sqlite.inbox.reorder_state import KeptSession, SessionTable
from restante.runtime.sqlite.inbox.results import Asked, InboxEvent, ReceiveResult, Released
from restante.wire.acks import AckType

_SQL: Final = load_queries("inbox/store")
# By names of their own: a member of an enum is looked up through its class each time, which shows in a batch.
_NEW: Final = Verdict.NEW
_DUPLICATE: Final = Verdict.DUPLICATE
_ATTACKS: Final = frozenset({Verdict.COLLISION, Verdict.REPLAY})
_CONTROL: Final = Kind.CONTROL
_NEW_MESSAGE: Final = InboxEventType.NEW_MESSAGE
_RECEIPT: Final = AckType.RECEIPT


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


class ReceiveBatch:
    """To be used inside one transaction, and ended with `finish`."""

    def __init__(self, tables: Tables, *, now_ms: int) -> None:
        self._tables = tables
        self._now_ms = now_ms
        self._sessions: dict[tuple[Address, SessionId], KeptSession] = {}
        self._control: list[Released] = []
        self._asks: list[Asked] = []
        self._handed_on: list[ReleasedMessage] = []
        self.changes: list[InboxEvent] = []
        [values] = tables.database.rows(_SQL["totals"])
        self._totals = Totals(arrivals=values[0], places=values[1], turns=values[2], seen=values[3])
        self._saved = replace(self._totals)
        self._unrecognised: tuple[UnsealedHeader, bytes, list[Remembered]] | None = None
        tables.seen.look_anew()

    def expect(self, arrivals: Iterable[tuple[Address, MessageId]]) -> None:
        """Messages of these senders will be asked about: looking all of them up at once costs a third."""
        self._tables.seen.look_up([message_key(sender, message_id) for sender, message_id in arrivals])

    def record_if_known(self, outside: UnsealedHeader) -> Verdict | None:
        """The verdict that needs no key, with its consequences; None when the message has to be opened to tell."""
        key = message_key(outside.sender, outside.message_id)
        verdict, known = self._recognise(outside, key, None)
        self._unrecognised = (outside, key, known) if verdict is None else None
        return verdict

    def replayed(self, outside: UnsealedHeader) -> None:
        """Its session says that the key to open it was used before (SPEC 9.1)."""
        kept = self._session(outside.sender, outside.session_id)
        self._totals.arrivals += 1
        self._judged(kept, outside, None, Verdict.REPLAY)

    def receive(self, opened: DecryptedMessage, *, server_timestamp_ms: int) -> ReceiveResult:
        """RecordVerdict, record and place one arrival. What `recognise` was just asked about is not looked up again."""
        header, message_id, sender, session_id, number, kind, body, payload_hash, envelope_bytes = opened
        told = (sender, session_id, message_id, payload_hash, envelope_bytes)
        if self._unrecognised is not None and self._unrecognised[0] == told:
            outside, key, known = self._unrecognised
        else:
            outside = UnsealedHeader(*told)
            key = message_key(sender, message_id)
            early, known = self._recognise(outside, key, opened)
            if early is not None:
                return ReceiveResult(verdict=early)
        self._unrecognised = None
        mark = Fingerprint(
            session_fingerprint(sender, session_id, message_id),
            payload_fingerprint(payload_hash),
            content_fingerprint(header, kind, body),
            kind is not _CONTROL,
        )
        elsewhere = KnownInOtherSession.UNKNOWN
        if known:
            elsewhere = known_in_other_session((one.mark for one in known), session=mark.session, content=mark.content)
        self._totals.arrivals += 1
        kept = self._session(sender, session_id)
        verdict = None
        for effect in self._step(kept, Arrived(number, elsewhere)):
            match effect:
                case RecordVerdict():
                    verdict = effect.verdict
                    self._judged(kept, outside, opened, verdict)
                    if verdict is _NEW or verdict is _DUPLICATE:
                        self._remember(key, mark)
                        self._owe_receipt(sender, message_id, mark)
                case Release() if verdict is _NEW and effect.sequence == number:
                    # Before the verdict, this number may be that of a message which waited: a gap has just ended.
                    self._release(kept, effect, self._taken(opened, server_timestamp_ms))
                case Refuse():
                    self._arrived(kept, outside, opened, code=Code.SESSION_INVALID)
                case Hold(sequence, is_void):
                    message = self._taken(opened, server_timestamp_ms)
                    self._tables.messages.hold(kept.row, sequence, message, is_void=is_void)
                case _:
                    self._carry_out(kept, effect)
        return self._taken_in(verdict)

    def pass_time(self, sender: Address, session_id: SessionId) -> ReceiveResult:
        return self._happen(sender, session_id, TimePassed())

    def fail_session(self, sender: Address, session_id: SessionId, reason: ResetReason) -> ReceiveResult:
        """It cannot be read any more, or somebody wants a new one."""
        return self._happen(sender, session_id, SessionFailed(reason=reason))

    def continue_session(self, sender: Address, *, old: SessionId, new: SessionId) -> ReceiveResult:
        """The sender said in `new` that it takes the place of `old` (SPEC 8.7)."""
        result = self._happen(sender, old, ResetAgreed())
        self._tables.journal.append(
            JournalKind.SESSION_CONTINUED,
            at_ms=self._now_ms,
            session_tag=self._session(sender, new).tag,
            previous_session_tag=self._session(sender, old).tag,
        )
        self._tell(InboxEventType.SESSION_RESET, self._session(sender, old), code="agreed")
        return result

    def owe_read(self, sender: Address, message_id: MessageId) -> None:
        self._totals.arrivals += 1
        self._tables.owed.owe(self._totals.arrivals, AckType.READ, sender, message_id, now_ms=self._now_ms)

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
            self._tables.database.rows(_SQL["save_totals"], totals.arrivals, totals.places, totals.turns, totals.seen)

    def _happen(self, sender: Address, session_id: SessionId, event: Event) -> ReceiveResult:
        kept = self._session(sender, session_id)
        for effect in self._step(kept, event):
            self._carry_out(kept, effect)
        return self._taken_in(None)

    def _taken_in(self, verdict: Verdict | None) -> ReceiveResult:
        if not self._control and not self._asks:
            return ReceiveResult(verdict)
        control, self._control = tuple(self._control), []
        asks, self._asks = tuple(self._asks), []
        return ReceiveResult(verdict, control, asks)

    def _session(self, sender: Address, session_id: SessionId) -> KeptSession:
        kept = self._sessions.get((sender, session_id))
        if kept is None:
            tag = session_tag(self._tables.tag_secret, session_id)
            kept = self._sessions[sender, session_id] = self._tables.sessions.load(sender, session_id, tag)
        return kept

    def _step(self, kept: KeptSession, event: Event) -> tuple[Effect, ...]:
        kept.state, effects = step(kept.state, event, now_ms=self._now_ms, limits=self._tables.limits)
        return effects

    def _taken(self, opened: DecryptedMessage, server_timestamp_ms: int) -> TakenMessage:
        return taken_from(
            opened, arrival=self._totals.arrivals, server_timestamp_ms=server_timestamp_ms, now_ms=self._now_ms
        )

    def _recognise(
        self, outside: UnsealedHeader, key: bytes, opened: DecryptedMessage | None
    ) -> tuple[Verdict | None, list[Remembered]]:
        known = self._tables.seen.find(key, now_ms=self._now_ms)
        if not known:
            return None, known
        session = session_fingerprint(outside.sender, outside.session_id, outside.message_id)
        payload = payload_fingerprint(outside.payload_hash)
        verdict = classify_before_decryption((one.mark for one in known), session=session, payload=payload)
        if verdict is None:
            return None, known
        self._totals.arrivals += 1
        self._judged(self._session(outside.sender, outside.session_id), outside, opened, verdict)
        if verdict is Verdict.DUPLICATE:
            [again, *_] = [one for one in known if (one.mark.session, one.mark.payload) == (session, payload)]
            self._totals.turns += 1
            self._tables.seen.touch(key, again, self._totals.turns, now_ms=self._now_ms)
            self._owe_receipt(outside.sender, outside.message_id, again.mark)
        return verdict, known

    def _remember(self, key: bytes, mark: Fingerprint) -> None:
        self._totals.turns += 1
        self._totals.seen += 1
        self._tables.seen.remember(self._totals.turns, key, mark, now_ms=self._now_ms)

    def _owe_receipt(self, sender: Address, message_id: MessageId, mark: Fingerprint) -> None:
        if mark.is_acknowledged:
            self._tables.owed.owe(self._totals.arrivals, _RECEIPT, sender, message_id, now_ms=self._now_ms)

    def _judged(
        self, kept: KeptSession, outside: UnsealedHeader, opened: DecryptedMessage | None, verdict: Verdict
    ) -> None:
        self._arrived(kept, outside, opened, code=verdict)
        if verdict in _ATTACKS:
            self._tables.journal.append(
                JournalKind.SECURITY,
                at_ms=self._now_ms,
                message_id=outside.message_id,
                session_tag=kept.tag,
                sequence=None if opened is None else opened.sequence,
                payload_hash=outside.payload_hash,
                size_bytes=outside.envelope_bytes,
                message_kind=None if opened is None else opened.kind,
                code=verdict,
                ttl_s=None if opened is None else opened.header.ttl_s,
            )
            self._tell(InboxEventType.SECURITY, kept, message_id=outside.message_id, code=verdict)

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
        """What concerns the session or what waits in it, not the arrival at hand."""
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
            case AskReset(reason):
                code = reason.name.lower()
                journal.append(JournalKind.SESSION_RESET, at_ms=now_ms, session_tag=kept.tag, code=code)
                self._tell(InboxEventType.SESSION_RESET, kept, code=code)
                self._asks.append(Asked(sender=kept.sender, session_id=kept.session_id, what=effect))

    def _release(self, kept: KeptSession, effect: Release, message: TakenMessage) -> None:
        waited_ms = max(0, self._now_ms - message.received_at_ms)
        reason = "late" if effect.is_late else None
        self._tables.journal.append_released(
            ReleasedEvent(message.message_id, kept.tag, effect.sequence, message.kind, reason, waited_ms),
            self._now_ms,
        )
        if message.kind is _CONTROL:
            self._control.append(Released(sender=kept.sender, session_id=kept.session_id, body=message.body))
            return
        self._totals.places += 1
        place = self._totals.places
        self._handed_on.append((place, kept.row, effect.sequence, message, effect.is_late))
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

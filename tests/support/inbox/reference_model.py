"""The inbox as SPEC has it, in plain lists: what every host of core/inbox must be equal to.

No index, no totals, no cache of sessions: each question is answered by looking at everything.
"""

from dataclasses import dataclass, field, replace

from restante.core.decrypted_messages import DecryptedMessage
from restante.core.deduplication import (
    Fingerprint,
    classify_before_decryption,
    content_fingerprint,
    known_in_other_session,
    message_key,
    payload_fingerprint,
    session_fingerprint,
)
from restante.core.inbox import InboxSession, next_wake_ms, step
from restante.core.inbox_events import (
    Arrived,
    Effect,
    Event,
    Hold,
    InboxEventType,
    RecordGap,
    RecordVerdict,
    Refuse,
    Release,
    RequestRetransmit,
    TimePassed,
)
from restante.model.error_codes import Code
from restante.model.ids import Address, MessageId, SessionId
from restante.model.kinds import Kind, TtlType
from restante.model.states import Verdict
from restante.policy.settings import Settings
from restante.wire.acks import AckType

Who = tuple[Address, SessionId]
Told = tuple[InboxEventType, str | None]


@dataclass(kw_only=True)
class Kept:
    """A message that waits, or was handed on at `place`."""

    opened: DecryptedMessage
    received_at_ms: int
    place: int | None = None
    is_late: bool = False
    first_read_at_ms: int | None = None

    def expires_at_ms(self) -> int | None:
        header = self.opened.header
        if header.ttl_type is TtlType.ABSOLUTE:
            return header.created_at_ms + header.ttl_s * 1_000
        return None if self.first_read_at_ms is None else self.first_read_at_ms + header.ttl_s * 1_000

    def is_alive(self, now_ms: int) -> bool:
        end_ms = self.expires_at_ms()
        return end_ms is None or now_ms < end_ms


@dataclass(kw_only=True)
class InboxModel:
    settings: Settings
    sessions: dict[Who, InboxSession] = field(default_factory=dict)
    seen: list[tuple[bytes, Fingerprint, int]] = field(default_factory=list)
    """Key, mark and when last seen; the most recent at the end."""
    held: dict[tuple[Address, SessionId, int], Kept] = field(default_factory=dict)
    handed_on: list[Kept] = field(default_factory=list)
    places: int = 0
    owed: list[tuple[AckType, Address, MessageId]] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    control: list[bytes] = field(default_factory=list)
    asks: list[tuple[Who, RequestRetransmit]] = field(default_factory=list)

    def receive(self, opened: DecryptedMessage, *, now_ms: int) -> Verdict | None:
        letter = opened
        key = message_key(letter.sender, letter.message_id)
        mark = Fingerprint(
            session_fingerprint(letter.sender, letter.session_id, letter.message_id),
            payload_fingerprint(opened.payload_hash),
            content_fingerprint(opened.header, letter.kind, letter.body),
            letter.kind is not Kind.CONTROL,
        )
        window_ms = self.settings.dedup.window_ms
        marks = [old for its_key, old, at_ms in self.seen if its_key == key and now_ms < at_ms + window_ms]
        verdict = classify_before_decryption(marks, session=mark.session, payload=mark.payload)
        if verdict is not None:
            return self._judged(verdict, opened, key, mark, now_ms)
        elsewhere = known_in_other_session(marks, session=mark.session, content=mark.content)
        who = (letter.sender, letter.session_id)
        kept = Kept(opened=opened, received_at_ms=now_ms)
        is_control = letter.kind is Kind.CONTROL
        for effect in self._step(who, Arrived(letter.sequence, elsewhere, is_control), now_ms):
            match effect:
                case RecordVerdict():
                    verdict = self._judged(effect.verdict, opened, key, mark, now_ms)
                    if is_control and verdict is Verdict.NEW:
                        self.control.append(letter.body)
                case Refuse():
                    self.told.append((InboxEventType.SECURITY, Code.SESSION_INVALID))
                case Hold(sequence, is_placeholder) if not is_placeholder:
                    self.held[(*who, sequence)] = kept
                case Release(sequence, is_late) if (*who, sequence) not in self.held:
                    self._hand_on(replace(kept, is_late=is_late))
                case _:
                    self._carry_out(who, effect)
        self._forget_surplus()
        return verdict

    def pass_time(self, *, now_ms: int) -> None:
        due = [
            (at_ms, who)
            for who, session in self.sessions.items()
            if (at_ms := next_wake_ms(session, limits=self.settings.order)) is not None and at_ms <= now_ms
        ]
        for _, who in sorted(due):
            self._happen(who, TimePassed(), now_ms)

    def mark_read(self, place: int, *, now_ms: int, acknowledge: bool) -> bool:
        for kept in self.handed_on:
            if kept.place == place and kept.first_read_at_ms is None and kept.is_alive(now_ms):
                kept.first_read_at_ms = now_ms
                if acknowledge:
                    self.owed.append((AckType.READ, kept.opened.sender, kept.opened.message_id))
                return True
        return False

    def sweep(self, *, now_ms: int) -> int:
        before = len(self.handed_on)
        self.handed_on = [kept for kept in self.handed_on if kept.is_alive(now_ms)]
        window_ms = self.settings.dedup.window_ms
        while self.seen and now_ms >= self.seen[0][2] + window_ms:
            del self.seen[0]
        return before - len(self.handed_on)

    def shown(self, *, now_ms: int) -> list[Kept]:
        return [kept for kept in self.handed_on if kept.is_alive(now_ms)]

    def next_wake_ms(self) -> int | None:
        wakes = (next_wake_ms(session, limits=self.settings.order) for session in self.sessions.values())
        return min((wake_ms for wake_ms in wakes if wake_ms is not None), default=None)

    def take_owed(self, sender: Address, type_: AckType, *, limit: int) -> tuple[MessageId, ...]:
        taken = [debt for debt in self.owed if debt[:2] == (type_, sender)][:limit]
        for debt in taken:
            self.owed.remove(debt)
        return tuple(dict.fromkeys(message_id for _, _, message_id in taken))

    def _judged(
        self, verdict: Verdict, opened: DecryptedMessage, key: bytes, mark: Fingerprint, now_ms: int
    ) -> Verdict:
        if verdict in {Verdict.COLLISION, Verdict.REPLAY}:
            self.told.append((InboxEventType.SECURITY, verdict))
            return verdict
        self.seen = [
            entry
            for entry in self.seen
            if (entry[0], entry[1].session, entry[1].payload) != (key, mark.session, mark.payload)
        ]
        self.seen.append((key, mark, now_ms))
        if mark.is_acknowledged and verdict is Verdict.NEW:
            self.owed.append((AckType.RECEIPT, opened.sender, opened.message_id))
        return verdict

    def _forget_surplus(self) -> None:
        surplus = max(0, len(self.seen) - self.settings.dedup.max_entries)
        del self.seen[:surplus]

    def _happen(self, who: Who, event: Event, now_ms: int) -> None:
        for effect in self._step(who, event, now_ms):
            self._carry_out(who, effect)

    def _step(self, who: Who, event: Event, now_ms: int) -> tuple[Effect, ...]:
        session = self.sessions.get(who, InboxSession())
        self.sessions[who], effects = step(session, event, now_ms=now_ms, limits=self.settings.order)
        return effects

    def _carry_out(self, who: Who, effect: Effect) -> None:
        match effect:
            case Release(sequence, is_late):
                self._hand_on(replace(self.held.pop((*who, sequence)), is_late=is_late))
            case RecordGap(first, last):
                self.told.append((InboxEventType.GAP, f"{first}_through_{last}"))
            case RequestRetransmit():
                self.asks.append((who, effect))
            case _:
                pass

    def _hand_on(self, kept: Kept) -> None:
        self.places += 1
        self.handed_on.append(replace(kept, place=self.places))
        self.told.append((InboxEventType.NEW_MESSAGE, None))

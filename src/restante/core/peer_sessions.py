"""Which session a client sends in with one peer, and what a message that it can't read leads to (SPEC 8.7).

One state per contact, stored by the host in the transaction of each event. Every rule of docs/protocol/sessions.md that
chooses a session, asks the peer or encrypts again is in this file. It knows no keys and no bytes: the host decrypts,
reports what happened as an event, and executes the effects.

`SessionRules` names the rules that the exploration in tests/model needs. Production code uses all of them; a test
switches each one off and shows a counterexample.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from restante.core.peer_session_events import (
    CannotRead,
    CannotReadReceived,
    DeleteSessions,
    Effect,
    EncryptFailed,
    Event,
    KnownSession,
    Lost,
    LostReceived,
    Opened,
    OpenSession,
    Owed,
    Read,
    Reencrypt,
    ReportLimit,
    SendControl,
    SessionExpired,
    StateLost,
    TimePassed,
    Unreadable,
    UnreadMessage,
)
from restante.model.ids import SessionId
from restante.policy.session_recovery import (
    MAX_GENERATION,
    MAX_SESSIONS,
    MAX_UNREAD,
    DailyUse,
    RetryInterval,
    answered,
    is_over,
    may_open,
    may_reencrypt,
    today,
    used,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRules:
    """The rules by their letters in docs/protocol/sessions.md."""

    newest_read: bool = True
    """H: send in the newest session in which the peer was read."""
    sender_tag: bool = True
    """T: bytes without the peer's tag have no effect; a tagged header shows its generation."""
    name_envelopes: bool = True
    """N: CANNOT_READ names envelopes and closes no session."""
    open_when_unreadable: bool = True
    """E: open a session when the peer sends in the current or a newer one and it can't be read."""
    random_key_bytes: bool = True
    """R: a message key depends on fresh random bytes (crypto/ratchet)."""
    delete_on_loss: bool = True
    """D: a client that knows it lost state deletes its sessions."""
    plain_recovery: bool = True
    """P: recovery openings use no one-time prekey."""


ALL_RULES: Final = SessionRules()


class PeerSessions(NamedTuple):
    """All that the rules remember about one peer. `highest_generation` is never lowered, not even by state loss."""

    sessions: tuple[KnownSession, ...] = ()
    highest_generation: int = 0
    unread: tuple[UnreadMessage, ...] = ()
    question: RetryInterval = RetryInterval()
    opening: RetryInterval = RetryInterval()
    use: DailyUse = DailyUse()


Step = tuple[PeerSessions, tuple[Effect, ...]]

_COMPLEMENT: Final = bytes(range(255, -1, -1))


def age_rank(generation: int, session_id: SessionId) -> tuple[int, bytes]:
    """Return a key by which newer sessions sort last: higher generation, then the lower session id."""
    return generation, session_id.translate(_COMPLEMENT)


def _rank(session: KnownSession | UnreadMessage | Owed) -> tuple[int, bytes]:
    return age_rank(session.generation, session.session_id)


def current_session(state: PeerSessions, rules: SessionRules = ALL_RULES) -> KnownSession | None:
    """Return the session to send in; None when the next send has to open one (rule 2)."""
    usable = [session for session in state.sessions if not session.is_closed]
    if rules.newest_read:
        chosen = [session for session in usable if session.is_read]
    else:
        chosen = [session for session in usable if session.is_confirmed]
        chosen = chosen or [session for session in usable if session.is_read and not session.is_initiator]
    chosen = chosen or [session for session in usable if session.is_initiator]
    return max(chosen, key=_rank, default=None)


def next_generation(state: PeerSessions) -> int:
    """Return the generation of the next session that this client opens (rule 3). A peer can only spoil its own."""
    return min(state.highest_generation + 1, MAX_GENERATION)


def next_wake_ms(state: PeerSessions, *, now_ms: int, rules: SessionRules = ALL_RULES) -> int | None:
    """Return when `TimePassed` may have an effect; None while nothing unreadable is remembered."""
    if not state.unread:
        return None
    interval = state.opening if _must_open(state, rules) else state.question
    return now_ms if is_over(interval, now_ms=now_ms) else interval.allowed_at_ms


def step(  # noqa: PLR0911 - one table of all events
    state: PeerSessions, event: Event, *, now_ms: int, rules: SessionRules = ALL_RULES
) -> Step:
    """Return the state after `event` and the effects that the host executes in the same transaction, in this order."""
    match event:
        case Opened(session):
            return _bounded(_with_session(state, session), rules)
        case Read():
            after = _read(state, event)
            return (after, ()) if len(after.sessions) == len(state.sessions) else _bounded(after, rules)
        case Unreadable():
            return _unreadable(state, event, rules), ()
        case TimePassed():
            return _ask(state, now_ms, rules)
        case CannotReadReceived():
            return _asked_again(state, event, now_ms, rules)
        case LostReceived():
            return _peer_lost(state, event, now_ms, rules)
        case StateLost():
            return _lost(state, now_ms, rules)
        case EncryptFailed(session_id):
            return _encrypt_failed(state, session_id, now_ms, rules)
        case SessionExpired(session_id):
            return _without(state, (session_id,)), ()


def _read(state: PeerSessions, event: Read) -> PeerSessions:
    """Return the state after a message was read; the same object if nothing changed, which is the usual case."""
    known = next((each for each in state.sessions if each.session_id == event.session_id), None)
    if known is None:
        known = KnownSession(event.session_id, event.generation, is_initiator=False)
    confirmed = known.is_confirmed or known.is_initiator or event.is_confirmed
    read = known._replace(is_read=True, is_confirmed=confirmed)
    if read not in state.sessions:
        state = _with_session(state, read)
    if any(each.message_id == event.message_id for each in state.unread):
        state = state._replace(unread=tuple(each for each in state.unread if each.message_id != event.message_id))
    question = answered(state.question, generation=event.generation)
    opening = answered(state.opening, generation=event.generation)
    if question is state.question and opening is state.opening:
        return state
    return state._replace(question=question, opening=opening)


def _unreadable(state: PeerSessions, event: Unreadable, rules: SessionRules) -> PeerSessions:
    """Remember the message (rule 5). `TimePassed` asks for it; the host reports that at the end of the transaction, so
    that one question names everything that arrived together."""
    message = event.message
    if rules.sender_tag:
        if not event.has_valid_tag:
            return state
        highest = max(state.highest_generation, message.generation)
        state = state._replace(highest_generation=highest)
    if all(each.payload_hash != message.payload_hash for each in state.unread):
        state = state._replace(unread=(*state.unread, message)[-MAX_UNREAD:])
    return state


def _must_open(state: PeerSessions, rules: SessionRules) -> bool:
    """Return whether the question needs a new session: the peer can't be expected to read the current one."""
    current = current_session(state, rules)
    if not rules.open_when_unreadable:
        return not any(session.is_confirmed for session in state.sessions)
    return current is None or not current.is_read or max(map(_rank, state.unread)) >= _rank(current)


def _ask(state: PeerSessions, now_ms: int, rules: SessionRules) -> Step:
    if not state.unread:
        return state, ()
    if not _must_open(state, rules):
        current = current_session(state, rules)
        if current is None or not is_over(state.question, now_ms=now_ms):
            return state, ()
        asked = state._replace(
            unread=(), question=used(state.question, generation=state.highest_generation, now_ms=now_ms)
        )
        return asked, (SendControl(current.session_id, _cannot_read(state)),)
    if not is_over(state.opening, now_ms=now_ms):
        return state, ()
    waiting = state._replace(opening=used(state.opening, generation=state.highest_generation, now_ms=now_ms))
    unanswered = _unanswered_opening(state)
    if unanswered is not None:
        return waiting._replace(unread=()), (SendControl(unanswered.session_id, _cannot_read(state)),)
    opened, effects = _open(waiting, _cannot_read(state), now_ms, rules)
    return (opened._replace(unread=()), effects) if opened is not waiting else (waiting, effects)


def _cannot_read(state: PeerSessions) -> CannotRead:
    return CannotRead(tuple(each.payload_hash for each in state.unread))


def _unanswered_opening(state: PeerSessions) -> KnownSession | None:
    """Return this client's newest session if the peer has not answered it and nothing is newer: it is used again."""
    mine = [each for each in state.sessions if each.is_initiator and not each.is_read]
    newest = max(mine, key=_rank, default=None)
    if newest is None or newest.generation < state.highest_generation:
        return None
    return newest if all(_rank(newest) > _rank(each) for each in state.unread) else None


def _open(state: PeerSessions, first: CannotRead | Lost, now_ms: int, rules: SessionRules) -> Step:
    """Open a session for recovery, within the daily limit (rules 3, 6 and 11)."""
    use = today(state.use, now_ms=now_ms)
    if not may_open(use):
        return state, (ReportLimit("openings"),)
    generation = next_generation(state)
    opened = state._replace(highest_generation=generation, use=use._replace(openings=use.openings + 1))
    return opened, (OpenSession(generation, first, uses_one_time_prekey=not rules.plain_recovery),)


def _asked_again(state: PeerSessions, event: CannotReadReceived, now_ms: int, rules: SessionRules) -> Step:
    """Encrypt again what the peer names, if it is owed and was encrypted in another session (rule 7).

    If it names an envelope of an opening that it never answered, it most likely has none of that session: everything
    owed from it follows in its order, instead of one by one as the peer asks.
    """
    named = [each for each in event.owed if each.payload_hash in event.hashes]
    unanswered = {each.session_id for each in state.sessions if each.is_initiator and not each.is_read}
    lost = unanswered.intersection(each.session_id for each in named)
    named = [each for each in event.owed if each in named or each.session_id in lost]
    if not rules.name_envelopes:
        held = event.sessions.intersection(session.session_id for session in state.sessions)
        named = [each for each in event.owed if each.session_id in held]
        state = _closed(state, held)
    current = current_session(state, rules)
    if current is None or not current.is_read:
        return state, ()
    return _reencrypt(state, (each for each in named if each.session_id != current.session_id), now_ms)


def _peer_lost(state: PeerSessions, event: LostReceived, now_ms: int, rules: SessionRules) -> Step:
    """Encrypt again what is owed from sessions older than the one that the peer opened after its loss (rule 8)."""
    current = current_session(state, rules)
    opened = age_rank(event.generation, event.session_id)
    if current is None or opened > _rank(current):
        return state, ()
    return _reencrypt(state, (each for each in event.owed if _rank(each) < opened), now_ms)


def _reencrypt(state: PeerSessions, messages: Iterable[Owed], now_ms: int) -> Step:
    use = today(state.use, now_ms=now_ms)
    effects: list[Effect] = []
    for message in messages:
        if not may_reencrypt(use, size_bytes=message.size_bytes):
            effects.append(ReportLimit("reencrypted_bytes"))
            break
        use = use._replace(reencrypted_bytes=use.reencrypted_bytes + message.size_bytes)
        effects.append(Reencrypt(message.message_id))
    return state._replace(use=use), tuple(effects)


def _lost(state: PeerSessions, now_ms: int, rules: SessionRules) -> Step:
    """Delete all sessions, keep the generations, and open one that tells the peer (rule 8)."""
    gone = tuple(session.session_id for session in state.sessions)
    state = _without(state, gone) if rules.delete_on_loss else _closed(state, gone)
    opened, effects = _open(state, Lost(), now_ms, rules)
    return opened, (DeleteSessions(gone), *effects) if gone and rules.delete_on_loss else effects


def _encrypt_failed(state: PeerSessions, session_id: SessionId, now_ms: int, rules: SessionRules) -> Step:
    """Delete the session that this client can't encrypt in; open another within the opening interval."""
    state = _without(state, (session_id,))
    deleted = DeleteSessions((session_id,))
    if not is_over(state.opening, now_ms=now_ms):
        return state, (deleted,)
    waiting = state._replace(opening=used(state.opening, generation=state.highest_generation, now_ms=now_ms))
    opened, effects = _open(waiting, CannotRead(()), now_ms, rules)
    return opened, (deleted, *effects)


def _with_session(state: PeerSessions, session: KnownSession) -> PeerSessions:
    others = tuple(each for each in state.sessions if each.session_id != session.session_id)
    highest = max(state.highest_generation, session.generation)
    return state._replace(sessions=tuple(sorted((*others, session))), highest_generation=highest)


def _bounded(state: PeerSessions, rules: SessionRules) -> Step:
    """Delete the oldest sessions beyond the limit; never the current one or the newest."""
    surplus = len(state.sessions) - MAX_SESSIONS
    if surplus <= 0:
        return state, ()
    by_age = sorted(state.sessions, key=_rank)
    spare = [each.session_id for each in by_age[:-1] if each != current_session(state, rules)]
    gone = tuple(spare[:surplus])
    return _without(state, gone), (DeleteSessions(gone),)


def _closed(state: PeerSessions, closed: Container[SessionId]) -> PeerSessions:
    return state._replace(
        sessions=tuple(each._replace(is_closed=each.is_closed or each.session_id in closed) for each in state.sessions)
    )


def _without(state: PeerSessions, gone: Sequence[SessionId]) -> PeerSessions:
    return state._replace(sessions=tuple(each for each in state.sessions if each.session_id not in gone))

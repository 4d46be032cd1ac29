"""Two clients and a hostile network with symbolic keys, around the real rules of core/peer_sessions.

A ratchet is the path of its turns. Each turn is named by the incarnation of the side that made it; restoring a backup
starts a new incarnation, so a turn made twice differs. A message key is (session, path, number, random bytes). A
message can be read if its path is the reader's path, a prefix of it, or one turn longer, and its key was not used
before: the Double Ratchet with unlimited skipped keys. When the peer makes a turn, keys of its turn before are kept for
as many messages as it says that it sent; after an unnoticed restore these are too few. Nor may the message's place in
the order of its session have been used, which an unnoticed restore leads to as well.

The network is the set of all envelopes ever written. Any of them may be delivered at any time, any number of times or
never; that covers loss, delay, repetition, reordering, and a crash before or after transmission.
"""

from restante.core.peer_session_events import (
    CannotRead,
    CannotReadReceived,
    DeleteSessions,
    Effect,
    Event,
    KnownSession,
    LostReceived,
    Opened,
    OpenSession,
    Owed,
    Read,
    Reencrypt,
    SendControl,
    StateLost,
    TimePassed,
    Unreadable,
    UnreadMessage,
)
from restante.core.peer_sessions import PeerSessions, SessionRules, current_session, next_generation, step
from restante.model.ids import MessageId, PayloadHash, SessionId
from restante.policy.session_recovery import FIRST_RETRY_MS, DailyUse, RetryInterval, is_over
from support.model.symbolic_values import (
    Body,
    Client,
    Envelope,
    Envelopes,
    KeyUsedTwice,
    Lost,
    Mail,
    Named,
    Path,
    Ratchet,
    Receipt,
    State,
    hash_of,
    id_of,
)

NOW_MS = 0
BOTH = (0, 1)
_RUNNING = RetryInterval(FIRST_RETRY_MS, FIRST_RETRY_MS, 0)
_OVER = RetryInterval()


class World:
    """One state, opened for a step."""

    def __init__(self, state: State, rules: SessionRules, envelopes: Envelopes, *, one_time_prekeys: int = 9) -> None:
        self.rules = rules
        self.envelopes = envelopes
        self.one_time_prekeys = one_time_prekeys
        self.clients = list(state.clients)
        self.network = state.network
        self.opened = list(state.opened)
        self.incarnation = list(state.incarnation)
        self.rolled_back = state.rolled_back
        self.mails = list(state.mails)
        self.controls = list(state.controls)
        self.written: list[int] = []

    def state(self) -> State:
        return State(
            (self.clients[0], self.clients[1]),
            self.network,
            (self.opened[0], self.opened[1]),
            (self.incarnation[0], self.incarnation[1]),
            self.rolled_back,
            (self.mails[0], self.mails[1]),
            (self.controls[0], self.controls[1]),
        )

    def current(self, side: int) -> KnownSession | None:
        return current_session(self.clients[side].peer, self.rules)

    def ratchet(self, side: int, session: SessionId) -> Ratchet | None:
        return dict(self.clients[side].ratchets).get(session)

    # Writing

    def send_mail(self, side: int) -> None:
        mail = Mail(side, self.mails[side])
        self.mails[side] += 1
        envelope = self._write(side, mail)
        client = self.clients[side]
        self._change(side, accepted=client.accepted | {mail}, outbox=(*client.outbox, (mail, envelope)))

    def send_receipts(self, side: int) -> None:
        mails = self.clients[side].to_acknowledge
        if mails:
            self._change(side, to_acknowledge=frozenset())
            self._write(side, Receipt(mails))

    def _write(self, side: int, body: Body) -> int:
        session = self.current(side)
        if session is None:
            session = self._open(side, next_generation(self.clients[side].peer), uses_one_time=True)
        return self._encrypt(side, session.session_id, body)

    def _open(self, side: int, generation: int, *, uses_one_time: bool) -> KnownSession:
        session = KnownSession(SessionId(bytes((side, self.opened[side]))), generation, is_initiator=True)
        self.opened[side] += 1
        one_time = None
        client = self.clients[side]
        if uses_one_time and client.next_one_time < self.one_time_prekeys:
            one_time = client.next_one_time
            self._change(side, next_one_time=one_time + 1)
        self._set_ratchet(side, session.session_id, Ratchet((self.incarnation[side],), 0, one_time, frozenset()))
        self._step(side, Opened(session))
        return session

    def _encrypt(self, side: int, session_id: SessionId, body: Body) -> int:
        session = self._known(side, session_id)
        ratchet = self.ratchet(side, session_id)
        assert ratchet is not None
        if (len(ratchet.path) % 2 == 1) != session.is_initiator:  # the last turn is the peer's: make one
            ratchet = ratchet._replace(path=(*ratchet.path, self.incarnation[side]), number=0, previous=ratchet.number)
        opening = (ratchet.one_time,) if session.is_initiator and not session.is_read else None
        random = self.incarnation[side] if self.rules.random_key_bytes else 0
        envelope = Envelope(
            1 - side,
            session_id,
            session.generation,
            opening,
            ratchet.path,
            ratchet.number,
            body,
            random,
            ratchet.next_sequence,
            ratchet.previous,
        )
        self._refuse_used_key(envelope)
        after = ratchet._replace(number=ratchet.number + 1, next_sequence=ratchet.next_sequence + 1)
        self._set_ratchet(side, session_id, after)
        number = self.envelopes.number(envelope)
        self.network |= {number}
        self.written.append(number)
        return number

    def _refuse_used_key(self, envelope: Envelope) -> None:
        for number in self.network:
            other = self.envelopes.all[number]
            is_key_equal = (
                other._replace(body=envelope.body, sequence=envelope.sequence, previous=envelope.previous) == envelope
            )
            if is_key_equal and other.body != envelope.body:
                raise KeyUsedTwice

    # Reading

    def deliver(self, side: int, number: int) -> None:
        envelope = self.envelopes.all[number]
        client = self.clients[side]
        if number in client.seen:
            self._acknowledge_again(side, envelope.body)
            return
        message_id = id_of(envelope.body, number)
        place = (envelope.session, envelope.sequence)
        after = None if place in client.consumed else self._decrypted(side, envelope)
        if after is None:
            if isinstance(envelope.body, Mail) and envelope.body in client.shown:
                self._acknowledge_again(side, envelope.body)
            unread = UnreadMessage(hash_of(number), message_id, envelope.session, envelope.generation)
            self._unreadable(side, Unreadable(unread))
            return
        self._change(side, seen=client.seen | {number}, consumed=client.consumed | {place})
        self._set_ratchet(side, envelope.session, after)
        confirmed = len(envelope.path) >= 3
        self._step(side, Read(envelope.session, envelope.generation, message_id, confirmed))
        self._act_on(side, envelope)

    def _act_on(self, side: int, envelope: Envelope) -> None:
        client = self.clients[side]
        match envelope.body:
            case Mail() as mail if mail in client.shown:
                self._acknowledge_again(side, mail)
            case Mail() as mail:
                self._change(side, shown=client.shown | {mail}, to_acknowledge=client.to_acknowledge | {mail})
            case Receipt(mails):
                self._change(side, outbox=tuple(each for each in client.outbox if each[0] not in mails))
            case Named(hashes):
                named = (each for number, each in enumerate(self.envelopes.all) if hash_of(number) in hashes)
                sessions = frozenset(each.session for each in named)
                self._step(side, CannotReadReceived(hashes, self._owed(side), sessions))
            case Lost():
                self._step(side, LostReceived(envelope.session, envelope.generation, self._owed(side)))

    def _decrypted(self, side: int, envelope: Envelope) -> Ratchet | None:
        """Return the ratchet after reading; None for what can't be read."""
        ratchet = self.ratchet(side, envelope.session)
        key = (envelope.path, envelope.number)
        if ratchet is None:
            return self._accepted(side, envelope, key)
        if key in ratchet.used:
            return None
        path, known = envelope.path, ratchet.path
        last_turn_is_ours = (len(known) % 2 == 1) == self._known(side, envelope.session).is_initiator
        if path == known[: len(path)]:
            end = dict(ratchet.ends).get(path)
            return None if end is not None and envelope.number >= end else ratchet._replace(used=ratchet.used | {key})
        if path[:-1] == known and last_turn_is_ours:
            before = path[:-2]
            kept = max([envelope.previous, *(number + 1 for turn, number in ratchet.used if turn == before)])
            return ratchet._replace(path=path, used=ratchet.used | {key}, ends=(*ratchet.ends, (before, kept)))
        return None

    def _accepted(self, side: int, envelope: Envelope, key: tuple[Path, int]) -> Ratchet | None:
        if envelope.opening is None or len(envelope.path) != 1:
            return None
        [one_time] = envelope.opening
        client = self.clients[side]
        if one_time is not None:
            if one_time in client.used_one_time:
                return None
            self._change(side, used_one_time=client.used_one_time | {one_time})
        return Ratchet(envelope.path, 0, None, frozenset({key}))

    def _acknowledge_again(self, side: int, body: Body) -> None:
        client = self.clients[side]
        if isinstance(body, Mail) and body not in client.acknowledged_again:
            self._change(
                side,
                acknowledged_again=client.acknowledged_again | {body},
                to_acknowledge=client.to_acknowledge | {body},
            )

    # What an adversary and time do

    def forge(self, side: int, session: SessionId, generation: int) -> None:
        """Bytes that only claim to be the peer's."""
        unread = UnreadMessage(PayloadHash(b"forged"), MessageId(b"forged"), session, generation)
        self._unreadable(side, Unreadable(unread, has_valid_tag=False))

    def elapse(self, side: int) -> None:
        """Both retry intervals end, and the day in which a duplicate is acknowledged once."""
        client = self.clients[side]
        peer = client.peer._replace(question=_OVER, opening=_OVER)
        self._change(side, peer=peer, acknowledged_again=frozenset())
        self._step(side, TimePassed())

    def restore(self, side: int, backup: Client, *, is_known: bool) -> None:
        self.incarnation[side] += 1
        self.rolled_back |= self.clients[side].shown - backup.shown
        self.clients[side] = backup
        if is_known:
            self._step(side, StateLost())

    def forget_session(self, side: int, session: SessionId) -> None:
        peer = self.clients[side].peer
        self._change(side, peer=peer._replace(sessions=tuple(s for s in peer.sessions if s.session_id != session)))
        self._delete_ratchets(side, (session,))

    def lose_skipped_key(self, side: int, number: int) -> None:
        envelope = self.envelopes.all[number]
        ratchet = self.ratchet(side, envelope.session)
        if ratchet is not None:
            used = ratchet.used | {(envelope.path, envelope.number)}
            self._set_ratchet(side, envelope.session, ratchet._replace(used=used))

    def steal_one_time_prekey(self, side: int) -> None:
        """A third party opens a session with `side` and uses the prekey that the peer would use next."""
        used = self.clients[side].used_one_time | {self.clients[1 - side].next_one_time}
        self._change(side, used_one_time=used)

    # Executing effects

    def _unreadable(self, side: int, event: Unreadable) -> None:
        """As the client does: remember the message, and ask at the end of the transaction."""
        self._step(side, event)
        self._step(side, TimePassed())

    def _step(self, side: int, event: Event) -> None:
        peer, effects = step(self.clients[side].peer, event, now_ms=NOW_MS, rules=self.rules)
        self._change(side, peer=_canonical(peer))
        for effect in effects:
            self._execute(side, effect)

    def _execute(self, side: int, effect: Effect) -> None:
        match effect:
            case OpenSession(generation, first, uses_one_time):
                session = self._open(side, generation, uses_one_time=uses_one_time)
                self._control(side, session.session_id, first)
            case SendControl(session_id, message):
                self._control(side, session_id, message)
            case Reencrypt(message_id):
                self._reencrypt(side, message_id)
            case DeleteSessions(session_ids):
                self._delete_ratchets(side, session_ids)
            case _:
                raise AssertionError(effect)

    def _control(self, side: int, session: SessionId, message: object) -> None:
        self.controls[side] += 1
        body: Body = Named(frozenset(message.hashes)) if isinstance(message, CannotRead) else Lost()
        self._encrypt(side, session, body)

    def _reencrypt(self, side: int, message_id: MessageId) -> None:
        current = self.current(side)
        assert current is not None
        outbox = []
        for mail, number in self.clients[side].outbox:
            is_it = id_of(mail, 0) == message_id
            outbox.append((mail, self._encrypt(side, current.session_id, mail) if is_it else number))
        self._change(side, outbox=tuple(outbox))

    def _owed(self, side: int) -> tuple[Owed, ...]:
        return tuple(
            Owed(id_of(mail, 0), hash_of(number), envelope.session, envelope.generation, 1)
            for mail, number in self.clients[side].outbox
            for envelope in (self.envelopes.all[number],)
        )

    def _known(self, side: int, session: SessionId) -> KnownSession:
        return next(each for each in self.clients[side].peer.sessions if each.session_id == session)

    def _set_ratchet(self, side: int, session: SessionId, ratchet: Ratchet) -> None:
        ratchets = {**dict(self.clients[side].ratchets), session: ratchet}
        self._change(side, ratchets=tuple(sorted(ratchets.items())))

    def _delete_ratchets(self, side: int, sessions: tuple[SessionId, ...]) -> None:
        self._change(side, ratchets=tuple(each for each in self.clients[side].ratchets if each[0] not in sessions))

    def _change(self, side: int, **fields: object) -> None:
        self.clients[side] = Client(**{**self.clients[side]._asdict(), **fields})


def _canonical(peer: PeerSessions) -> PeerSessions:
    """Intervals only run or are over, and no daily limit is reached in a small world: fewer states to tell apart."""
    question = _OVER if is_over(peer.question, now_ms=NOW_MS) else _RUNNING
    opening = _OVER if is_over(peer.opening, now_ms=NOW_MS) else _RUNNING
    return peer._replace(question=question, opening=opening, use=DailyUse())

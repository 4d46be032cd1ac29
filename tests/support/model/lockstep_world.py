"""Two real clients do what the symbolic world does, and must come to the same state after every act.

The symbolic side is support/model/symbolic_world with the acts of support/model/explorer; lockstep_explorer searches.
Each act is done by a real client, too (support/model/forkable_client). Compared are the sessions and their order, the
current session, what is remembered as unreadable, both retry intervals, what was read, what is unreceipted, and every
envelope that left.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from restante.client.client import Client as RealClient
from restante.core.peer_session_events import KnownSession, SessionExpired, TimePassed
from restante.core.peer_sessions import ALL_RULES, PeerSessions, age_rank, current_session
from restante.model.error_codes import Code
from restante.model.ids import MessageId, SessionId
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route
from restante.policy.failures import failure_of_refusal
from restante.policy.session_recovery import is_over
from restante.ports.carrier import StoredByNode
from restante.ports.relay_connection import AttemptFailed, StoredBlob
from restante.testing.deterministic import FakeClock, SeededEntropy
from support.client.client_pairs import Post
from support.client.restored_clients import forged
from support.model.forkable_client import PEER, ForkableClient, Operation, Seen, Sent, Step
from support.model.symbolic_values import Client, Envelopes, Mail, State
from support.model.symbolic_world import World

PAUSE_MS = 3 * 3_600_000
"""Longer than any retry interval that a search reaches, and so short that no gap ends and nothing is stored again."""
Pair = tuple[ForkableClient, ForkableClient]


_A_DAY_AGO = "UPDATE dedup SET acked_again_at_ms = 0"
"""Duplicates may be acknowledged again. A whole day would also end gaps, which the symbolic world does not know."""


class Named(NamedTuple):
    """The real session behind a symbolic name."""

    session_id: SessionId
    generation: int


UNKNOWN_SESSION = Named(SessionId(bytes(32)), 0)


class Real(NamedTuple):
    """The real part of a state: where each client stands, and what symbolic names stand for."""

    locals: tuple[int, int]
    backups: tuple[int | None, int | None]
    sessions: dict[SessionId, Named]
    sent: dict[int, Sent]
    first_read: tuple[frozenset[bytes], frozenset[bytes]]
    """What was read before the search began."""


class LockstepWorld(World):
    """One state of both, opened for a step."""

    def __init__(self, state: State, envelopes: Envelopes, real: Real, pair: Pair) -> None:
        super().__init__(state, ALL_RULES, envelopes, one_time_prekeys=1)
        self.pair = pair
        self.at = list(real.locals)
        self.backups = list(real.backups)
        self.names = dict(real.sessions)
        self.sent = dict(real.sent)
        self.first_read = real.first_read
        self._wanted: list[MessageId] = []

    def real(self, backups: tuple[int | None, int | None]) -> Real:
        return Real((self.at[0], self.at[1]), backups, self.names, self.sent, self.first_read)

    def send_mail(self, side: int) -> None:
        text = b"mail %d of side %d" % (self.mails[side], side)
        begun = len(self.written)
        super().send_mail(side)
        self._follow(side, begun, text, lambda client: client.send(PEER, text))

    def send_receipts(self, side: int) -> None:
        begun = len(self.written)
        self._step(side, TimePassed())
        super().send_receipts(side)
        self._follow(side, begun, "receipts", lambda client: client.run_maintenance())

    def deliver(self, side: int, number: int) -> None:
        begun = len(self.written)
        super().deliver(side, number)
        self._step(side, TimePassed())  # as the client does after each batch; then it encrypts again
        wanted, self._wanted = self._wanted, []
        for message_id in wanted:
            super()._reencrypt(side, message_id)
        raw = self.sent[number].raw
        self._follow(side, begun, self.sent[number].payload_hash, lambda client: client.receive([_blob(client, raw)]))

    def _reencrypt(self, _side: int, message_id: MessageId) -> None:
        self._wanted.append(message_id)

    def forge(self, side: int, session: SessionId, generation: int) -> None:
        super().forge(side, session, generation)
        here, claimed = self.pair[side], self.names.get(session, UNKNOWN_SESSION).session_id
        before = here.local(self.at[side]).seen
        raw = forged(here.peer.address, here.client.identity.card, claimed, generation, SeededEntropy(here.steps))
        step = here.step(
            self.at[side], ("forged", claimed), lambda client: client.receive([_blob(client, raw)]), is_usable=_any
        )
        assert step.sent == (), "forged bytes made a client send"
        assert here.local(step.local).seen == before, "forged bytes changed a client"

    def refuse(self, side: int) -> None:
        """A relay refuses mail of this side with every code it has. That opens no session but the mail's own."""
        here = self.pair[side]
        before = here.local(self.at[side]).seen.peer
        step = here.step(self.at[side], "refused", _refused, is_usable=_any)
        after = here.local(step.local).seen.peer
        if before.sessions:
            assert after == before, "a relay's answer changed a session"
        assert len(after.sessions) == max(1, len(before.sessions))
        assert step.sent == ()

    def elapse(self, side: int) -> None:
        begun = len(self.written)
        super().elapse(side)
        World.send_receipts(self, side)

        async def wait(client: RealClient) -> None:
            self.pair[side].clock.advance(PAUSE_MS)
            await client.file.run(lambda: client.file.database.rows(_A_DAY_AGO))
            await client.run_maintenance()

        self._follow(side, begun, "time", wait)

    def restore(self, side: int, backup: Client, *, is_known: bool) -> None:
        begun, here, local = len(self.written), self.pair[side], self.backups[side]
        assert local is not None
        now_ms = here.local(self.at[side]).now_ms
        remembered = here.local(local).seen.peer
        peer = _as_of(backup.peer, remembered, now_ms)
        # A file that remembers nothing of the peer does not tell it of the loss.
        super().restore(side, backup._replace(peer=peer), is_known=is_known and remembered.highest_generation > 0)
        step = here.restore(
            local, now_ms=now_ms, is_known=is_known, life=self.incarnation[side], is_usable=self._sorts_alike(side)
        )
        self._compare(side, begun, step)

    def back_up(self, side: int) -> Client:
        self.backups[side] = self.at[side]
        return self.clients[side]

    def forget_session(self, side: int, session: SessionId) -> None:
        begun, here = len(self.written), self.pair[side]
        super().forget_session(side, session)
        expired = SessionExpired(self.names[session].session_id)

        async def forget(client: RealClient) -> None:
            now_ms = here.clock.now_ms()
            await client.file.run(lambda: client.parts.recovery.apply(here.peer.address, expired, now_ms=now_ms))

        self._follow(side, begun, expired, forget)

    def steal_one_time_prekey(self, side: int) -> None:
        begun, is_left = len(self.written), self.clients[1 - side].next_one_time == 0
        super().steal_one_time_prekey(side)
        if not is_left:
            return  # the peer has used the only one that its contact file has

        async def steal(client: RealClient) -> None:
            sessions = client.parts.sessions
            await client.file.run(lambda: sessions.store_prekeys(replace(sessions.prekeys(), one_time={})))

        self._follow(side, begun, "stolen", steal)

    def _follow(self, side: int, begun: int, what: object, operation: Operation) -> None:
        step = self.pair[side].step(self.at[side], what, operation, is_usable=self._sorts_alike(side))
        self._compare(side, begun, step)

    def _sorts_alike(self, side: int) -> Callable[[Seen], bool]:
        """Return whether a session that was opened now sorts among those of its generation as its symbolic one does.

        Session ids are random: the step is repeated until chance agrees. Those of side 0 get the lower half of all ids,
        because a step that ran in another branch is not repeated. A new id leaves at least half of the ids above its
        side's last one for those that follow, so that chance agrees within `MAX_TRIES`.
        """

        def is_usable(seen: Seen) -> bool:
            names = self._names(side, seen.peer)
            by_symbol = sorted(names, key=lambda name: age_rank(names[name].generation, name))
            by_id = sorted(names, key=lambda name: age_rank(names[name].generation, names[name].session_id))
            return by_symbol == by_id and all(
                _leaves_room(side, name, names) for name in names.keys() - self.names.keys()
            )

        return is_usable

    def _names(self, side: int, peer: PeerSessions) -> dict[SessionId, Named]:
        """Return the real session of each symbolic one, the new ones by their generation."""
        known = {name.session_id for name in self.names.values()}
        real = sorted((s for s in peer.sessions if s.session_id not in known), key=_generation)
        new = sorted((s for s in self.clients[side].peer.sessions if s.session_id not in self.names), key=_generation)
        assert [s.generation for s in new] == [s.generation for s in real], "another session was opened"
        return self.names | {a.session_id: Named(b.session_id, b.generation) for a, b in zip(new, real, strict=True)}

    def _compare(self, side: int, begun: int, step: Step) -> None:
        self.at[side] = step.local
        local, client = self.pair[side].local(step.local), self.clients[side]
        self.names = self._names(side, local.seen.peer)
        self._compare_envelopes(self.written[begun:], step.sent)
        peer, real = client.peer, local.seen.peer
        named = {s._replace(session_id=self.names[s.session_id].session_id) for s in peer.sessions}
        assert named == set(real.sessions)
        assert peer.highest_generation == real.highest_generation
        one, other = current_session(peer), current_session(real)
        assert (one and self.names[one.session_id].session_id) == (other and other.session_id)
        unread = {self.sent[int.from_bytes(each.payload_hash, "big")].payload_hash for each in peer.unread}
        assert unread == {each.payload_hash for each in real.unread}
        for symbolic, interval in ((peer.question, real.question), (peer.opening, real.opening)):
            assert is_over(symbolic, now_ms=0) == is_over(interval, now_ms=local.now_ms)
        assert {self.sent[number].payload_hash for _, number in client.outbox} == local.seen.owed
        read = {self._message_id(mail) for mail in client.shown}
        assert read == local.seen.read - self.first_read[side]

    def _message_id(self, mail: Mail) -> bytes:
        return next(
            sent.message.message_id for number, sent in self.sent.items() if self.envelopes.all[number].body == mail
        )

    def _compare_envelopes(self, numbers: list[int], sent: tuple[Sent, ...]) -> None:
        known = {each.payload_hash for each in self.sent.values()}
        new = [each for each in sent if each.payload_hash not in known]
        symbolic = {
            (self.names[e.session].session_id, e.generation, e.number, e.opening is None): n
            for n in numbers
            for e in (self.envelopes.all[n],)
        }
        real = {(s.message.session_id, s.message.generation, s.number, s.message.opening is None): s for s in new}
        assert len(real) == len(new)
        assert symbolic.keys() == real.keys(), "other envelopes left"
        for key, number in symbolic.items():
            self.sent[number] = real[key]
            body = self.envelopes.all[number].body
            if isinstance(body, Mail):
                assert real[key].message.message_id == self._message_id(body), "mail changed its id"


class Refusing(Post):
    """A relay that answers every put with one code."""

    code: str = ""

    async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
        raise AttemptFailed(f"no {entry.kind}", failure=failure_of_refusal(self.code, permanent=False))


async def _refused(client: RealClient) -> None:
    for code in Code:
        await client.send(PEER, b"refused")
        relay = Refusing(FakeClock(client.now_ms()))
        relay.code = code
        await client.outbox.drain({Route.RELAY: relay})


def _any(_seen: Seen) -> bool:
    return True


def _leaves_room(side: int, new: SessionId, names: dict[SessionId, Named]) -> bool:
    begin, end = side << 31, (side + 1) << 31
    others = [
        _position(each) for name, each in names.items() if name != new and each.generation == names[new].generation
    ]
    last = max((each for each in others if begin <= each < end), default=begin)
    return begin <= _position(names[new]) < (last + end) // 2


def _position(named: Named) -> int:
    return int.from_bytes(named.session_id[:4], "big")


def _generation(session: KnownSession) -> int:
    return session.generation


def _blob(client: RealClient, raw: bytes) -> StoredBlob:
    return StoredBlob(1, client.now_ms(), raw)


def _as_of(symbolic: PeerSessions, real: PeerSessions, now_ms: int) -> PeerSessions:
    """Return the memory of a backup with the retry intervals that have ended since."""
    over = PeerSessions()
    question = over.question if is_over(real.question, now_ms=now_ms) else symbolic.question
    opening = over.opening if is_over(real.opening, now_ms=now_ms) else symbolic.opening
    return symbolic._replace(question=question, opening=opening)

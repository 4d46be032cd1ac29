"""Breadth-first search over symbolic worlds, and the honest rounds that must heal each state.

After every step the adversary may stop. Then the old network is lost, retry intervals end, and the two clients exchange
mail for four rounds. From the second round on both must send in one common session whose ratchet turns; after the
fourth, all accepted mail is shown and receipted.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import methodcaller
from time import monotonic
from typing import NamedTuple

from restante.core.peer_session_events import KnownSession
from restante.core.peer_sessions import SessionRules
from restante.model.ids import SessionId
from support.model.symbolic_values import Client, Envelopes, KeyUsedTwice, Mail, Ratchet, State
from support.model.symbolic_world import BOTH, World

ROUNDS = 4
MAX_STEPS = 150
UNKNOWN = SessionId(b"\x07\x07")
UNKNOWN_GENERATION = 7


class Budget(NamedTuple):
    """How often each act of the adversary, of time and of a user with a backup may happen."""

    forge: int = 0
    elapse: int = 0
    """Per side."""
    backup: int = 0
    restore_known: int = 0
    restore_unnoticed: int = 0
    steal: int = 0
    forget: int = 0
    lose_key: int = 0


class Scenario(NamedTuple):
    budget: Budget
    mails: tuple[int, int] = (1, 1)
    is_established: bool = True
    only_outsiders: bool = False
    """No side may ever leave its session."""


class Node(NamedTuple):
    state: State
    left: Budget
    elapses: tuple[int, int]
    backups: tuple[Client | None, Client | None]


@dataclass
class Result:
    states: int = 0
    is_complete: bool = False
    broken: dict[str, list[str]] = field(default_factory=dict)
    """The first trace for each broken property."""


Act = tuple[str, Callable[[World], None], Node]


SCENARIOS = {
    "forger": Scenario(Budget(forge=2, elapse=1), only_outsiders=True),
    "flood": Scenario(Budget(forge=6, elapse=1), mails=(1, 0), only_outsiders=True),
    "fresh": Scenario(Budget(forge=1, elapse=1), is_established=False),
    "stolen prekey": Scenario(Budget(steal=1, elapse=1), is_established=False),
    "known restore": Scenario(Budget(elapse=1, backup=1, restore_known=1)),
    "known restore, fresh": Scenario(Budget(elapse=1, backup=1, restore_known=1), is_established=False),
    "unnoticed restore": Scenario(Budget(elapse=1, backup=1, restore_unnoticed=1), mails=(2, 1)),
    "unnoticed restore, fresh": Scenario(Budget(elapse=1, backup=1, restore_unnoticed=1), is_established=False),
    "both restore": Scenario(Budget(elapse=1, backup=2, restore_known=1, restore_unnoticed=2)),
    "old session forgotten": Scenario(Budget(elapse=1, backup=1, restore_known=1, forget=1)),
    "skipped keys lost": Scenario(Budget(elapse=1, lose_key=2), mails=(2, 1)),
    "forged, then restored": Scenario(Budget(forge=1, backup=1, restore_known=1)),
    "everything": Scenario(Budget(1, 1, 1, 1, 1, 1, 1, 1), mails=(2, 2)),
    "everything, fresh": Scenario(Budget(1, 1, 1, 1, 1, 1, 1, 1), mails=(2, 2), is_established=False),
}


def start(scenario: Scenario) -> State:
    """Return two strangers, or two clients with a session in which each read the other."""
    if not scenario.is_established:
        return State()
    session = SessionId(b"\x00\x00")
    clients = []
    for side in BOTH:
        known = KnownSession(session, 1, is_initiator=side == 0, is_read=True, is_confirmed=True)
        client = Client()
        clients.append(
            client._replace(
                peer=client.peer._replace(sessions=(known,), highest_generation=1),
                ratchets=((session, _established_ratchet(side)),),
                consumed=frozenset({(session, 0), (session, 1)}),
                next_one_time=1 if side == 0 else 0,
                used_one_time=frozenset({0}) if side == 1 else frozenset(),
            )
        )
    return State((clients[0], clients[1]), opened=(1, 0))


def _established_ratchet(side: int) -> Ratchet:
    """Return the ratchet after each side sent a message and a receipt."""
    return Ratchet((0, 0, 0), 1 if side == 0 else 0, 0 if side == 0 else None, frozenset(), next_sequence=2)


class Explorer:
    """One search. `one_time_prekeys` is how many a client may use; few of them make shortages part of the search."""

    def __init__(self, rules: SessionRules, scenario: Scenario, *, one_time_prekeys: int = 9) -> None:
        self.rules = rules
        self.scenario = scenario
        self._envelopes = Envelopes()
        self._one_time_prekeys = one_time_prekeys
        self._healed: dict[tuple[Client, Client, frozenset[Mail]], str | None] = {}

    def search(self, *, max_states: int, stop_at_first: bool = True, seconds: float = 600) -> Result:
        elapse = self.scenario.budget.elapse
        first = Node(start(self.scenario), self.scenario.budget, (elapse, elapse), (None, None))
        result = Result(states=1)
        ends_at = monotonic() + seconds
        home = [self.world(first.state).current(side) for side in BOTH]
        came_from: dict[int, tuple[int, str] | None] = {hash(first): None}
        waiting = deque([first])
        while waiting and len(came_from) < max_states and monotonic() < ends_at:
            node = waiting.popleft()
            for name, act, after in self._acts(node):
                world = self.world(node.state)
                try:
                    act(world)
                except KeyUsedTwice:
                    self._report(result, "3: a message key is used twice", came_from, hash(node), name)
                    continue
                reached = after._replace(state=world.state())
                key = hash(reached)
                if key in came_from:
                    continue
                came_from[key] = (hash(node), name)
                waiting.append(reached)
                if self.scenario.only_outsiders and any(world.current(side) != home[side] for side in BOTH):
                    self._report(result, "5: an outsider made a side leave its session", came_from, key, None)
                if (why := self._unhealed(reached)) is not None:
                    self._report(result, why, came_from, key, None)
            result.states = len(came_from)
            if result.broken and stop_at_first:
                return result
        result.is_complete = not waiting
        return result

    def world(self, state: State) -> World:
        return World(state, self.rules, self._envelopes, one_time_prekeys=self._one_time_prekeys)

    def _report(
        self,
        result: Result,
        why: str,
        came_from: dict[int, tuple[int, str] | None],
        at: int,
        last: str | None,
    ) -> None:
        if why in result.broken:
            return
        trace = [last] if last else []
        while (step := came_from[at]) is not None:
            at, name = step
            trace.append(name)
        result.broken[why] = trace[::-1]

    def _acts(self, node: Node) -> Iterator[Act]:
        for side in BOTH:
            yield from self._honest_acts(node, side)
            yield from self._hostile_acts(node, side)
            yield from self._backups(node, side)

    def _honest_acts(self, node: Node, side: int) -> Iterator[Act]:
        client, name = node.state.clients[side], "AB"[side]
        if node.state.mails[side] < self.scenario.mails[side]:
            yield f"{name} sends mail", lambda world: world.send_mail(side), node
        if client.to_acknowledge:
            yield f"{name} sends receipts", lambda world: world.send_receipts(side), node
        for number in node.state.network:
            envelope = self._envelopes.all[number]
            is_idle = number in client.seen and not (
                isinstance(envelope.body, Mail) and envelope.body not in client.acknowledged_again
            )
            if envelope.to == side and not is_idle:
                yield f"{name} gets {self._shown(number)}", methodcaller("deliver", side=side, number=number), node
        if node.elapses[side] and _has_run(client):
            left = (node.elapses[0] - (side == 0), node.elapses[1] - (side == 1))
            yield f"{name}: retry intervals end", lambda world: world.elapse(side), node._replace(elapses=left)

    def _hostile_acts(self, node: Node, side: int) -> Iterator[Act]:
        left, name = node.left, "AB"[side]
        if left.forge:
            after = node._replace(left=left._replace(forge=left.forge - 1))
            known = {(s.session_id, s.generation) for client in node.state.clients for s in client.peer.sessions}
            for session, generation in sorted(known | {(UNKNOWN, UNKNOWN_GENERATION)}):
                yield (
                    f"forged bytes for {name} claim {session.hex()}",
                    methodcaller("forge", side=side, session=session, generation=generation),
                    after,
                )
        if left.steal:
            after = node._replace(left=left._replace(steal=left.steal - 1))
            yield f"a third party uses a prekey of {name}", lambda world: world.steal_one_time_prekey(side), after
        if left.forget:
            after = node._replace(left=left._replace(forget=left.forget - 1))
            current = self.world(node.state).current(side)
            for held in node.state.clients[side].peer.sessions:
                if held != current:
                    yield (
                        f"{name} forgets {held.session_id.hex()}",
                        methodcaller("forget_session", side=side, session=held.session_id),
                        after,
                    )
        if left.lose_key:
            after = node._replace(left=left._replace(lose_key=left.lose_key - 1))
            for number in node.state.network:
                if self._envelopes.all[number].to == side and number not in node.state.clients[side].seen:
                    yield (
                        f"{name} loses the key of {self._shown(number)}",
                        methodcaller("lose_skipped_key", side=side, number=number),
                        after,
                    )

    def _backups(self, node: Node, side: int) -> Iterator[Act]:
        left, name, client = node.left, "AB"[side], node.state.clients[side]
        if left.backup:
            backups = (client, node.backups[1]) if side == 0 else (node.backups[0], client)
            after = node._replace(left=left._replace(backup=left.backup - 1), backups=backups)
            yield f"{name} backs up", lambda _world: None, after
        backup = node.backups[side]
        if backup is None:
            return
        if left.restore_known:
            after = node._replace(left=left._replace(restore_known=left.restore_known - 1))
            yield (
                f"{name} is restored and knows it",
                methodcaller("restore", side=side, backup=backup, is_known=True),
                after,
            )
        if left.restore_unnoticed:
            after = node._replace(left=left._replace(restore_unnoticed=left.restore_unnoticed - 1))
            yield (
                f"{name} is restored and does not know it",
                methodcaller("restore", side=side, backup=backup, is_known=False),
                after,
            )

    def _shown(self, number: int) -> str:
        envelope = self._envelopes.all[number]
        opening = " with opening" if envelope.opening else ""
        where = f"{envelope.session.hex()} (generation {envelope.generation})"
        return (
            f"{type(envelope.body).__name__} in {where}{opening}, turn {len(envelope.path)}, number {envelope.number}"
        )

    def _unhealed(self, node: Node) -> str | None:
        clients = node.state.clients
        key = (clients[0], clients[1], node.state.rolled_back)
        if key not in self._healed:
            self._healed[key] = self.why_not_healed(node.state)
        return self._healed[key]

    def why_not_healed(self, state: State) -> str | None:  # noqa: PLR0911 - one return for each property
        world = self.world(state._replace(network=frozenset()))
        common: list[bool] = []
        turns: list[tuple[int, int]] = []
        for _ in range(ROUNDS):
            if not self._honest_round(world):
                return "1: envelopes without end"
            one, other = world.current(0), world.current(1)
            same = one is not None and other is not None and one.session_id == other.session_id
            common.append(same and one is not None and other is not None and one.is_read and other.is_read)
            turns.append(_turns(world, one.session_id) if same and one is not None else (0, 0))
        if not common[-1]:
            return "1: no common session"
        if not all(common[1:]):
            return "1: more than two round trips"
        if turns[-1][0] <= turns[-2][0] or turns[-1][1] <= turns[-2][1]:
            return "1: the ratchet does not turn"
        for side in BOTH:
            if world.clients[side].outbox:
                return "2: mail without receipt"
            if world.clients[side].accepted - world.clients[1 - side].shown - world.rolled_back:
                return "2: mail is lost"
        return None

    def _honest_round(self, world: World) -> bool:
        """Return whether the exchange came to an end."""
        pipe: deque[int] = deque()
        world.written = []
        for side in BOTH:
            world.elapse(side)
        for side in BOTH:
            pipe.extend(sorted(number for _, number in world.clients[side].outbox))
            world.send_mail(side)
        pipe.extend(world.written)
        for _ in range(MAX_STEPS):
            if not pipe:
                return True
            number = pipe.popleft()
            side = self._envelopes.all[number].to
            world.written = []
            world.deliver(side, number)
            world.send_receipts(side)
            pipe.extend(world.written)
            world.network = frozenset()
        return False


def _has_run(client: Client) -> bool:
    """Return whether the end of the retry intervals would change anything."""
    peer = client.peer
    return peer.question.allowed_at_ms > 0 or peer.opening.allowed_at_ms > 0 or bool(client.acknowledged_again)


def _turns(world: World, session: SessionId) -> tuple[int, int]:
    one, other = world.ratchet(0, session), world.ratchet(1, session)
    return (len(one.path) if one else 0, len(other.path) if other else 0)

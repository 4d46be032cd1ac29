"""Breadth-first searches of the symbolic world in which two real clients follow every act (`lockstep_world`)."""

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from restante.client.client import Client as RealClient
from restante.core.peer_sessions import ALL_RULES
from restante.model.ids import SessionId
from restante.ports.relay_connection import StoredBlob
from support.model.explorer import Budget, Explorer, Node, Scenario, start
from support.model.forkable_client import PEER, ForkableClient, Operation, Run, Seen
from support.model.lockstep_world import LockstepWorld, Named, Real
from support.model.symbolic_values import State
from support.model.symbolic_world import BOTH


@dataclass
class Found:
    """What several searches found together. A state is counted once, whatever budget was left in it."""

    distinct: set[int] = field(default_factory=set)
    healed: int = 0


class LockstepExplorer(Explorer):
    """Breadth-first searches in which two real clients follow every act. Searches from one start share their steps."""

    def __init__(self, home: Path, run: Run, *, is_established: bool) -> None:
        super().__init__(ALL_RULES, Scenario(Budget(), is_established=is_established), one_time_prekeys=1)
        self.pair = (ForkableClient(home / "alice", run), ForkableClient(home / "bob", run))
        for one, other in (self.pair, self.pair[::-1]):
            one.meet(other)
        self._start: Real = self._established() if is_established else self._strangers()
        self._at = self._start
        self.found = Found()

    @property
    def real_steps(self) -> int:
        return sum(each.steps for each in self.pair)

    def explore(self, scenario: Scenario, *, max_states: int, heal_every: int) -> None:
        """Search, and heal every so many states with the real clients, too. An act that differs raises."""
        self.scenario = scenario
        elapse = scenario.budget.elapse
        first = Node(start(scenario), scenario.budget, (elapse, elapse), (None, None))
        known, waiting = {hash(first)}, deque([(first, self._start)])
        while waiting and len(known) < max_states:
            node, real = waiting.popleft()
            for name, act, after in self._acts(node):
                self._at = real
                world = self.world(node.state)
                try:
                    act(world)
                except AssertionError as problem:
                    problem.add_note(f"at: {name}")
                    raise
                reached = after._replace(state=world.state())
                if hash(reached) in known:
                    continue
                known.add(hash(reached))
                self.found.distinct.add(hash((reached.state, reached.backups)))
                backups = [
                    real.backups[side] if reached.backups[side] is node.backups[side] else real.locals[side]
                    for side in BOTH
                ]
                now = world.real((backups[0], backups[1]))
                waiting.append((reached, now))
                if len(known) % heal_every == 0:
                    world.refuse(len(known) % 2)
                    self.heal(reached.state, now)

    def heal(self, state: State, real: Real) -> None:
        """Four honest rounds bring both clients into one session, with all mail shown and receipted."""
        self._at = real
        assert self.why_not_healed(state) is None
        self.found.healed += 1

    def begin(self) -> LockstepWorld:
        """Return the start, for a test that does its own acts."""
        self._at = self._start
        return self.world(start(self.scenario))

    def close(self) -> None:
        for each in self.pair:
            each.close()

    def world(self, state: State) -> LockstepWorld:
        return LockstepWorld(state, self._envelopes, self._at, self.pair)

    def _strangers(self) -> Real:
        return Real((self.pair[0].first(), self.pair[1].first()), (None, None), {}, {}, (frozenset(), frozenset()))

    def _established(self) -> Real:
        """Return two clients of which each read the other, as in the symbolic start."""
        alice, bob = self.pair
        at = [alice.first(), bob.first()]

        def do(side: int, what: str, operation: Operation) -> list[StoredBlob]:
            step = self.pair[side].step(at[side], what, operation, is_usable=_is_low)
            at[side] = step.local
            return [StoredBlob(1, alice.clock.now_ms(), sent.raw) for sent in step.sent]

        async def answer(client: RealClient) -> None:
            await client.send(PEER, b"hello, too")
            await client.run_maintenance()

        first = do(0, "begins", lambda client: client.send(PEER, b"hello"))
        do(1, "reads", lambda client: client.receive(first))
        second = do(1, "answers", answer)
        do(0, "reads", lambda client: client.receive(second))
        third = do(0, "receipts", lambda client: client.run_maintenance())
        do(1, "reads the receipt", lambda client: client.receive(third))
        [session] = self.pair[0].local(at[0]).seen.peer.sessions
        names = {SessionId(b"\x00\x00"): Named(session.session_id, session.generation)}
        read = (self.pair[0].local(at[0]).seen.read, self.pair[1].local(at[1]).seen.read)
        return Real((at[0], at[1]), (None, None), names, {}, read)


def _is_low(seen: Seen) -> bool:
    return all(session.session_id[0] < 128 for session in seen.peer.sessions)

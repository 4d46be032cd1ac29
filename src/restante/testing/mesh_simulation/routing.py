"""Lookups in a large routed mesh: tables by core/directory, searches by core/lookup, no storage (NETWORK 8)."""

import random
from dataclasses import dataclass
from typing import Final

from restante.core import lookup
from restante.core.directory.routing_table import Dial, Dialled, Heard, RoutingTable
from restante.core.lookup import AskFailed, NodesAnswered
from restante.model.ids import NodeId
from restante.testing.mesh_simulation.node import SimulatedNode
from restante.testing.mesh_simulation.values import START_MS

HEARD_AT_RANDOM: Final = 200
HEARD_NEARBY: Final = 40
WANT: Final = 5
CONTACTS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingResult:
    nodes: int
    rounds: tuple[int, ...]
    """Of each lookup, sorted."""
    found_closest: int
    """Lookups that found the very closest living node."""
    asked: int

    def quantile(self, share: float) -> int:
        return self.rounds[min(len(self.rounds) - 1, int(share * len(self.rounds)))]


def simulate_lookups(nodes: int, *, lookups: int, seed: int, dead: float = 0.0) -> RoutingResult:
    """Build a table for each node from random and nearby nodes, then search for random keys from random nodes."""
    dice = random.Random(seed)  # noqa: S311 - reproducible on purpose
    everyone = sorted(
        (SimulatedNode(number, joined_at_ms=START_MS, family=None, side=0).descriptor for number in range(nodes)),
        key=lambda each: each.position,
    )
    tables: dict[NodeId, RoutingTable] = {}
    for at, own in enumerate(everyone):
        table = RoutingTable(own.position)
        near = everyone[max(0, at - HEARD_NEARBY // 2) : at + HEARD_NEARBY // 2]
        for each in [*near, *dice.sample(everyone, min(nodes, HEARD_AT_RANDOM))]:
            if table.step(each, Heard()) == (Dial(each),):
                table.step(each, Dialled())
        tables[own.node_id] = table
    gone = set(dice.sample([each.node_id for each in everyone], int(dead * nodes)))
    rounds: list[int] = []
    found = asked = 0
    for _ in range(lookups):
        target = dice.randbytes(32)
        start = dice.choice(everyone)
        while start.node_id in gone:
            start = dice.choice(everyone)
        taken, closest, requests = _search(tables, gone, start.node_id, target, dice)
        rounds.append(taken)
        asked += requests
        goal = int.from_bytes(target, "big")
        living = min((each for each in everyone if each.node_id not in gone), key=lambda each: each.position ^ goal)
        found += living.node_id in closest
    return RoutingResult(nodes=nodes, rounds=tuple(sorted(rounds)), found_closest=found, asked=asked)


def _search(
    tables: dict[NodeId, RoutingTable], gone: set[NodeId], start: NodeId, target: bytes, dice: random.Random
) -> tuple[int, tuple[NodeId, ...], int]:
    """Return the rounds, what was found and the requests. Answers arrive in random order."""
    goal = int.from_bytes(target, "big")
    own = [each.node_id for each in tables[start].closest(goal, CONTACTS)]
    state, effects = lookup.start(target, own, want=WANT)
    waiting: list[NodeId] = []
    requests = 0
    closest: tuple[NodeId, ...] = ()
    while True:
        for effect in effects:
            match effect:
                case lookup.Ask(node):
                    waiting.append(node)
                    requests += 1
                case lookup.Finish(found):
                    closest = found
        if state.phase is not lookup.Phase.SEARCHING:
            return state.rounds, closest, requests
        node = waiting.pop(dice.randrange(len(waiting)))
        if node in gone:
            state, effects = lookup.step(state, AskFailed(node))
        else:
            contacts = tuple(each.node_id for each in tables[node].closest(goal, CONTACTS))
            state, effects = lookup.step(state, NodesAnswered(node, contacts))

"""Over which circuits one message is uploaded to its nodes (SPEC 11.3, 11.6).

Nodes that are no hop of the first circuit get the message over it, the others over further circuits at the same time.
What a circuit did not bring to an end is uploaded again over another. A node that an exit can't reach, or for which it
passes on an answer that the node did not sign, is asked over a second exit before that counts: the first one may be cut
off from it, or lie.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from restante.model.ids import NodeId

TRIES: Final = 6
"""Circuits that one message is uploaded over before the attempt fails: in a small mesh its nodes are hops of most."""
OPINIONS: Final = 2
"""So many exits must bring no answer that a node signed."""


class Acquire(NamedTuple):
    """Get a circuit in which no node of `avoid` is a hop, and of the others none of `prefer_not` if that is possible;
    report by `acquired`, `no_hops_left` or `not_acquired`.

    `doubted` are exits for which another opinion is wanted. If possible it is that of another operator.
    """

    avoid: frozenset[NodeId]
    prefer_not: frozenset[NodeId]
    doubted: frozenset[NodeId] = frozenset()


class Upload(NamedTuple):
    """Upload to these nodes over the circuit that was just acquired; report by `answered`, `not_signed` and `ended`."""

    number: int
    nodes: tuple[NodeId, ...]


class NotSigned(NamedTuple):
    """Two exits, or all that there are, brought nothing that this node signed: believe what they said."""

    node: NodeId


class GiveUp(NamedTuple):
    """These nodes can't be asked: circuits failed, and nothing is known about the nodes."""

    nodes: tuple[NodeId, ...]


Effect = Acquire | Upload | NotSigned | GiveUp
Effects = tuple[Effect, ...]


class Fanout:
    """One message. Call `start` once."""

    def __init__(self, nodes: Iterable[NodeId]) -> None:
        self._waiting: dict[NodeId, tuple[NodeId, ...]] = dict.fromkeys(nodes, ())
        """The nodes that have not answered, each with the exits that brought nothing it signed."""
        self._uploads: dict[int, tuple[NodeId, set[NodeId]]] = {}
        """The exit of each upload under way, and the nodes that have not answered over it."""
        self._is_acquiring = False
        self._is_modest = False
        self._tries = 0

    def start(self) -> Effects:
        return self._acquire(frozenset())

    def acquired(self, hops: tuple[NodeId, ...]) -> Effects:
        """There is a circuit: upload to all open nodes that it can reach, and look for another for those it can't."""
        self._is_acquiring = self._is_modest = False
        exit_id = hops[-1]
        nodes = tuple(each for each in self._open() if each not in hops and exit_id not in self._waiting[each])
        if not nodes:
            return self._go_on()
        self._uploads[self._tries] = exit_id, set(nodes)
        return (Upload(self._tries, nodes), *self._go_on())

    def no_hops_left(self) -> Effects:
        """No circuit avoids all that it should: look for one that can reach the first of the open nodes."""
        self._is_acquiring = False
        nodes = self._open()
        if not nodes:
            return ()
        if self._is_modest:
            return self._leave(nodes)
        self._is_modest = True
        return self._acquire(frozenset(nodes[:1]))

    def not_acquired(self) -> Effects:
        """No circuit could be had."""
        self._is_acquiring = False
        return self._leave(self._open())

    def answered(self, number: int, node: NodeId) -> None:
        """The node has answered, and what it said can't be the exit's."""
        self._waiting.pop(node, None)
        self._uploads[number][1].discard(node)

    def not_signed(self, number: int, node: NodeId) -> Effects:
        """The exit could not reach the node, or passed on an answer that may be its own."""
        exit_id, nodes = self._uploads[number]
        if node not in self._waiting or node not in nodes:
            return ()  # an exit that says it twice says nothing new
        nodes.discard(node)
        exits = self._waiting[node] = (*self._waiting[node], exit_id)
        if len(exits) >= OPINIONS:
            return self._leave((node,))
        return self._go_on()

    def ended(self, number: int) -> Effects:
        """The upload is over. Nodes that did not answer are open again."""
        del self._uploads[number]
        return self._go_on()

    def is_waiting_for(self, node: NodeId) -> bool:
        return node in self._waiting

    def _open(self) -> tuple[NodeId, ...]:
        """Return the nodes to which no upload is under way."""
        asked = {node for _, nodes in self._uploads.values() for node in nodes}
        return tuple(node for node in self._waiting if node not in asked)

    def _go_on(self) -> Effects:
        nodes = self._open()
        if self._is_acquiring or not nodes:
            return ()
        doubted = frozenset(exit_id for node in nodes for exit_id in self._waiting[node])
        return self._acquire(doubted.union(nodes), doubted)

    def _acquire(self, avoid: frozenset[NodeId], doubted: frozenset[NodeId] = frozenset()) -> Effects:
        if self._tries >= TRIES:
            return () if self._uploads else self._leave(self._open())
        self._tries += 1
        self._is_acquiring = True
        return (Acquire(avoid, frozenset(self._waiting), doubted),)

    def _leave(self, nodes: tuple[NodeId, ...]) -> Effects:
        """Stop asking these nodes. What one exit said counts where no other can be asked."""
        effects: list[Effect] = []
        unknown: list[NodeId] = []
        for node in nodes:
            if self._waiting.pop(node):
                effects.append(NotSigned(node))
            else:
                unknown.append(node)
        return (*effects, GiveUp(tuple(unknown))) if unknown else tuple(effects)

"""Keys that neighbours offer, until this node has asked what they hold under them (SPEC 7.9, decision 0038)."""

from typing import Final

from restante.model.ids import InboxKey, NodeId

MOST_OFFERING: Final = 64
"""Nodes whose offers wait. Those of others are forgotten; they offer again."""
MOST_OF_NODE: Final = 256
MOST_TAKEN: Final = 64
"""Keys of one node that are looked up at once, so that no node holds up what others offer."""


class OfferedKeys:
    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[NodeId, dict[InboxKey, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def add(self, node: NodeId, key: InboxKey) -> None:
        """Note an offer, unless too many wait. A key that waits already is noted once."""
        keys = self._of.get(node)
        if keys is None and len(self._of) < MOST_OFFERING:
            keys = self._of[node] = {}
        if keys is not None and len(keys) < MOST_OF_NODE:
            keys[key] = None

    def take(self) -> dict[NodeId, tuple[InboxKey, ...]]:
        """Remove the first keys of each node and return them."""
        taken = {node: tuple(keys)[:MOST_TAKEN] for node, keys in self._of.items()}
        left = {node: tuple(keys)[MOST_TAKEN:] for node, keys in self._of.items()}
        self._of = {node: dict.fromkeys(keys) for node, keys in left.items() if keys}
        return taken

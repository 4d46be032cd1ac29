"""Which nodes a circuit uses: three hops of three families and three networks (SPEC 11.1). No dice: `choose` draws."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.model.ids import NodeId
from restante.model.node_descriptor import NodeDescriptor, Role

MIN_HOPS: Final = 6
MIN_FAMILIES: Final = 4
MIN_NETWORKS: Final = 4

Choose = Callable[[int], int]
"""Return a number from 0 up to, not including, the argument, all equally likely."""


class MeshTooSmall(RestanteError):
    """There are too few nodes with role hop for circuits that protect anybody."""

    def __init__(self, text: str) -> None:
        super().__init__(f"mesh too small for circuits: {text}", code=Code.CIRCUIT_BUILD_FAILED)


class NoPath(RestanteError):
    """The mesh is large enough, but no three hops fit what is excluded."""

    def __init__(self, text: str) -> None:
        super().__init__(text, code=Code.CIRCUIT_BUILD_FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    guard: NodeDescriptor
    middle: NodeDescriptor
    exit: NodeDescriptor

    @property
    def hops(self) -> tuple[NodeDescriptor, NodeDescriptor, NodeDescriptor]:
        return self.guard, self.middle, self.exit


def usable_hops(nodes: Iterable[NodeDescriptor]) -> list[NodeDescriptor]:
    """Return the nodes with role hop, in a fixed order, so that equal draws choose equal hops."""
    return sorted((node for node in nodes if Role.HOP in node.roles), key=lambda node: node.position)


def check_mesh(hops: Sequence[NodeDescriptor], *, is_private: bool = False) -> None:
    """Raise unless there are enough hops. A private network lifts the rules about families and networks."""
    families = {node.family for node in hops}
    networks = {network for node in hops for network in node.networks}
    if len(hops) < MIN_HOPS:
        raise MeshTooSmall(f"{len(hops)} reachable nodes with role hop, at least {MIN_HOPS} are needed")
    if not is_private and (len(families) < MIN_FAMILIES or len(networks) < MIN_NETWORKS):
        raise MeshTooSmall(
            f"the hops are of {len(families)} families and {len(networks)} networks (/24 or /48), "
            f"at least {MIN_FAMILIES} of each are needed"
        )


def are_apart(one: NodeDescriptor, other: NodeDescriptor, *, is_private: bool = False) -> bool:
    """Return whether both may be hops of one circuit."""
    if one.node_id == other.node_id:
        return False
    return is_private or (one.family != other.family and one.networks.isdisjoint(other.networks))


def choose_path(
    hops: Sequence[NodeDescriptor],
    guards: Sequence[NodeDescriptor],
    *,
    choose: Choose,
    avoid: frozenset[NodeId] = frozenset(),
    avoid_exits: frozenset[NodeId] = frozenset(),
    prefer_not: frozenset[NodeId] = frozenset(),
    is_private: bool = False,
) -> Path:
    """Return three hops. `guards` come in the order of preference; nodes of `avoid` are no hop at all.

    The exit is none of `avoid_exits`. Where there is a choice, middle and exit are none of `prefer_not`.
    """
    check_mesh(hops, is_private=is_private)
    for guard in guards:
        if guard.node_id in avoid:
            continue
        behind = [each for each in hops if each.node_id not in avoid and are_apart(each, guard, is_private=is_private)]
        for last in _shuffled(behind, prefer_not, choose):
            if last.node_id in avoid_exits:
                continue
            for middle in _shuffled(behind, prefer_not, choose):
                if are_apart(middle, last, is_private=is_private):
                    return Path(guard=guard, middle=middle, exit=last)
    raise NoPath("no three hops of different families and networks are left for this circuit")


def relatives(hops: Sequence[NodeDescriptor], nodes: frozenset[NodeId]) -> frozenset[NodeId]:
    """Return the hops that have the family of one of these nodes, and the nodes themselves if they are hops."""
    families = {each.family for each in hops if each.node_id in nodes}
    return frozenset(each.node_id for each in hops if each.family in families)


def _shuffled(
    nodes: Sequence[NodeDescriptor], prefer_not: frozenset[NodeId], choose: Choose
) -> Iterator[NodeDescriptor]:
    """Yield all nodes in random order, those of `prefer_not` last."""
    preferred = [each for each in nodes if each.node_id not in prefer_not]
    others = [each for each in nodes if each.node_id in prefer_not]
    for left in (preferred, others):
        while left:
            yield left.pop(choose(len(left)))

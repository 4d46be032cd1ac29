"""Download the whole directory: the union of the copies of at least three nodes of different families (SPEC 7.1).

One node could leave out others, or invent some (`vouchers`). Nodes are asked in the given order, those of further
networks first, until three families have sent a whole copy or none is left.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from restante.core.transitions import Table, check_phase, legal_phases
from restante.model.ids import NodeId

FAMILIES: Final = 3


class Phase(StrEnum):
    ASKING = "asking"
    WHOLE = "whole"
    PARTIAL = "partial"
    """Fewer than three families sent a whole copy; status says so."""


class Source(NamedTuple):
    node: NodeId
    family: bytes
    networks: frozenset[bytes] = frozenset()


class CopyReceived(NamedTuple):
    """All pages of this node's directory have come."""

    node: NodeId


class CopyFailed(NamedTuple):
    node: NodeId


Event = CopyReceived | CopyFailed


class AskDirectory(NamedTuple):
    """Send SYNC_DIRECTORY to this node until its last page."""

    node: NodeId


class Finish(NamedTuple):
    families: int


Effect = AskDirectory | Finish

TABLE: Final[Table[Phase]] = {
    Phase.ASKING: {CopyReceived: frozenset(Phase), CopyFailed: frozenset({Phase.ASKING, Phase.PARTIAL})},
    Phase.WHOLE: dict.fromkeys((CopyReceived, CopyFailed), frozenset({Phase.WHOLE})),
    Phase.PARTIAL: dict.fromkeys((CopyReceived, CopyFailed), frozenset({Phase.PARTIAL})),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    phase: Phase
    left: tuple[Source, ...]
    asked: tuple[Source, ...] = ()
    families: frozenset[bytes] = frozenset()
    networks: frozenset[bytes] = frozenset()
    """Of all that were asked."""
    needs_families: int = FAMILIES


Step = tuple[Download, tuple[Effect, ...]]


def start(sources: Sequence[Source], *, needs_families: int = FAMILIES) -> Step:
    return _continue(Download(phase=Phase.ASKING, left=tuple(sources), needs_families=needs_families))


def step(state: Download, event: Event) -> Step:
    following = legal_phases(TABLE, state.phase, event)
    after, effects = _step(state, event) if state.phase is Phase.ASKING else (state, ())
    check_phase(following, after.phase, event)
    return after, effects


def _step(state: Download, event: Event) -> Step:
    source = next((each for each in state.asked if each.node == event.node), None)
    if source is None:
        return state, ()
    after = replace(state, asked=tuple(each for each in state.asked if each != source))
    if isinstance(event, CopyReceived):
        after = replace(after, families=after.families | {source.family})
    return _continue(after)


def _continue(state: Download) -> Step:
    """Keep as many requests under way as families are missing, never two of one family, and two of one network only if
    no other is left: families cost an attacker nothing, networks do."""
    effects: list[Effect] = []
    while (source := _next_source(state)) is not None:
        effects.append(AskDirectory(source.node))
        left = tuple(each for each in state.left if each != source)
        networks = state.networks | source.networks
        state = replace(state, asked=(*state.asked, source), left=left, networks=networks)
    if len(state.families) >= state.needs_families:
        return replace(state, phase=Phase.WHOLE), (*effects, Finish(len(state.families)))
    if not state.asked:
        return replace(state, phase=Phase.PARTIAL), (*effects, Finish(len(state.families)))
    return state, tuple(effects)


def _next_source(state: Download) -> Source | None:
    busy = {each.family for each in state.asked} | state.families
    usable = [each for each in state.left if each.family not in busy]
    if len(busy) >= state.needs_families or not usable:
        return None
    return next((each for each in usable if state.networks.isdisjoint(each.networks)), usable[0])

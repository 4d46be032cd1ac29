"""Which nodes count in a client's directory: those that at least two of the servers name (SPEC 7.1, decision 0033).

A client cannot dial all nodes. One server that invents nodes could fill the directory with them; one that leaves out
nodes could hide them. Two servers of different families outvote it in both. Only where too few families answer, every
node counts that any of them names.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from restante.model.ids import NodeId
from restante.model.node_descriptor import Endpoint, NodeDescriptor
from restante.policy.mesh.voices import ENOUGH, voices

VOUCHERS: Final = ENOUGH


class Named(NamedTuple):
    """What one node of this family named: its whole directory, or better nodes for a key. `through` is whoever passed
    it on and could have changed it."""

    family: bytes
    descriptors: tuple[NodeDescriptor, ...]
    through: frozenset[bytes] = frozenset()


def vouched(answers: Iterable[Named], *, needed: int) -> list[NodeDescriptor]:
    """Return the descriptors of nodes that so many voices name at the same endpoints. Issues need not be equal: one
    may be on its way to a server."""
    parties: dict[tuple[NodeId, tuple[Endpoint, ...]], list[frozenset[bytes]]] = {}
    found: dict[tuple[NodeId, tuple[Endpoint, ...]], NodeDescriptor] = {}
    for family, descriptors, through in answers:
        for each in descriptors:
            place = each.node_id, each.endpoints
            parties.setdefault(place, []).append(through | {family})
            held = found.get(place)
            if held is None or held.issued_at_ms < each.issued_at_ms:
                found[place] = each
    return [found[place] for place, named_by in parties.items() if voices(named_by) >= needed]

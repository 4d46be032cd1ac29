"""Which proposals of the action `repair` a storage node acts on (SPEC 13.6)."""

from collections.abc import Container, Sequence

from restante.model.fleet_actions import FleetAction
from restante.model.ids import PayloadHash


def open_proposals(
    proposals: Sequence[FleetAction], *, known: Container[PayloadHash], applied_as_of_ms: int | None
) -> list[FleetAction]:
    """Return the proposals that are not void.

    One is void if the node holds the mail again or knows it as deleted by its owner (`known`), or if a proposal of the
    same report or of a newer one was applied before: the round that it asked for brings all copies.
    """
    return [
        each
        for each in proposals
        if each.payload_hash not in known and (applied_as_of_ms is None or each.as_of_ms > applied_as_of_ms)
    ]

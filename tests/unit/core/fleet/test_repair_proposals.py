"""Which proposals a storage node acts on: what it lacks, and of no report that it has seen."""

from restante.core.fleet.repair_proposals import open_proposals
from restante.model.fleet_actions import ActionKind, FleetAction
from support.fleet.journal_files import sealed, writer
from support.spec.clauses import clause

AS_OF_MS = 1_767_614_400_000


def lost(number: int, *, as_of_ms: int = AS_OF_MS) -> FleetAction:
    return FleetAction(
        action=ActionKind.REPAIR,
        target=writer(1),
        payload_hash=sealed(number),
        reason="too_few_copies",
        as_of_ms=as_of_ms,
    )


@clause("13.6")
def test_a_proposal_about_mail_that_is_here_or_was_deleted_by_its_owner_is_void() -> None:
    proposals = [lost(1), lost(2)]
    assert open_proposals(proposals, known={sealed(1)}, applied_as_of_ms=None) == [lost(2)]
    assert open_proposals(proposals, known={sealed(1), sealed(2)}, applied_as_of_ms=None) == []


@clause("13.6")
def test_a_proposal_of_a_report_that_was_applied_or_of_an_older_one_is_void() -> None:
    older, same, newer = (lost(1, as_of_ms=AS_OF_MS + more) for more in (-1, 0, 1))
    assert open_proposals([older, same, newer], known=(), applied_as_of_ms=AS_OF_MS) == [newer]
    assert open_proposals([older], known=(), applied_as_of_ms=None) == [older]

"""What the fleet proposes, carried out in a client's and a node's file: once, journaled, and never against the file."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from restante.core.mailbox import Keep
from restante.core.outbox_events import TransmitFailed, TransmitSucceeded
from restante.model.fleet_actions import ActionKind, FleetAction
from restante.model.ids import BlindedKey, InboxKey, WriterId
from restante.model.journal import JournalKind
from restante.model.node_descriptor import Role
from restante.model.states import State
from restante.policy.failures import Failure
from restante.policy.quota import MailboxQuota
from restante.runtime.journal.node_identity import append_node_started, roles_at_last_start
from restante.runtime.sqlite.mesh.repair_requests import requested_as_of_ms
from restante.runtime.sqlite.mesh.store import MeshKeep, SqliteMeshStore
from restante.runtime.sqlite.outbox.fleet_actions import (
    ActionResult,
    ClientActions,
    NodeActions,
    scoreboard,
    take_scoreboard,
)
from support.fleet.journal_files import message, node_id, sealed
from support.outbox.entries import accept, entry
from support.spec.clauses import clause
from support.sqlite.files import (
    NOW_MS,
    ClientFile,
    NodeFile,
    assert_books_balance,
    facts,
    open_client_file,
    open_node_file,
)

DAY_MS = 86_400_000
MONTH_S = 30 * 86_400


def proposal(action: ActionKind, target: WriterId, **fields: Any) -> FleetAction:
    return replace(FleetAction(action=action, target=target, reason="why", as_of_ms=NOW_MS), **fields)


def lasting(file: ClientFile) -> None:
    accept(file.outbox, entry(1, ttl_s=MONTH_S, expires_at_ms=NOW_MS + MONTH_S * 1_000))


@clause("13.6", "5.3")
def test_a_dead_letter_is_redriven_once_its_day_has_come_and_only_for_the_burial_that_was_seen(tmp_path: Path) -> None:
    file = open_client_file(tmp_path / "client.db")
    lasting(file)
    for attempt in range(15):
        at_ms = NOW_MS + attempt * 3_600_000
        leased = file.outbox.lease_next(owner="me", now_ms=at_ms)
        assert leased is not None
        file.outbox.apply(leased.message_id, TransmitFailed(owner="me", failure=Failure.NETWORK_TIMEOUT), now_ms=at_ms)
    letter = file.outbox.dead_letters.load(message(1))
    assert letter is not None
    doing = ClientActions(file.database, file.journal, file.outbox)
    redrive = proposal(ActionKind.REDRIVE, file.journal.writer, message_id=message(1), event_at_ms=letter.moved_at_ms)
    due_ms = letter.moved_at_ms + DAY_MS
    assert doing.apply(redrive, now_ms=due_ms - 1) is ActionResult.ALREADY_DONE
    assert doing.apply(replace(redrive, event_at_ms=letter.moved_at_ms - 1), now_ms=due_ms) is ActionResult.ALREADY_DONE
    assert doing.apply(replace(redrive, target=WriterId(bytes(16))), now_ms=due_ms) is ActionResult.NOT_MINE
    assert doing.apply(redrive, now_ms=due_ms) is ActionResult.DONE
    told = facts(file.journal)
    assert (told[-1].kind, told[-1].code, told[-1].at_ms) == (JournalKind.RECOVERED, "automatic_retry", due_ms)
    assert doing.apply(redrive, now_ms=due_ms) is ActionResult.ALREADY_DONE
    assert facts(file.journal) == told
    assert_books_balance(file)
    file.database.close()


@clause("13.6")
def test_a_lost_message_is_sent_again_once_for_each_proposal(tmp_path: Path) -> None:
    file = open_client_file(tmp_path / "client.db")
    lasting(file)
    assert file.outbox.lease_next(owner="me", now_ms=NOW_MS) is not None
    file.outbox.apply(message(1), TransmitSucceeded(), now_ms=NOW_MS)
    doing = ClientActions(file.database, file.journal, file.outbox)
    again = proposal(ActionKind.RETRANSMIT, file.journal.writer, message_id=message(1), event_at_ms=NOW_MS)
    assert doing.apply(again, now_ms=NOW_MS + 59_999) is ActionResult.ALREADY_DONE
    assert doing.apply(again, now_ms=NOW_MS + 60_000) is ActionResult.DONE
    told = facts(file.journal)
    assert (told[-1].kind, told[-1].message_id, told[-1].code) == (
        JournalKind.RETRANSMIT_REQUESTED,
        message(1),
        "fleet",
    )
    assert doing.apply(again, now_ms=NOW_MS + 60_000) is ActionResult.ALREADY_DONE
    assert facts(file.journal) == told
    leased = file.outbox.lease_next(owner="me", now_ms=NOW_MS + 60_000)
    assert leased is not None
    assert (leased.message_id, leased.state) == (message(1), State.SENDING)
    file.outbox.apply(message(1), TransmitSucceeded(), now_ms=NOW_MS + 60_001)
    assert doing.apply(again, now_ms=NOW_MS + DAY_MS) is ActionResult.ALREADY_DONE
    assert_books_balance(file)
    file.database.close()


def lost(node: NodeFile, number: int, **fields: Any) -> FleetAction:
    return proposal(ActionKind.REPAIR, node.journal.writer, payload_hash=sealed(number), **fields)


def storage_node(node: NodeFile) -> NodeActions:
    return NodeActions(node.database, node.journal, roles=Role.STORAGE | Role.HOP)


@clause("13.6")
def test_a_storage_node_is_asked_once_for_each_report_to_fetch_the_copies_that_it_lost(tmp_path: Path) -> None:
    node = open_node_file(tmp_path / "node.db")
    doing = storage_node(node)
    report = [lost(node, 1), lost(node, 2)]
    assert requested_as_of_ms(node.database) is None
    assert doing.apply(report, now_ms=NOW_MS + 5) == [ActionResult.DONE] * 2
    assert requested_as_of_ms(node.database) == NOW_MS
    told = facts(node.journal)
    assert [(fact.kind, fact.payload_hash, fact.code, fact.at_ms) for fact in told] == [
        (JournalKind.RETRANSMIT_REQUESTED, sealed(number), "fleet", NOW_MS + 5) for number in (1, 2)
    ]
    older = lost(node, 3, as_of_ms=NOW_MS - 1)
    assert doing.apply([*report, older], now_ms=NOW_MS + 6) == [ActionResult.ALREADY_DONE] * 3
    assert facts(node.journal) == told
    assert doing.apply([lost(node, 2, as_of_ms=NOW_MS + 1)], now_ms=NOW_MS + 7) == [ActionResult.DONE]
    assert requested_as_of_ms(node.database) == NOW_MS + 1
    node.database.close()


@clause("13.6")
def test_a_copy_that_is_here_again_or_that_its_owner_deleted_is_not_fetched(tmp_path: Path) -> None:
    node = open_node_file(tmp_path / "node.db")
    key, blinded = InboxKey(b"i" * 32), BlindedKey(b"b" * 32)
    store = SqliteMeshStore(node.database, node.journal, tag_secret=b"secret", sources=node.mailbox.sources)
    puts = [MeshKeep(blinded, 1, Keep(key, sealed(number), NOW_MS + DAY_MS, b"envelope")) for number in (1, 2)]
    assert store.put_all(puts, quota=MailboxQuota(), now_ms=NOW_MS) == [None, None]
    assert store.delete(blinded, 1, key, [sealed(2)], quota=MailboxQuota(), now_ms=NOW_MS) == [sealed(2)]
    told = facts(node.journal)
    stale = [lost(node, 1), lost(node, 2)]
    assert storage_node(node).apply(stale, now_ms=NOW_MS) == [ActionResult.ALREADY_DONE] * 2
    assert facts(node.journal) == told
    assert requested_as_of_ms(node.database) is None
    assert storage_node(node).apply([*stale, lost(node, 3)], now_ms=NOW_MS)[2] is ActionResult.DONE
    assert store.live_hashes(key, now_ms=NOW_MS) == [sealed(1)]
    store.close()
    node.database.close()


@clause("13.6")
def test_a_node_without_the_role_storage_and_one_that_is_not_meant_do_nothing(tmp_path: Path) -> None:
    node = open_node_file(tmp_path / "node.db")
    others = [
        replace(lost(node, 1), target=WriterId(bytes(16))),
        proposal(ActionKind.RETRANSMIT, node.journal.writer, message_id=message(1), event_at_ms=NOW_MS),
    ]
    assert storage_node(node).apply(others, now_ms=NOW_MS) == [ActionResult.NOT_MINE] * 2
    relay = NodeActions(node.database, node.journal, roles=Role.MAILBOX | Role.HOP)
    assert relay.apply([lost(node, 1)], now_ms=NOW_MS) == [ActionResult.NOT_SUPPORTED]
    assert facts(node.journal) == []
    assert requested_as_of_ms(node.database) is None
    node.database.close()


@clause("13.6")
def test_the_roles_of_a_node_are_those_of_its_last_start(tmp_path: Path) -> None:
    node = open_node_file(tmp_path / "node.db")
    assert roles_at_last_start(node.journal) == Role(0)
    for roles in (Role.STORAGE | Role.MAILBOX, Role.HOP):
        append_node_started(node.database, node.journal, node_id(1), roles=roles, now_ms=NOW_MS)
        assert roles_at_last_start(node.journal) == roles
    node.database.close()


@clause("13.6")
@pytest.mark.parametrize("roles", [Role.MAILBOX, Role.STORAGE])
def test_no_action_deletes_mail_from_a_node(tmp_path: Path, roles: Role) -> None:
    node = open_node_file(tmp_path / "node.db")
    inbox = InboxKey(b"i" * 32)
    keep = Keep(inbox, sealed(1), NOW_MS + DAY_MS, b"envelope")
    node.mailbox.put_all([keep], quota=MailboxQuota(), now_ms=NOW_MS)
    every = [proposal(kind, node.journal.writer, payload_hash=sealed(1), message_id=message(1)) for kind in ActionKind]
    NodeActions(node.database, node.journal, roles=roles).apply(every, now_ms=NOW_MS)
    assert node.mailbox.usage(inbox).blobs == 1
    assert "reap" not in {kind.value for kind in ActionKind}
    node.database.close()


@clause("13.6")
def test_a_newer_scoreboard_takes_the_place_of_an_older_one_and_never_the_other_way(tmp_path: Path) -> None:
    node = open_node_file(tmp_path / "node.db")
    score = FleetAction(action=ActionKind.SCOREBOARD, node=node_id(1), score=0.25, reason="measured", as_of_ms=NOW_MS)
    newer = replace(score, score=0.75, as_of_ms=NOW_MS + 1)
    assert scoreboard(node.database) == {}
    for board, outcome in (
        ([score], ActionResult.DONE),
        ([newer], ActionResult.DONE),
        ([score], ActionResult.ALREADY_DONE),
    ):
        assert take_scoreboard(node.database, node.journal, board, now_ms=NOW_MS + 2) is outcome
    assert take_scoreboard(node.database, node.journal, [newer], now_ms=NOW_MS + 2) is ActionResult.ALREADY_DONE
    assert scoreboard(node.database) == {node_id(1): 0.75}
    assert [fact.kind for fact in facts(node.journal)] == [JournalKind.SCOREBOARD_APPLIED] * 2
    node.database.close()

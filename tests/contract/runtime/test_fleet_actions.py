"""What the fleet proposes, carried out in a client's and a node's file: once, journaled, and never against the file."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from restante.core.mailbox import Keep
from restante.core.outbox_events import TransmitFailed, TransmitSucceeded
from restante.model.fleet_actions import ActionKind, FleetAction
from restante.model.ids import InboxKey, WriterId
from restante.model.journal import JournalKind
from restante.model.states import State
from restante.policy.failures import Failure
from restante.policy.quota import MailboxQuota
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
from support.sqlite.files import NOW_MS, ClientFile, assert_books_balance, facts, open_client_file, open_node_file

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


@clause("13.6")
def test_no_action_deletes_mail_from_a_node(tmp_path: Path) -> None:
    node = open_node_file(tmp_path / "node.db")
    inbox = InboxKey(b"i" * 32)
    keep = Keep(inbox, sealed(1), NOW_MS + DAY_MS, b"envelope")
    node.mailbox.put_all([keep], quota=MailboxQuota(), now_ms=NOW_MS)
    told = facts(node.journal)
    for kind in ActionKind:
        action = proposal(kind, node.journal.writer, payload_hash=sealed(1), message_id=message(1))
        assert NodeActions(node.journal).apply(action) is not ActionResult.DONE
    assert node.mailbox.usage(inbox).blobs == 1
    assert facts(node.journal) == told
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

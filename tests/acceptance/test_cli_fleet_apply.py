"""`restante fleet apply` as an operator runs it: on a node's file, twice."""

from pathlib import Path
from typing import Any

from restante.cli.fleet.action_files import ActionFiles
from restante.core.mailbox import Keep
from restante.model.fleet_actions import ActionKind, FleetAction
from restante.model.ids import InboxKey
from restante.policy.quota import MailboxQuota
from support.cli.outbox_commands import Operator
from support.fleet.journal_files import node_id, sealed
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, facts, open_node_file


@clause("13.6")
def test_applying_twice_changes_nothing_more(tmp_path: Path) -> None:
    operator = Operator(tmp_path)
    node = open_node_file(operator.path)
    keep = Keep(InboxKey(b"i" * 32), sealed(1), NOW_MS + 1, b"envelope")
    node.mailbox.put_all([keep], quota=MailboxQuota(), now_ms=NOW_MS)
    files = ActionFiles(tmp_path / "actions")
    common: dict[str, Any] = {"reason": "why", "as_of_ms": NOW_MS}
    files.add(FleetAction(action=ActionKind.REPAIR, target=node.journal.writer, payload_hash=sealed(1), **common))
    files.add(FleetAction(action=ActionKind.SCOREBOARD, node=node_id(1), score=0.5, **common))
    assert files.publish() == 2
    assert [row["outcome"] for row in operator.json("fleet apply actions")] == ["not supported", "done"]
    told = facts(node.journal)
    assert [fact.kind for fact in told] == ["stored", "scoreboard_taken"]
    assert [row["outcome"] for row in operator.json("fleet apply actions")] == [
        "not supported",
        "already done",
    ]
    assert facts(node.journal) == told
    node.database.close()


def test_a_broken_line_and_a_missing_directory_are_named(tmp_path: Path) -> None:
    operator = Operator(tmp_path)
    open_node_file(operator.path).database.close()
    assert "nowhere is not a directory" in operator.run("fleet apply nowhere", status=1).stderr
    (tmp_path / "actions").mkdir()
    assert "No actions for this file." in operator.run("fleet apply actions").stdout
    (tmp_path / "actions" / "all.actions.jsonl").write_text("{}\n", "utf-8")
    assert "all.actions.jsonl, line 1:" in operator.run("fleet apply actions", status=2).stderr

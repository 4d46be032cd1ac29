"""`restante fleet apply` as an operator runs it: on a node's file, twice."""

from pathlib import Path
from typing import Any

from restante.cli.fleet.action_files import ActionFiles
from restante.core.fleet.signed_actions import sign_actions
from restante.core.mailbox import Keep
from restante.crypto.identity import Identity
from restante.model.fleet_actions import ActionKind, FleetAction
from restante.model.ids import InboxKey
from restante.policy.quota import MailboxQuota
from restante.runtime.system import SystemClock
from restante.wire.fleet_actions import encode_action
from support.cli.outbox_commands import Operator
from support.fleet.journal_files import node_id, sealed
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, facts, open_node_file

OPERATOR = Identity(bytes(32))
KEY = f"--operator-key {bytes(OPERATOR.address).hex()}"


def soon_ms() -> int:
    return SystemClock().now_ms() + 60_000


@clause("13.6")
def test_applying_twice_changes_nothing_more(tmp_path: Path) -> None:
    operator = Operator(tmp_path)
    node = open_node_file(operator.path)
    keep = Keep(InboxKey(b"i" * 32), sealed(1), NOW_MS + 1, b"envelope")
    node.mailbox.put_all([keep], quota=MailboxQuota(), now_ms=NOW_MS)
    files = ActionFiles(tmp_path / "actions", OPERATOR, expires_at_ms=soon_ms())
    common: dict[str, Any] = {"reason": "why", "as_of_ms": NOW_MS}
    files.add(FleetAction(action=ActionKind.REPAIR, target=node.journal.writer, payload_hash=sealed(1), **common))
    files.add(FleetAction(action=ActionKind.SCOREBOARD, node=node_id(1), score=0.5, **common))
    assert files.publish() == 2
    refused = "not supported"
    assert [row["outcome"] for row in operator.json(f"fleet apply actions {KEY}")] == [refused, "done"]
    told = facts(node.journal)
    assert [fact.kind for fact in told] == ["stored", "scoreboard_applied"]
    assert [row["outcome"] for row in operator.json(f"fleet apply actions {KEY}")] == [refused, "already done"]
    assert facts(node.journal) == told
    node.database.close()


def test_a_broken_line_and_a_missing_directory_are_named(tmp_path: Path) -> None:
    operator = Operator(tmp_path)
    open_node_file(operator.path).database.close()
    assert "nowhere is not a directory" in operator.run(f"fleet apply nowhere {KEY}", status=1).stderr
    (tmp_path / "actions").mkdir()
    assert "No actions for this file." in operator.run(f"fleet apply actions {KEY}").stdout
    signed = sign_actions([b"{}\n"], file="all.actions.jsonl", operator=OPERATOR, expires_at_ms=soon_ms())
    (tmp_path / "actions" / "all.actions.jsonl").write_bytes(signed)
    assert "all.actions.jsonl, line 2:" in operator.run(f"fleet apply actions {KEY}", status=2).stderr


@clause("13.6")
def test_a_forged_an_unsigned_and_an_expired_action_change_nothing(tmp_path: Path) -> None:
    operator = Operator(tmp_path)
    node = open_node_file(operator.path)
    score = FleetAction(action=ActionKind.SCOREBOARD, node=node_id(1), score=0.5, reason="why", as_of_ms=NOW_MS)
    for signer, expires_at_ms, problem in (
        (Identity(bytes([7]) * 32), soon_ms(), "is not signed by the operator's key"),
        (OPERATOR, 1, "has expired"),
    ):
        files = ActionFiles(tmp_path / "actions", signer, expires_at_ms=expires_at_ms)
        files.add(score)
        files.publish()
        assert problem in operator.run(f"fleet apply actions {KEY}", status=1).stderr
    (tmp_path / "actions" / "all.actions.jsonl").write_bytes(encode_action(score))
    assert "is not signed" in operator.run(f"fleet apply actions {KEY}", status=1).stderr
    assert facts(node.journal) == []
    node.database.close()


def test_an_operators_key_is_made_once_and_shown(tmp_path: Path) -> None:
    operator = Operator(tmp_path)
    public = operator.run("fleet key new operator.key").stdout.strip()
    assert len(bytes.fromhex(public)) == 32
    assert operator.run("fleet key show operator.key").stdout.strip() == public
    assert (tmp_path / "operator.key").stat().st_mode & 0o077 == 0
    refused = operator.run("fleet key new operator.key", status=1).stderr
    assert "never overwritten" in refused
    assert "fleet key show operator.key" in refused

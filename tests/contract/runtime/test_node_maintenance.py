"""What a node notes in its file: the delay of reaping over restarts, and how often it refused."""

from pathlib import Path

from restante.model.error_codes import Code
from restante.model.journal import JournalKind
from restante.policy.reaping import CLOCK_JUMP_MS, may_reap
from restante.runtime.sqlite.mailbox.maintenance import delay_reaping, journal_refusals
from support.relay.puts import ALICE, put
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, facts, open_node_file


@clause("6.10")
def test_a_delay_is_kept_over_restarts_until_it_is_over(tmp_path: Path) -> None:
    file = open_node_file(tmp_path / "node.db")
    assert delay_reaping(file.database, now_ms=NOW_MS) == 0
    put(file.mailbox, ALICE, b"stored now")
    jumped_ms = NOW_MS + 31 * CLOCK_JUMP_MS
    until_ms = delay_reaping(file.database, now_ms=jumped_ms)
    assert until_ms == jumped_ms + CLOCK_JUMP_MS
    with file.database.transaction():
        file.journal.append(JournalKind.NODE_STARTED, at_ms=jumped_ms)
    file.database.close()
    again = open_node_file(tmp_path / "node.db")
    assert delay_reaping(again.database, now_ms=jumped_ms + 1_000) == until_ms
    assert not may_reap(now_ms=jumped_ms + 1_000, not_before_ms=until_ms)
    again.database.close()


@clause("13.1")
def test_refusals_are_journaled_by_code_with_their_number(tmp_path: Path) -> None:
    file = open_node_file(tmp_path / "node.db")
    with file.database.transaction():
        journal_refusals(file.journal, {Code.STORAGE_FAILED: 2**40, Code.RATE_LIMITED: 3}, now_ms=NOW_MS)
    assert [(fact.kind, fact.code, fact.attempt) for fact in facts(file.journal)] == [
        (JournalKind.REFUSED, "E004", 2**31 - 1),
        (JournalKind.REFUSED, "E007", 3),
    ]
    file.database.close()

"""Old journal events leave the writer's file: some time after they were shipped, and never before."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.model.journal import JournalKind
from restante.policy.shipping import DAY_MS, HOUR_MS
from restante.runtime.journal.pruner import JournalPruner
from restante.runtime.sqlite.file import journal_pruning
from restante.runtime.sqlite.file.group_commit import GroupCommit
from restante.runtime.sqlite.file.journal_pruning import prune
from restante.testing.deterministic import FakeClock
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, NodeFile, facts, open_node_file


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeFile]:
    made = open_node_file(tmp_path / "node.db")
    yield made
    made.database.close()


def note(node: NodeFile, count: int, at_ms: int = NOW_MS) -> None:
    with node.database.transaction():
        for _ in range(count):
            node.journal.append(JournalKind.SECURITY, at_ms=at_ms)


def pruned(node: NodeFile, now_ms: int, *, is_shipped: bool = True) -> int:
    with node.database.transaction():
        return prune(node.database, now_ms=now_ms, is_shipped=is_shipped)


def left(node: NodeFile) -> int:
    return len(facts(node.journal))


@clause("13.1")
def test_events_leave_seven_days_after_they_were_shipped_but_for_the_newest(node: NodeFile) -> None:
    note(node, 5)
    node.journal.mark_shipped(3, at_ms=NOW_MS)
    node.journal.mark_shipped(5, at_ms=NOW_MS + DAY_MS)
    assert pruned(node, NOW_MS + 7 * DAY_MS - 1) == 0
    assert pruned(node, NOW_MS + 7 * DAY_MS + HOUR_MS) == 3
    assert pruned(node, NOW_MS + 7 * DAY_MS + HOUR_MS) == 0
    assert pruned(node, NOW_MS + 60 * DAY_MS) == 1
    assert left(node) == 1
    note(node, 1)
    assert node.journal.last_number() == 6  # numbers go on


@clause("13.1")
def test_events_that_wait_for_a_segment_store_stay_however_old_they_are(node: NodeFile) -> None:
    note(node, 3)
    assert pruned(node, NOW_MS + 400 * DAY_MS) == 0
    node.journal.mark_shipped(2, at_ms=NOW_MS)
    note(node, 2)
    assert pruned(node, NOW_MS + 400 * DAY_MS, is_shipped=False) == 2
    assert left(node) == 3


@clause("13.1")
def test_where_nothing_is_shipped_events_leave_after_thirty_days(node: NodeFile) -> None:
    note(node, 2)
    note(node, 2, NOW_MS + 2 * DAY_MS)
    note(node, 1, NOW_MS)  # a clock that was set back hides nothing behind it
    assert pruned(node, NOW_MS + 30 * DAY_MS, is_shipped=False) == 0
    assert pruned(node, NOW_MS + 30 * DAY_MS + 1, is_shipped=False) == 2
    assert left(node) == 3


async def test_a_long_journal_is_pruned_in_short_transactions(node: NodeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_pruning, "EVENTS_PER_PRUNE", 4)
    monkeypatch.setattr("restante.runtime.journal.pruner.EVENTS_PER_PRUNE", 4)
    note(node, 11)
    node.journal.mark_shipped(11, at_ms=NOW_MS)
    clock = FakeClock()
    clock.advance(NOW_MS - clock.now_ms() + 8 * DAY_MS)
    commits = GroupCommit(node.database)
    assert await JournalPruner(node.database, commits=commits, clock=clock, is_shipped=True).prune_all() == 10
    commits.close()
    assert left(node) == 1

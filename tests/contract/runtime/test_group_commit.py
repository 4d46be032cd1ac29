"""Group commit: who waits together shares one commit, and nobody suffers for another's mistake."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from restante.model.errors import DuplicateMessageId, StoreUnusable
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.group_commit import LATER_S, LONELY_TURN_S, MAX_GROUP, QUICK_DISK_S, GroupCommit
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S


class CountingDatabase(Database):
    """Counts its commits, and can be told to fail the next ones."""

    def __init__(self, path: Path, *, schema: str) -> None:
        self.commits = 0
        self.fails = False
        self.takes_s = 0.0
        self.now_s = 0.0
        self.committed_by: list[int] = []
        super().__init__(path, schema=schema)

    def time_s(self) -> float:
        """A clock that only commits move."""
        return self.now_s

    def commit(self) -> None:
        self.commits += 1
        self.now_s += self.takes_s
        self.committed_by.append(threading.get_ident())
        if self.fails:
            self.roll_back()
            raise StoreUnusable("node.db: the disk is full or failing")
        super().commit()


@pytest.fixture
def database(tmp_path: Path) -> CountingDatabase:
    made = CountingDatabase(tmp_path / "node.db", schema="node")
    made.commits = 0
    made.committed_by = []
    return made


@pytest.fixture
async def group(database: CountingDatabase) -> AsyncIterator[GroupCommit]:
    made = GroupCommit(database)
    yield made
    made.close()
    database.close()


def kept(database: Database) -> list[str]:
    """What another connection sees: only what was committed."""
    other = Database(database.path, schema="node")
    try:
        return [key for (key,) in other.run("SELECT key FROM meta ORDER BY key")]
    finally:
        other.close()


def keeping(database: Database, key: str) -> Callable[[], str]:
    def operation() -> str:
        database.run("INSERT INTO meta (key, value) VALUES (:key, x'00')", key=key)
        return key

    return operation


def refusing(database: Database, key: str | None = None) -> Callable[[], str]:
    """Refuses, having written `key` before if there is one."""

    def operation() -> str:
        if key is not None:
            keeping(database, key)()
        raise DuplicateMessageId

    return operation


@clause("3.2")
async def test_those_that_wait_together_share_one_commit(group: GroupCommit, database: CountingDatabase) -> None:
    keys = [f"{number:02d}" for number in range(64)]
    answers = await asyncio.gather(*(group.run(keeping(database, key)) for key in keys))
    assert answers == keys
    assert kept(database) == keys
    assert database.commits == 1


@clause("3.2")
async def test_nobody_is_answered_before_its_change_is_on_disk(group: GroupCommit, database: CountingDatabase) -> None:
    seen: list[list[str]] = []

    async def keep(key: str) -> None:
        await group.run(keeping(database, key))
        seen.append(kept(database))

    await asyncio.gather(keep("a"), keep("b"))
    await keep("c")
    assert seen == [["a", "b"], ["a", "b"], ["a", "b", "c"]]
    assert database.commits == 2


async def test_who_comes_while_a_group_is_committed_is_in_the_next(
    group: GroupCommit, database: CountingDatabase
) -> None:
    async def twice(key: str) -> None:
        await group.run(keeping(database, key))
        await group.run(keeping(database, key + " again"))

    await asyncio.gather(*(twice(str(number)) for number in range(10)))
    assert len(kept(database)) == 20
    assert database.commits == 2


@pytest.mark.parametrize(("took_s", "is_on_the_loop"), [(QUICK_DISK_S / 2, True), (QUICK_DISK_S * 2, False)])
async def test_several_wait_on_the_loop_only_for_a_disk_that_was_quick(
    database: CountingDatabase, took_s: float, *, is_on_the_loop: bool
) -> None:
    database.takes_s = took_s
    group = GroupCommit(database, time_s=database.time_s)
    for turn in range(3):
        await asyncio.gather(*(group.run(keeping(database, f"{turn} {number}")) for number in range(3)))
    here = threading.get_ident()
    # How long the disk takes is known only after the first.
    assert [thread == here for thread in database.committed_by] == [False, is_on_the_loop, is_on_the_loop]
    group.close()
    database.close()


async def test_one_that_was_alone_before_does_not_keep_others_from_sharing(
    group: GroupCommit, database: CountingDatabase
) -> None:
    async def alone_then_together() -> None:
        for number in range(3):
            await group.run(keeping(database, f"alone {number}"))
        assert database.commits == 3
        others = [asyncio.create_task(group.run(keeping(database, f"other {number}"))) for number in range(63)]
        await asyncio.sleep(0)  # they are all in line
        await group.run(keeping(database, "with them"))
        await asyncio.gather(*others)

    await asyncio.create_task(alone_then_together())
    assert len(kept(database)) == 67
    assert database.commits == 4


async def test_a_caller_that_commits_on_and_on_leaves_turns_to_the_others(
    group: GroupCommit, database: CountingDatabase
) -> None:
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    began_s = time.monotonic()
    commits = 0
    while time.monotonic() - began_s < 20 * LONELY_TURN_S or commits < 2:
        await group.run(keeping(database, str(commits)))
        commits += 1
    assert turns >= 2
    other.cancel()


async def test_an_operation_alone_that_refuses_leaves_nothing_behind(
    group: GroupCommit, database: CountingDatabase
) -> None:
    await group.run(keeping(database, "first"))
    with pytest.raises(DuplicateMessageId):
        await group.run(refusing(database, "refused"))
    await group.run(keeping(database, "last"))
    assert kept(database) == ["first", "last"]


async def test_a_group_has_a_limit(group: GroupCommit, database: CountingDatabase) -> None:
    await asyncio.gather(*(group.run(keeping(database, str(number))) for number in range(MAX_GROUP + 1)))
    assert len(kept(database)) == 257
    assert database.commits == 2


async def test_who_refuses_without_having_written_does_not_disturb_the_group(
    group: GroupCommit, database: CountingDatabase
) -> None:
    answers = await asyncio.gather(
        group.run(keeping(database, "a")),
        group.run(refusing(database)),
        group.run(keeping(database, "b")),
        return_exceptions=True,
    )
    assert [answers[0], answers[2]] == ["a", "b"]
    assert isinstance(answers[1], DuplicateMessageId)
    assert kept(database) == ["a", "b"]
    assert database.commits == 1


async def test_who_refuses_after_having_written_is_undone_alone(group: GroupCommit, database: CountingDatabase) -> None:
    answers = await asyncio.gather(
        group.run(keeping(database, "a")),
        group.run(refusing(database, "half")),
        group.run(refusing(database)),
        group.run(keeping(database, "b")),
        return_exceptions=True,
    )
    assert [answers[0], answers[3]] == ["a", "b"]
    assert isinstance(answers[1], DuplicateMessageId)
    assert isinstance(answers[2], DuplicateMessageId)
    assert kept(database) == ["a", "b"]
    assert await group.run(keeping(database, "c")) == "c"


@pytest.mark.parametrize("half", [None, "half"])
async def test_a_mistake_in_one_operation_is_told_to_its_caller_and_to_nobody_else(
    group: GroupCommit, database: CountingDatabase, half: str | None
) -> None:
    def mistaken() -> str:
        if half is not None:
            keeping(database, half)()
        raise ZeroDivisionError

    answers = await asyncio.wait_for(
        asyncio.gather(
            group.run(keeping(database, "a")),
            group.run(mistaken),
            group.run(keeping(database, "b")),
            return_exceptions=True,
        ),
        LIMIT_S,
    )
    assert [answers[0], answers[2]] == ["a", "b"]
    assert isinstance(answers[1], ZeroDivisionError)
    assert kept(database) == ["a", "b"]
    assert await asyncio.wait_for(group.run(keeping(database, "c")), LIMIT_S) == "c"


@clause("3.2")
@pytest.mark.parametrize("callers", [1, 3])
async def test_a_commit_that_fails_fails_everyone_and_keeps_nothing(
    group: GroupCommit, database: CountingDatabase, callers: int
) -> None:
    database.fails = True
    keys = [str(number) for number in range(callers)]
    answers = await asyncio.gather(*(group.run(keeping(database, key)) for key in keys), return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnusable] * callers
    database.fails = False
    assert kept(database) == []
    assert await group.run(keeping(database, "later")) == "later"
    assert kept(database) == ["later"]


async def test_a_file_that_another_holds_fails_everyone_clearly(tmp_path: Path) -> None:
    database = Database(tmp_path / "node.db", schema="node", busy_timeout_ms=10)
    holder = Database(tmp_path / "node.db", schema="node")
    group = GroupCommit(database)
    with holder.transaction():
        answers = await asyncio.gather(
            group.run(keeping(database, "a")), group.run(keeping(database, "b")), return_exceptions=True
        )
    assert [str(answer) for answer in answers] == [
        "node.db is still locked by another process; nothing was changed"
    ] * 2
    assert await group.run(keeping(database, "c")) == "c"
    assert kept(database) == ["c"]
    group.close()
    database.close()
    holder.close()


async def test_what_was_cancelled_before_it_began_is_not_done(group: GroupCommit, database: CountingDatabase) -> None:
    tasks = [asyncio.create_task(group.run(keeping(database, key))) for key in ("a", "b", "c")]
    await asyncio.sleep(0)  # each has queued its operation; the group is taken in the next turn of the loop
    tasks[1].cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [answers[0], answers[2]] == ["a", "c"]
    assert isinstance(answers[1], asyncio.CancelledError)
    assert kept(database) == ["a", "c"]


async def test_everyone_may_give_up_and_the_next_is_served(group: GroupCommit, database: CountingDatabase) -> None:
    task = asyncio.create_task(group.run(keeping(database, "a")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.wait_for(group.run(keeping(database, "b")), LIMIT_S) == "b"
    assert kept(database) == ["b"]


async def test_answers_come_in_the_order_of_asking_and_so_do_the_operations(
    group: GroupCommit, database: CountingDatabase
) -> None:
    done: list[str] = []
    answered: list[str] = []

    async def ask(key: str) -> None:
        def operation() -> str:
            done.append(key)
            return keeping(database, key)()

        answered.append(await group.run(operation))

    await asyncio.gather(*(ask(key) for key in "cab"))
    assert done == answered == ["c", "a", "b"]


async def test_a_closed_group_refuses_and_leaves_nobody_waiting(database: CountingDatabase) -> None:
    group = GroupCommit(database)
    under_way = [asyncio.create_task(group.run(keeping(database, key))) for key in ("a", "b")]
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # the group of two is being committed
    late = [asyncio.create_task(group.run(keeping(database, key))) for key in ("c", "d")]
    await asyncio.sleep(0)
    group.close()
    answers = await asyncio.wait_for(asyncio.gather(*under_way, *late, return_exceptions=True), LIMIT_S)
    assert answers[:2] == ["a", "b"]
    assert [type(answer) for answer in answers[2:]] == [StoreUnusable, StoreUnusable]
    with pytest.raises(StoreUnusable, match="closed"):
        await group.run(keeping(database, "e"))
    assert kept(database) == ["a", "b"]
    database.close()


async def test_what_may_wait_joins_the_next_commit_and_comes_first(
    database: CountingDatabase, group: GroupCommit
) -> None:
    order: list[str] = []
    later = group.run_later(lambda: order.append("later"))
    await asyncio.sleep(0)
    assert database.commits == 0
    await group.run(lambda: order.append("now"))
    await later
    assert order == ["later", "now"]
    assert database.commits == 1


async def test_what_may_wait_is_committed_alone_if_nothing_else_is(
    database: CountingDatabase, group: GroupCommit
) -> None:
    async with asyncio.timeout(LIMIT_S):
        assert await group.run_later(keeping(database, "later")) == "later"
    assert kept(database) == ["later"]


async def test_what_may_wait_is_not_forgotten_when_its_time_comes_during_a_commit(
    database: CountingDatabase, group: GroupCommit
) -> None:
    database.takes_s = 2 * QUICK_DISK_S  # so that threads commit
    slow = asyncio.create_task(group.run(lambda: time.sleep(2 * LATER_S)))  # keeps the committing thread busy
    other = asyncio.create_task(group.run(keeping(database, "other")))
    later = group.run_later(keeping(database, "later"))
    async with asyncio.timeout(LIMIT_S):
        await asyncio.gather(slow, other, later)
    assert kept(database) == ["later", "other"]


async def test_reading_commits_nothing(database: CountingDatabase, group: GroupCommit) -> None:
    await group.run(keeping(database, "a"))
    commits = database.commits
    later = group.run_later(keeping(database, "b"))
    await asyncio.sleep(0)
    assert await group.read(lambda: database.run("SELECT key FROM meta")) == [("a",)]
    assert database.commits == commits
    await later

"""A journal that leaves by itself, beside other work."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from restante.model.errors import ConfigurationInvalid, StoreUnusable
from restante.model.journal import JournalKind
from restante.policy.shipping import JournalShipping, next_shipping_ms
from restante.runtime.journal.shipper import ShipNext, Shipped, Shipper, shipping_to
from restante.runtime.sqlite.file.group_commit import GroupCommit
from restante.runtime.sqlite.file.journal import Journal
from restante.testing.deterministic import FakeClock, SeededEntropy
from support.fleet.journal_files import shipped_numbers
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, NodeFile, open_node_file
from support.system.wait_until import LIMIT_S, until_true

OFTEN = JournalShipping(ship_interval_ms=100)


def note(node: NodeFile, count: int) -> None:
    for _ in range(count):
        node.journal.append(JournalKind.SECURITY, at_ms=NOW_MS)


class Troubles:
    def __init__(self) -> None:
        self.told: list[Exception] = []
        self.recoveries = 0

    def recovered(self) -> None:
        self.recoveries += 1


@asynccontextmanager
async def shipping(
    directory: Path, ship: ShipNext | None = None, settings: JournalShipping = OFTEN
) -> AsyncIterator[tuple[NodeFile, GroupCommit, Shipper, Troubles]]:
    node = open_node_file(directory / "node.db")
    commits = GroupCommit(node.database)
    troubles = Troubles()
    shipper = Shipper(
        node.database,
        node.journal,
        ship or shipping_to(str(directory / "out")),
        schema="node",
        commits=commits,
        settings=settings,
        clock=FakeClock(),
        entropy=SeededEntropy(1),
        on_trouble=troubles.told.append,
        on_recovery=troubles.recovered,
    )
    yield node, commits, shipper, troubles
    commits.close()
    node.database.close()


@clause("13.1")
async def test_facts_leave_again_and_again_and_the_last_ones_at_the_end(tmp_path: Path) -> None:
    async with shipping(tmp_path) as (node, commits, shipper, troubles):
        await commits.run(partial(note, node, 3))
        shipper.start()
        await until_true(lambda: node.journal.shipped_through() == 3)
        await commits.run(partial(note, node, 2))
        await until_true(lambda: node.journal.shipped_through() == 5)
        await commits.run(partial(note, node, 4))
        await shipper.finish()
        assert node.journal.shipped_through() == 9
        assert shipped_numbers(tmp_path / "out") == list(range(1, 10))
        stats = shipper.stats()
        assert (stats.events_total, stats.waiting, stats.failures_total) == (9, 0, 0)
        assert stats.last_at_ms == FakeClock().now_ms()
        assert troubles.told == []


@clause("13.1")
async def test_a_depot_that_cannot_be_written_only_delays_the_facts(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("in the way", "utf-8")
    async with shipping(tmp_path) as (node, commits, shipper, troubles):
        await commits.run(partial(note, node, 3))
        shipper.start()
        await until_true(lambda: troubles.told)
        assert isinstance(troubles.told[0], StoreUnusable)
        assert (shipper.stats().is_failing, shipper.stats().waiting) == (True, 3)
        await commits.run(partial(note, node, 1))  # who writes facts notices nothing
        assert node.journal.shipped_through() == 0
        out.unlink()
        await shipper.finish()
        assert shipped_numbers(out) == [1, 2, 3, 4]
        assert (troubles.recoveries, shipper.stats().is_failing) == (1, False)


async def test_a_mistake_of_ours_in_shipping_stops_nothing_else(tmp_path: Path) -> None:
    def broken(_journal: object, /) -> None:
        raise ZeroDivisionError

    async with shipping(tmp_path, broken) as (node, commits, shipper, troubles):
        shipper.start()
        await until_true(lambda: troubles.told)
        await commits.run(partial(note, node, 1))
        await shipper.finish()
        assert {type(problem) for problem in troubles.told} == {ZeroDivisionError}


async def test_a_depot_that_hangs_keeps_nobody_from_writing_and_nobody_from_ending(tmp_path: Path) -> None:
    reached, let_go = threading.Event(), threading.Event()

    def hangs(_journal: object, /) -> None:
        reached.set()
        let_go.wait(LIMIT_S)

    async with shipping(tmp_path, hangs) as (node, commits, shipper, _):
        shipper.start()
        await until_true(reached.is_set)
        await commits.run(partial(note, node, 1))
        async with asyncio.timeout(LIMIT_S):
            await shipper.finish(within_s=0.1)
        let_go.set()


async def test_a_mark_never_goes_back_behind_that_of_another_process(tmp_path: Path) -> None:
    inner = shipping_to(str(tmp_path / "out"))
    calls: list[object] = []

    def overtaken(journal: Journal, /) -> Shipped | None:
        """While the first three facts are on their way, somebody else ships five."""
        calls.append(segment := inner(journal))
        if len(calls) == 1:
            other = open_node_file(tmp_path / "node.db")
            with other.database.transaction():
                note(other, 2)
            other.journal.mark_shipped(5)
            other.database.close()
        return segment

    async with shipping(tmp_path, overtaken) as (node, commits, shipper, troubles):
        await commits.run(partial(note, node, 3))
        await shipper.finish()
        assert troubles.told == []
        assert len(calls) == 2
        assert node.journal.shipped_through() == 5


async def test_nothing_new_makes_no_file(tmp_path: Path) -> None:
    async with shipping(tmp_path) as (_, _, shipper, _):
        await shipper.finish()
        assert not (tmp_path / "out").exists()


def test_failures_are_tried_again_by_the_schedule_of_messages_but_within_minutes() -> None:
    waits = [next_shipping_ms(JournalShipping(), failures=failures, dice=0.0) for failures in range(12)]
    assert waits == [60_000, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000]
    assert next_shipping_ms(JournalShipping(), failures=1, dice=1.0) == 1_200


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("out", "journal.ship_to must be an absolute path"),
        ("ftp://host/out", "journal.ship_to: ftp:// is not known; the schemes are file, s3"),
    ],
)
def test_an_address_that_is_none_is_refused_before_anything_starts(address: str, problem: str) -> None:
    with pytest.raises(ConfigurationInvalid) as caught:
        shipping_to(address)
    assert problem in str(caught.value)

"""Runs of a backlog leave at intervals, on the routes that carry mail; other routes do not wait."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from restante.client.drain import RUN_INTERVAL_S
from restante.client.outbox import Destination, Message, Outbox
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route
from restante.policy.send_order import WINDOW
from restante.ports.carrier import StoredByNode
from restante.runtime.sqlite.file.group_commit import LATER_S
from restante.testing.deterministic import FakeClock
from restante.testing.virtual_time import run_in_virtual_time
from support.outbox.scripted_carrier import Wire
from support.spec.clauses import clause

ANSWER_S = 0.001
TURNS = 20


class TimedWire(Wire):
    """Notes when each message was taken."""

    def __init__(self, messages: int) -> None:
        super().__init__()
        self.times_s: list[float] = []
        self.has_all = asyncio.Event()
        self._messages = messages

    async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
        self.times_s.append(asyncio.get_running_loop().time())
        if len(self.times_s) == self._messages:
            self.has_all.set()
        return await super().transmit(entry)


def times_of_sending(path: Path, route: Route, messages: int) -> list[float]:
    async def run() -> list[float]:
        outbox = Outbox.open(path / "outbox.db", clock=clock)
        wire = TimedWire(messages)
        await outbox.send_many(
            [(Message(payload=b"%d" % number), Destination(route, "bob")) for number in range(messages)]
        )
        running = asyncio.create_task(outbox.run({route: wire}))
        await wire.has_all.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        outbox.abandon()
        return wire.times_s

    clock = FakeClock()
    return run_in_virtual_time(run(), clock)


@pytest.mark.parametrize("route", [Route.RELAY, Route.MESH])
def test_runs_of_mail_leave_an_interval_apart(tmp_path: Path, route: Route) -> None:
    times_s = times_of_sending(tmp_path, route, 2 * WINDOW)
    first, second = sorted(set(times_s))
    assert times_s.count(first) == WINDOW
    assert second - first >= RUN_INTERVAL_S


@pytest.mark.parametrize("route", [Route.UPSTREAM, Route.CHANNEL])
def test_on_a_route_with_one_entry_in_flight_the_next_one_leaves_when_it_ends(tmp_path: Path, route: Route) -> None:
    times_s = times_of_sending(tmp_path, route, 10)
    assert max(after - before for before, after in pairwise(times_s)) < LATER_S


class SlowAnswer(TimedWire):
    """Has a message at once, as its recipient does, and says so a little later, as a relay does."""

    def __init__(self, messages: int) -> None:
        super().__init__(messages)
        self.arrived: asyncio.Queue[float] = asyncio.Queue()

    async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
        self.arrived.put_nowait(asyncio.get_running_loop().time())
        await asyncio.sleep(ANSWER_S)
        return await super().transmit(entry)


@clause("3.4")
def test_messages_that_leave_one_by_one_do_not_wait_for_an_interval(tmp_path: Path) -> None:
    async def run() -> list[float]:
        outbox = Outbox.open(tmp_path / "outbox.db", clock=clock)
        wire = SlowAnswer(TURNS)
        running = asyncio.create_task(outbox.run({Route.RELAY: wire}))
        taken_s: list[float] = []
        for number in range(TURNS):
            sent_s = asyncio.get_running_loop().time()
            await outbox.send(Message(payload=b"%d" % number), Destination(Route.RELAY, "bob"))
            taken_s.append(await wire.arrived.get() - sent_s)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        outbox.abandon()
        return taken_s

    clock = FakeClock()
    assert max(run_in_virtual_time(run(), clock)) < RUN_INTERVAL_S

"""The outbox as a library: waiting for space, bulk, and lanes that leave at once."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from restante.client.drain import RUN_INTERVAL_S
from restante.client.outbox import Destination, Message, Outbox
from restante.model.errors import OutboxFull
from restante.model.outbox_entry import OutboxEntry
from restante.model.send_receipt import Queued, Sent
from restante.model.states import Route, State
from restante.policy.capacity import OutboxLimits
from restante.policy.failures import Failure
from restante.policy.send_order import WINDOW
from restante.policy.settings import Settings
from restante.ports.carrier import StoredByNode
from restante.testing.deterministic import FakeClock
from restante.testing.virtual_time import run_in_virtual_time
from restante.wire.acks import AckType
from support.outbox.scripted_carrier import MESH, SERVER, Wire, running, sent, state
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S, until_true

# Space


TIGHT = Settings(outbox=OutboxLimits(max_entries=100, max_lane_share=1.0))
IDLE_S = 0.05
"""In virtual time, which passes only when every task waits: afterwards the loop of the outbox is idle."""


def run_with_outbox(
    scenario: Callable[[Outbox], Coroutine[Any, Any, None]], home: Path, settings: Settings | None = None
) -> None:
    clock = FakeClock()

    async def main() -> None:
        outbox = Outbox.open(home / "outbox.db", settings=settings or Settings(), clock=clock)
        try:
            await scenario(outbox)
        finally:
            await outbox.close()

    run_in_virtual_time(main(), clock)


@clause("1.8", "3.6")
def test_a_send_that_waits_goes_on_when_there_is_space_and_in_the_order_of_its_callers(tmp_path: Path) -> None:
    async def scenario(outbox: Outbox) -> None:
        first, *_ = await outbox.send_many([(Message(payload=b"x"), MESH)] * 100)
        later = [asyncio.create_task(outbox.send(Message(payload=b"%d" % n), MESH, wait=True)) for n in range(3)]
        await asyncio.sleep(IDLE_S)
        assert not any(task.done() for task in later)
        await outbox.drain({Route.MESH: Wire()})
        await outbox.acknowledge(first.message_id, AckType.RECEIPT)
        receipt = await later[0]
        await asyncio.sleep(IDLE_S)
        assert not later[1].done()
        await outbox.cancel(receipt.message_id)
        await outbox.discard(receipt.message_id)
        await later[1]
        await asyncio.sleep(IDLE_S)
        assert not later[2].done()
        later[2].cancel()

    run_with_outbox(scenario, tmp_path, TIGHT)


@clause("3.6")
async def test_a_send_that_waits_refuses_at_its_deadline_and_names_what_is_full(tmp_path: Path) -> None:
    outbox = Outbox.open(tmp_path / "outbox.db", settings=TIGHT)
    await outbox.send_many([(Message(payload=b"x"), MESH)] * 100)
    with pytest.raises(OutboxFull, match="the outbox holds 100 messages"):
        await outbox.send(Message(payload=b"x"), MESH, wait=True, deadline_s=0.05)
    await outbox.close()


@clause("1.8", "3.6")
async def test_bulk_is_paced_by_the_space_there_is_and_loses_nothing(tmp_path: Path) -> None:
    outbox = Outbox.open(tmp_path / "outbox.db", settings=Settings(outbox=OutboxLimits(max_entries=200)))

    class Receipting(Wire):
        async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
            stored = await super().transmit(entry)
            receipts.append(asyncio.create_task(outbox.acknowledge(entry.message_id, AckType.RECEIPT)))
            return stored

    receipts: list[asyncio.Task[None]] = []
    wire = Receipting()
    items = ((Message(payload=b"%d" % number), MESH) for number in range(1_000))
    async with asyncio.timeout(LIMIT_S), running(outbox, {Route.MESH: wire}):
        sent_ids = [receipt.message_id async for receipt in outbox.send_paced(items)]
        await until_true(lambda: len(wire.taken) == 1_000)
        await asyncio.gather(*receipts)
    assert wire.taken == [b"%d" % number for number in range(1_000)], "in order, each once"
    assert {await state(outbox, one) for one in sent_ids} == {State.DELIVERED}
    await outbox.close()


# An idle lane


@clause("3.4")
def test_an_idle_connected_lane_leases_in_the_commit_that_accepts_its_message(tmp_path: Path) -> None:
    async def scenario(outbox: Outbox) -> None:
        async with running(outbox, {Route.MESH: Wire()}):
            await asyncio.sleep(IDLE_S)
            commits: list[dict[State, int]] = []
            outbox.file.after_commit(lambda: commits.append(outbox.store.counts()))
            await outbox.send(Message(payload=b"x"), MESH)
            assert commits[0] == {State.SENDING: 1}

    run_with_outbox(scenario, tmp_path)


@clause("3.4")
async def test_runs_of_a_backlog_leave_at_intervals(outbox: Outbox) -> None:
    at_s: list[float] = []

    class Timed(Wire):
        async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
            at_s.append(asyncio.get_running_loop().time())
            return await super().transmit(entry)

    await outbox.send_many([(Message(payload=b"%d" % number), MESH) for number in range(3 * WINDOW)])
    async with running(outbox, {Route.MESH: Timed()}):
        await until_true(lambda: len(at_s) == 3 * WINDOW)
    first, second, third = at_s[::WINDOW]
    assert second - first >= RUN_INTERVAL_S
    assert third - second >= RUN_INTERVAL_S


def test_a_change_that_makes_nothing_due_costs_no_commit(tmp_path: Path) -> None:
    async def scenario(outbox: Outbox) -> None:
        async with running(outbox, {Route.MESH: Wire()}):
            message_id = await sent(outbox, b"x")
            await outbox.acknowledge(message_id, AckType.RECEIPT)
            await asyncio.sleep(IDLE_S)
            commits: list[None] = []
            outbox.file.after_commit(lambda: commits.append(None))
            for _ in range(3):
                outbox.wake(is_thorough=False)
                await asyncio.sleep(IDLE_S)
            assert not commits

    run_with_outbox(scenario, tmp_path)


@clause("3.7")
def test_an_upstream_server_that_accepts_at_once_makes_it_sent_and_one_that_fails_queued(tmp_path: Path) -> None:
    async def scenario(outbox: Outbox) -> None:
        wire = Wire()
        async with running(outbox, {Route.UPSTREAM: wire}):
            await asyncio.sleep(IDLE_S)
            accepted = await outbox.send(Message(payload=b"x"), SERVER)
            wire.failures = [Failure.NETWORK_TIMEOUT]
            failed = await outbox.send(Message(payload=b"y"), SERVER)
            behind = await outbox.send(Message(payload=b"z"), SERVER)
            outcomes = [receipt.deliveries[0].outcome for receipt in (accepted, failed, behind)]
            assert outcomes == [Sent(), Queued(), Queued()]

    run_with_outbox(scenario, tmp_path)


@clause("3.10")
def test_the_drain_at_start_can_be_switched_off(tmp_path: Path) -> None:
    async def scenario(outbox: Outbox) -> None:
        await sent(outbox, b"old", Destination(Route.MESH, "carol"))
        wire = Wire()
        async with running(outbox, {Route.MESH: wire}):
            await asyncio.sleep(IDLE_S)
            assert wire.taken == []
            await sent(outbox, b"new")
            await asyncio.sleep(IDLE_S)
            assert sorted(wire.taken) == [b"new", b"old"]

    run_with_outbox(scenario, tmp_path, Settings(outbox=OutboxLimits(drain_on_startup=0)))

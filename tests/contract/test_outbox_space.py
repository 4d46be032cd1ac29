"""The outbox as a library: waiting for space, bulk, and lanes that leave at once."""

import asyncio
from pathlib import Path

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
from restante.wire.acks import AckType
from support.outbox.scripted_carrier import MESH, SERVER, Wire, sent, state
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S, until_true

# Space


TIGHT = Settings(outbox=OutboxLimits(max_entries=100, max_lane_share=1.0))


@clause("1.8", "3.6")
async def test_a_send_that_waits_goes_on_when_there_is_space_and_in_the_order_of_its_callers(tmp_path: Path) -> None:
    outbox = Outbox.open(tmp_path / "outbox.db", settings=TIGHT)
    first, *_ = await outbox.send_many([(Message(payload=b"x"), MESH)] * 100)
    later = [asyncio.create_task(outbox.send(Message(payload=b"%d" % n), MESH, wait=True)) for n in range(3)]
    await asyncio.sleep(0.05)
    assert not any(task.done() for task in later)
    wire = Wire()
    await outbox.drain({Route.MESH: wire})
    await outbox.acknowledge(first.message_id, AckType.RECEIPT)
    async with asyncio.timeout(LIMIT_S):
        await later[0]
    assert not later[2].done()
    for delivery in (await later[0]).deliveries:
        await outbox.cancel(delivery.message_id)
        await outbox.discard(delivery.message_id)
    async with asyncio.timeout(LIMIT_S):
        await later[1]
    later[2].cancel()
    await outbox.close()


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
    running = asyncio.create_task(outbox.run({Route.MESH: wire}))
    items = ((Message(payload=b"%d" % number), MESH) for number in range(1_000))
    async with asyncio.timeout(LIMIT_S):
        sent_ids = [receipt.message_id async for receipt in outbox.send_paced(items)]
        await until_true(lambda: len(wire.taken) == 1_000)
        await asyncio.gather(*receipts)
    assert wire.taken == [b"%d" % number for number in range(1_000)], "in order, each once"
    assert {await state(outbox, one) for one in sent_ids} == {State.DELIVERED}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await outbox.close()


# An idle lane


@clause("3.4")
async def test_an_idle_connected_lane_leases_in_the_commit_that_accepts_its_message(outbox: Outbox) -> None:
    wire = Wire()
    running = asyncio.create_task(outbox.run({Route.MESH: wire}))
    await asyncio.sleep(0.05)
    commits: list[dict[State, int]] = []
    outbox.file.after_commit(lambda: commits.append(outbox.store.counts()))
    await outbox.send(Message(payload=b"x"), MESH)
    assert commits[0] == {State.SENDING: 1}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@clause("3.4")
async def test_runs_of_a_backlog_leave_at_intervals(outbox: Outbox) -> None:
    at_s: list[float] = []

    class Timed(Wire):
        async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
            at_s.append(asyncio.get_running_loop().time())
            return await super().transmit(entry)

    await outbox.send_many([(Message(payload=b"%d" % number), MESH) for number in range(3 * WINDOW)])
    running = asyncio.create_task(outbox.run({Route.MESH: Timed()}))
    await until_true(lambda: len(at_s) == 3 * WINDOW)
    first, second, third = at_s[::WINDOW]
    assert second - first >= RUN_INTERVAL_S
    assert third - second >= RUN_INTERVAL_S
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_change_that_makes_nothing_due_costs_no_commit(outbox: Outbox) -> None:
    wire = Wire()
    running = asyncio.create_task(outbox.run({Route.MESH: wire}))
    message_id = await sent(outbox, b"x")
    await outbox.acknowledge(message_id, AckType.RECEIPT)
    await asyncio.sleep(0.05)
    commits: list[None] = []
    outbox.file.after_commit(lambda: commits.append(None))
    for _ in range(3):
        outbox.wake(is_thorough=False)
        await asyncio.sleep(0.02)
    assert not commits
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@clause("3.7")
async def test_an_upstream_server_that_accepts_at_once_makes_it_sent_and_one_that_fails_queued(outbox: Outbox) -> None:
    wire = Wire()
    running = asyncio.create_task(outbox.run({Route.UPSTREAM: wire}))
    await asyncio.sleep(0.05)
    accepted = await outbox.send(Message(payload=b"x"), SERVER)
    wire.failures = [Failure.NETWORK_TIMEOUT]
    failed = await outbox.send(Message(payload=b"y"), SERVER)
    behind = await outbox.send(Message(payload=b"z"), SERVER)
    outcomes = [receipt.deliveries[0].outcome for receipt in (accepted, failed, behind)]
    assert outcomes == [Sent(), Queued(), Queued()]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@clause("3.10")
async def test_the_drain_at_start_can_be_switched_off(tmp_path: Path) -> None:
    settings = Settings(outbox=OutboxLimits(drain_on_startup=0))
    outbox = Outbox.open(tmp_path / "outbox.db", settings=settings)
    await sent(outbox, b"old", Destination(Route.MESH, "carol"))
    wire = Wire()
    running = asyncio.create_task(outbox.run({Route.MESH: wire}))
    await asyncio.sleep(0.1)
    assert wire.taken == []
    await sent(outbox, b"new")
    await until_true(lambda: len(wire.taken) == 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await outbox.close()

"""Carriers that raise or are none, and other wrong arguments of an outbox: none ends it (SPEC 4.3)."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from restante.client.client import Client
from restante.client.outbox import Destination, Drained, Message, Outbox
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.model.ids import MessageId
from restante.model.kinds import Kind
from restante.model.outbox_entry import OutboxEntry
from restante.model.send_receipt import Dropped
from restante.model.states import DropReason, Route, State
from restante.ports.carrier import StoredByNode
from support.outbox.scripted_carrier import MESH, RELAY, Wire, running, sent, state
from support.system.wait_until import LIMIT_S, until_true


class Death(BaseException):
    """Not even an exception."""


@pytest.mark.parametrize("crash", [ValueError, asyncio.CancelledError, Death])
async def test_whatever_a_carrier_raises_fails_that_entry_alone(outbox: Outbox, crash: type[BaseException]) -> None:
    class Broken(Wire):
        async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
            if entry.payload == b"bad":
                raise crash(entry.lane)
            return await super().transmit(entry)

    bad = await sent(outbox, b"bad", Destination(Route.MESH, "carol"))
    good = [await sent(outbox, b"good") for _ in range(40)]
    async with asyncio.timeout(LIMIT_S):
        assert await outbox.drain({Route.MESH: Broken()}) == Drained(sent=40, failed=1, is_complete=True)
    status = await outbox.status(bad)
    assert status is not None
    assert (status.state, status.attempts, status.last_error) == (State.PENDING, 1, Code.CARRIER_FAILED)
    assert {await state(outbox, one) for one in good} == {State.SENT}


@pytest.mark.parametrize("question", ["is_up", "is_connected"])
async def test_a_carrier_that_raises_instead_of_answering_counts_as_down(
    outbox: Outbox, question: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Wire):
        is_broken = True

        def is_up(self) -> bool:
            return self._answers("is_up") and super().is_up()

        def is_connected(self, lane: str) -> bool:
            return (lane == "carol" or self._answers("is_connected")) and super().is_connected(lane)

        def _answers(self, asked: str) -> bool:
            if self.is_broken and asked == question:
                raise ValueError("rst1secret")
            return True

    mesh, relay = Broken(), Wire()
    async with asyncio.timeout(LIMIT_S), running(outbox, {Route.MESH: mesh, Route.RELAY: relay}):
        await sent(outbox, b"waits")
        await sent(outbox, b"to carol", Destination(Route.MESH, "carol"))
        await sent(outbox, b"by relay", RELAY)
        await until_true(lambda: relay.taken)
        if question == "is_connected":
            await until_true(lambda: mesh.taken == [b"to carol"])
        mesh.is_broken = False
        outbox.wake()
        await until_true(lambda: sorted(mesh.taken) == [b"to carol", b"waits"])
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        "carrier of route mesh raised ValueError; its lanes wait"
    ]


async def test_a_live_message_whose_carrier_raises_is_dropped(outbox: Outbox) -> None:
    class Broken(Wire):
        async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
            raise ValueError(entry.lane)

    async with running(outbox, {Route.MESH: Broken()}):
        await asyncio.sleep(0)
        receipt = await outbox.send(Message(payload=b"x", kind=Kind.POSITION), MESH)
    assert receipt.deliveries[0].outcome == Dropped(DropReason.REAL_TIME_DURING_DISCONNECT)


@pytest.mark.parametrize("carriers", [7, {"mesh": Wire()}, {Route.MESH: object()}, {Route.MESH: None}])
async def test_carriers_that_are_none_are_refused_with_our_error(outbox: Outbox, carriers: Any) -> None:
    for use in (outbox.run, outbox.drain):
        with pytest.raises(RestanteError) as refused:
            await use(carriers)
        assert refused.value.code is Code.MALFORMED


async def test_other_arguments_of_the_wrong_type_are_refused_with_our_error(outbox: Outbox, tmp_path: Path) -> None:
    wrong: Any = "1"
    settings: Any = {"outbox": {}}
    nothing: Any = None
    for use in (
        partial(outbox.acknowledge, MessageId(bytes(16)), wrong),
        partial(outbox.drain, {}, budget_ms=wrong),
    ):
        with pytest.raises(RestanteError) as refused:
            await use()
        assert refused.value.code is Code.MALFORMED
    for open_or_hear in (
        partial(outbox.on_event, wrong),
        partial(Outbox.open, nothing),
        partial(Outbox.open, tmp_path / "other.db", settings=settings),
        partial(Client.open, nothing),
        partial(Client.open, tmp_path, settings=settings),
        partial(Client.open, tmp_path, receive_delay_s=wrong),
    ):
        with pytest.raises(RestanteError) as refused:
            open_or_hear()
        assert refused.value.code is Code.MALFORMED

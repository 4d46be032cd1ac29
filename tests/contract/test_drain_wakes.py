"""When the loop of an outbox looks for what is due, and what becomes of endings while it stops."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from restante.client.drain import RUN_INTERVAL_S
from restante.client.outbox import Message, Outbox
from restante.core.outbox_events import RetransmitRequested
from restante.model.errors import StoreUnusable
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route, State
from restante.policy.failures import Failure
from restante.ports.carrier import StoredByNode
from restante.testing.deterministic import FakeClock, SeededEntropy
from restante.testing.virtual_time import run_in_virtual_time
from support.outbox.scripted_carrier import DAY_MS, RELAY, Wire, running, sent, state
from support.spec.clauses import clause

SOON_S = RUN_INTERVAL_S + 0.05


class HeldWire(Wire):
    """Answers the first messages at once, and those that it holds when told."""

    def __init__(self, *, at_once: int, held: int) -> None:
        super().__init__()
        self.has_all = asyncio.Event()
        self.answer = asyncio.Event()
        self._at_once = at_once
        self._held = held

    async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
        stored = await super().transmit(entry)
        if len(self.taken) > self._at_once:
            if len(self.taken) == self._at_once + self._held:
                self.has_all.set()
            await self.answer.wait()
        return stored


def in_virtual_time(home: Path, scenario: Callable[[Outbox, FakeClock], Coroutine[Any, Any, None]]) -> None:
    clock = FakeClock()

    async def main() -> None:
        outbox = Outbox.open(home / "outbox.db", clock=clock, entropy=SeededEntropy(2))
        try:
            await scenario(outbox, clock)
        finally:
            outbox.abandon()

    run_in_virtual_time(main(), clock)


@clause("3.5", "3.14")
def test_a_woken_loop_finds_what_became_due_while_the_machine_slept(tmp_path: Path) -> None:
    """The timers of a loop stand still then, and the clock does not."""

    async def scenario(outbox: Outbox, clock: FakeClock) -> None:
        wire = Wire()
        async with running(outbox, {Route.RELAY: wire}):
            await sent(outbox, b"without receipt", RELAY)
            await asyncio.sleep(SOON_S)
            clock.advance(DAY_MS)
            outbox.wake(is_thorough=False)
            await asyncio.sleep(SOON_S)
        assert wire.taken == [b"without receipt"] * 2

    in_virtual_time(tmp_path, scenario)


@clause("9.5")
def test_what_is_to_be_stored_again_leaves_at_once_though_it_was_asked_for_between_two_runs(tmp_path: Path) -> None:
    async def scenario(outbox: Outbox, clock: FakeClock) -> None:
        wire = HeldWire(at_once=1, held=2)
        async with running(outbox, {Route.RELAY: wire}):
            asked_for = await sent(outbox, b"asked for", RELAY)
            await asyncio.sleep(SOON_S)
            wire.failures = [Failure.NETWORK_TIMEOUT] * 2
            await outbox.send_many([(Message(payload=b"retried"), RELAY)] * 2)
            await wire.has_all.wait()  # both at once, by the timer of their wait
            await outbox.within(lambda store: store.apply(asked_for, RetransmitRequested(), now_ms=clock.now_ms()))
            outbox.wake(is_thorough=False)
            await asyncio.sleep(SOON_S)
            assert wire.taken.count(b"asked for") == 2

    in_virtual_time(tmp_path, scenario)


@clause("3.11")
async def test_an_ending_whose_commit_fails_just_when_the_loop_stops_is_recorded_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = Outbox.open(tmp_path / "outbox.db")
    wire = HeldWire(at_once=0, held=1)
    loop = asyncio.create_task(outbox.run({Route.RELAY: wire}))
    message_id = await sent(outbox, b"stored there", RELAY)
    await wire.has_all.wait()

    def fail_once() -> None:
        monkeypatch.undo()
        outbox.file.database.roll_back()
        loop.cancel()
        raise StoreUnusable("the disk failed once")

    monkeypatch.setattr(outbox.file.database, "commit", fail_once)
    wire.answer.set()
    with contextlib.suppress(asyncio.CancelledError):
        await loop
    assert await state(outbox, message_id) is State.SENT
    outbox.abandon()

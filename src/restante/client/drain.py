"""Draining: leases due entries, runs their attempts and records how they ended, in as few commits as possible.

Endings and the next leases share a commit; an idle lane leases in the commit that accepts its message. What is accepted
while a lane has attempts in progress leaves with the next ending, all of it in one run: the faster messages are
accepted, the longer the runs. Runs of a backlog leave at intervals, which makes them longer still. Nothing is polled:
new entries, endings and due times wake the loop (SPEC 3.4, 3.10).
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from restante.client.application.carriers import Carriers
from restante.client.attempts import SUCCEEDED, AttemptRunner, Ending
from restante.client.outbox_types import Drained
from restante.core.outbox_events import TransmitFailed
from restante.model.errors import StoreUnusable
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route
from restante.policy.failures import Failure
from restante.policy.send_order import MAIL_ROUTES
from restante.policy.settings import Settings
from restante.ports.carrier import Carrier
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.runtime.event_wait import set_or_after
from restante.runtime.sqlite.file.client_file import ClientFile
from restante.runtime.sqlite.outbox.store import SqliteOutbox

MAX_IN_FLIGHT: Final = 1_024
"""Attempts that run at once, of all lanes; one lane has at most 256 (SPEC 3.4)."""
RUN_INTERVAL_S: Final = 0.02
"""The least time between two runs of a backlog. A run costs the sender, the relay and the recipient a commit and a
signature, whatever its length: `docs/decisions/0031` has what each interval costs. A message that leaves alone is no
backlog and is followed by no interval; nor are runs of the other routes, which have one entry a lane."""
STORE_RETRY_S: Final = 1.0
"""How long the loop waits after the file could not be written, before it tries again."""
MIN_SWEEP_INTERVAL_MS: Final = 1_000
_NOT_KNOWN_MS: Final = 2**63 - 1  # a round is under way: whatever gets a deadline meanwhile calls for another one
_LOG: Final = logging.getLogger("restante.outbox")


class _Round(NamedTuple):
    leased: list[OutboxEntry]
    next_due_ms: int


class Drain:
    """Sends the entries of one outbox."""

    def __init__(
        self, file: ClientFile, store: SqliteOutbox, *, settings: Settings, clock: Clock, entropy: Entropy
    ) -> None:
        self._file = file
        self._store = store
        self._limits = settings.outbox
        self._clock = clock
        self._entropy = entropy
        self.owner = entropy.draw(8).hex()
        """Under which this drain leases."""
        self.carriers = Carriers({})
        self._work = asyncio.Event()
        self._attempts: AttemptRunner | None = None  # of `run`, while it runs
        self._leased: list[OutboxEntry] = []  # in the transaction that is in progress
        self._is_thorough = True  # the next round looks for everything that may be due
        self._looks_at_ms = _NOT_KNOWN_MS  # when the next round begins, if nothing wakes the loop
        self._recording: asyncio.Future[None] | None = None  # of endings, with the next commit
        self._has_queued = False  # the transaction in progress queued what no ending will wake the loop for
        file.database.on_invalidate(self._forget_transaction)

    def wake(self, *, is_thorough: bool = True) -> None:
        """Look for everything that may be due; unless `is_thorough`, only for what changes in this file made due."""
        self._is_thorough |= is_thorough
        known = self._store.lanes.has_next or self._store.deadlines.has_come(now_ms=self._looks_at_ms - 1)
        if is_thorough or known or self._clock.now_ms() >= self._looks_at_ms:
            self._work.set()

    async def run(self, carriers: Mapping[Route, Carrier]) -> None:
        """Send what is due until cancelled. Without `drain_on_startup` the first lease waits for the first wake-up."""
        self.carriers = ways = Carriers(carriers)
        attempts = self._attempts = AttemptRunner(self._failure, on_ending=self._work.set)
        may_lease = bool(self._limits.drain_on_startup)
        sweep_at_ms = self._clock.now_ms()
        try:
            while True:
                self._work.clear()
                self._looks_at_ms = _NOT_KNOWN_MS
                try:
                    now_ms = self._clock.now_ms()
                    if not sweep_at_ms - self._limits.sweep_interval_ms <= now_ms < sweep_at_ms:
                        sweep_at_ms = await self.sweep()
                    is_thorough, self._is_thorough = self._is_thorough, False
                    round_ = await self._record_and_lease(attempts, ways, may_lease=may_lease, is_thorough=is_thorough)
                except StoreUnusable as problem:
                    self._is_thorough = True
                    # Sending is what frees space on a full disk: go on as soon as the file can be written again.
                    _LOG.error("the outbox could not be written (%s); trying again", problem.code.value)
                    await asyncio.sleep(STORE_RETRY_S)
                    continue
                for entry in round_.leased:
                    attempts.start(entry, ways[entry.route])
                may_lease = True
                if sum(entry.route in MAIL_ROUTES for entry in round_.leased) > 1:
                    await asyncio.sleep(RUN_INTERVAL_S)
                self._looks_at_ms = min(round_.next_due_ms, sweep_at_ms)
                await set_or_after(self._work, max(0, self._looks_at_ms - self._clock.now_ms()) / 1_000)
        finally:
            self._attempts = None
            await self._give_back(attempts)

    async def drain(self, carriers: Mapping[Route, Carrier] | None = None, *, budget_ms: int | None = None) -> Drained:
        """Try whatever is due on connected lanes until nothing is, or the budget is spent."""
        ways = self.carriers if carriers is None else Carriers(carriers)
        ends_at_ms = None if budget_ms is None else self._clock.now_ms() + budget_ms
        ended = asyncio.Event()
        attempts = AttemptRunner(self._failure, on_ending=ended.set)
        sent = failed = 0
        is_complete = False
        try:
            while True:
                ended.clear()
                in_time = ends_at_ms is None or self._clock.now_ms() < ends_at_ms
                round_ = await self._record_and_lease(attempts, ways, may_lease=in_time)
                for entry in round_.leased:
                    attempts.start(entry, ways[entry.route])
                is_complete = in_time and not round_.leased
                if not attempts.in_progress and not attempts.has_endings:
                    break
                await ended.wait()
                endings = attempts.take_endings()
                succeeded = sum(SUCCEEDED in ending.events for ending in endings)
                sent, failed = sent + succeeded, failed + len(endings) - succeeded
                attempts.give_back(endings)
        finally:
            await self._give_back(attempts)
        return Drained(sent=sent, failed=failed, is_complete=is_complete)

    async def sweep(self) -> int:
        """End what time ends, advance the clocks of connected lanes, retry and delete dead letters.

        Returns when to sweep again.
        """

        def sweep() -> int:
            now_ms = self._clock.now_ms()
            while self._store.sweep(now_ms=now_ms):
                pass
            self._store.pass_connected_time(self.carriers.is_connected, now_ms=now_ms)
            self._store.run_maintenance(now_ms=now_ms)
            letter_ms = self._store.dead_letters.next_deadline_ms()
            next_ms = now_ms + self._limits.sweep_interval_ms
            return next_ms if letter_ms is None else min(next_ms, max(letter_ms, now_ms + MIN_SWEEP_INTERVAL_MS))

        return await self._file.run(sweep)

    def idle_lanes(self, lanes: Iterable[tuple[Route, str]]) -> list[tuple[Route, str]]:
        """Return those of the lanes that have nothing unsent, are connected, and may be leased from now.

        Those with attempts in progress are left to the ending of one; for any other the loop is woken after the commit.
        """
        attempts = self._attempts
        idle: list[tuple[Route, str]] = []
        if attempts is None:
            return idle
        has_room = attempts.in_progress + len(self._leased) < MAX_IN_FLIGHT
        for route, lane in dict.fromkeys(lanes):
            if has_room and self._store.is_idle(route, lane) and self.carriers.is_connected(route, lane):
                idle.append((route, lane))
            elif not attempts.is_in_progress(route, lane):
                self._has_queued = True
        return idle

    def lease_idle(self, lanes: Sequence[tuple[Route, str]], *, now_ms: int) -> None:
        """Lease from lanes that `idle_lanes` named, in the transaction that filled them."""
        attempts = self._attempts
        if lanes and attempts is not None:
            room = MAX_IN_FLIGHT - attempts.in_progress - len(self._leased)
            self._leased += self._store.lease_lanes(lanes, owner=self.owner, limit=room, now_ms=now_ms)

    def start_leased(self) -> list[OutboxEntry]:
        """Begin the attempts that were leased in the transaction that is now on disk, and return their entries."""
        if self._has_queued:
            self._has_queued = False
            self._work.set()
        if not self._leased:
            return []
        leased = self._leased[:]
        self._leased.clear()
        if self._attempts is not None:
            for entry in leased:
                self._attempts.start(entry, self.carriers[entry.route])
        return leased

    async def _record_and_lease(
        self, attempts: AttemptRunner, carriers: Carriers, *, may_lease: bool, is_thorough: bool = True
    ) -> _Round:
        """Record the endings and lease what is next, in one commit.

        If nothing waits to be leased, the endings join the next commit of anything else; without endings there is none.
        """
        endings = attempts.take_endings()

        def work() -> _Round:
            # The first lease stores sealed bytes: on a full disk one message at a time, until receipts free space.
            most = 1 if self._file.database.is_disk_full() else MAX_IN_FLIGHT
            room = most - attempts.in_progress if may_lease else 0
            self._record(endings)
            now_ms = self._clock.now_ms()
            leased: list[OutboxEntry] = []
            if room > 0 and carriers:
                leased = self._store.lease(
                    owner=self.owner,
                    routes=carriers.routes_up(),
                    is_connected=carriers.is_connected,
                    limit=room,
                    now_ms=now_ms,
                    is_thorough=is_thorough,
                )
            return _Round(leased, self._next_due_ms(now_ms))

        now_ms = self._clock.now_ms()
        may_be_due = self._store.lanes.has_next or self._store.deadlines.has_come(now_ms=now_ms)
        frees_lane = any(ending.frees_lane for ending in endings)
        if is_thorough or not may_lease or may_be_due or frees_lane:
            try:
                return await self._file.run(work)
            except BaseException:
                attempts.give_back(endings)
                raise
        if endings:
            self._recording = self._file.run_later(partial(self._record, endings))
            self._recording.add_done_callback(partial(self._recorded, attempts, endings))
        return _Round([], self._next_due_ms(now_ms))

    def _record(self, endings: Sequence[Ending]) -> None:
        now_ms = self._clock.now_ms()
        for ending in endings:
            for event in ending.events:
                self._store.apply(ending.message_id, event, now_ms=now_ms)

    def _recorded(self, attempts: AttemptRunner, endings: list[Ending], recording: "asyncio.Future[None]") -> None:
        """Look for what the endings made due. Those that could not be recorded are part of the next round."""
        if self._recording is recording:
            self._recording = None
        has_failed = recording.exception() is not None
        if has_failed:
            attempts.give_back(endings)
        self.wake(is_thorough=has_failed)

    def _next_due_ms(self, now_ms: int) -> int:
        """Return when something will be due, as far as that is known now."""
        next_ms = self._store.next_wake_ms(now_ms=now_ms)
        return now_ms + self._limits.sweep_interval_ms if next_ms is None else next_ms

    def _forget_transaction(self) -> None:
        self._leased.clear()
        self._has_queued = False
        self._is_thorough = True  # what the next round is about to skip may be due after all

    async def _give_back(self, attempts: AttemptRunner) -> None:
        """Stop the attempts and record how they ended; what was stopped is due again."""
        if self._recording is not None:
            await asyncio.wait([self._recording])  # if it has failed, `_recorded` has given its endings back by then
        endings: list[Ending] = await attempts.stop()
        if endings:
            attempts.give_back(endings)
            with contextlib.suppress(StoreUnusable):  # their leases expire
                await asyncio.shield(self._record_and_lease(attempts, Carriers({}), may_lease=False))

    def _failure(self, failure: Failure, *, retry_after_ms: int | None = None, reached: bool = True) -> TransmitFailed:
        return TransmitFailed(
            owner=self.owner,
            failure=failure,
            retry_after_ms=retry_after_ms,
            dice=self._entropy.dice(),
            reached=reached,
        )

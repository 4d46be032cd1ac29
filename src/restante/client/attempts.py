"""Attempts in progress: each runs as a task and reports how it ended.

Which entries are tried and what an ending means is decided elsewhere. A carrier that raises an exception it does not
declare fails its own entry only.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from restante.client.application.carriers import log_crash
from restante.core.outbox_events import Cancelled, DeliveryAcked, Event, TransmitFailed, TransmitSucceeded
from restante.model.ids import MessageId
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route
from restante.policy.failures import Failure
from restante.policy.send_order import MAIL_ROUTES
from restante.ports.carrier import Carrier, Withdrawn
from restante.ports.relay_connection import AttemptFailed


class Ending(NamedTuple):
    """How the attempt of one entry ended."""

    message_id: MessageId
    events: tuple[Event, ...]
    frees_lane: bool = False
    """Its lane has one entry in flight, and the next one leaves when this ending is recorded (SPEC 3.4)."""


SUCCEEDED: Final = TransmitSucceeded()
_CANCELLED: Final = (Cancelled(),)


class MakeFailure(Protocol):
    """Makes the event of an attempt that failed."""

    def __call__(
        self, failure: Failure, *, retry_after_ms: int | None = None, reached: bool = True
    ) -> TransmitFailed: ...


class AttemptRunner:
    """The attempts of one drain. `on_ending` is called after each ending; call `stop` at the end."""

    def __init__(self, make_failure: MakeFailure, *, on_ending: Callable[[], None]) -> None:
        self._make_failure = make_failure
        self._on_ending = on_ending
        self._tasks: dict[MessageId, asyncio.Task[None]] = {}
        self._by_lane: Counter[tuple[Route, str]] = Counter()
        self._endings: list[Ending] = []
        self._is_stopping = False
        self._loop = asyncio.get_running_loop()

    @property
    def in_progress(self) -> int:
        return len(self._tasks)

    def is_in_progress(self, route: Route, lane: str) -> bool:
        """Return whether an attempt on this lane has not ended yet."""
        return (route, lane) in self._by_lane

    @property
    def has_endings(self) -> bool:
        return bool(self._endings)

    def start(self, entry: OutboxEntry, carrier: Carrier) -> None:
        self._by_lane[entry.route, entry.lane] += 1
        self._tasks[entry.message_id] = self._loop.create_task(self._run(entry, carrier))

    def take_endings(self) -> list[Ending]:
        """Return every ending since the last call."""
        endings, self._endings = self._endings, []
        return endings

    def give_back(self, endings: list[Ending]) -> None:
        """Keep endings that could not be recorded, for the next `take_endings`."""
        self._endings = endings + self._endings

    async def stop(self) -> list[Ending]:
        """Cancel what is in progress and return all endings: leases are given back instead of being left to expire."""
        self._is_stopping = True
        stopped, self._tasks = self._tasks, {}
        for task in stopped.values():
            task.cancel()
        if stopped:
            await asyncio.gather(*stopped.values(), return_exceptions=True)
        endings = self.take_endings()
        known = {ending.message_id for ending in endings}
        # Not counted as attempts: nothing is known about them.
        given_back = self._make_failure(Failure.NETWORK_TIMEOUT, reached=False)
        return endings + [Ending(message_id, (given_back,)) for message_id in stopped if message_id not in known]

    async def _run(self, entry: OutboxEntry, carrier: Carrier) -> None:
        events: tuple[Event, ...]
        try:
            stored = await carrier.transmit(entry)
            events = (*(DeliveryAcked(node=one.node, receipt=one.receipt) for one in stored or ()), SUCCEEDED)
        except AttemptFailed as failed:
            failure = self._make_failure(failed.failure, retry_after_ms=failed.retry_after_ms, reached=failed.reached)
            events = (failure,)
        except Withdrawn:
            events = _CANCELLED
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as crash:
            if self._is_stopping:
                raise
            log_crash(entry.route, crash, "the attempt failed")
            events = (self._make_failure(Failure.CARRIER_FAILED),)
        self._tasks.pop(entry.message_id, None)
        lane = (entry.route, entry.lane)
        self._by_lane[lane] -= 1
        if not self._by_lane[lane]:
            del self._by_lane[lane]
        self._endings.append(Ending(entry.message_id, events, frees_lane=entry.route not in MAIL_ROUTES))
        self._on_ending()

"""AttemptRunner of outbox entries under way: each runs as a task of its own and says itself how it ended.

Does not decide what is tried nor what an ending means; a drain does.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from restante.core.outbox_events import Cancelled, DeliveryAcked, Event, TransmitFailed, TransmitSucceeded
from restante.model.ids import MessageId
from restante.model.outbox_entry import OutboxEntry
from restante.policy.failures import Failure
from restante.ports.carrier import Carrier, Withdrawn
from restante.ports.relay_connection import AttemptFailed

Ending = tuple[MessageId, Event]
Fail = Callable[[Failure, int | None], TransmitFailed]

SUCCEEDED: Final = TransmitSucceeded()
_CANCELLED: Final = Cancelled()


class AttemptRunner:
    """Those of one drain. Whoever makes it must `stop` it."""

    def __init__(self, fail: Fail) -> None:
        """`fail` makes the event of a try that failed, or was stopped."""
        self._fail = fail
        self._tasks: dict[MessageId, asyncio.Task[None]] = {}
        self._endings: list[Ending] = []
        self._crash: BaseException | None = None
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    @property
    def under_way(self) -> int:
        return len(self._tasks)

    def start(self, entry: OutboxEntry, carrier: Carrier) -> None:
        self._tasks[entry.message_id] = self._loop.create_task(self._run(entry, carrier))

    async def next_endings(self) -> list[Ending]:
        """Every ending since the last call, at least one. Raises what a carrier raised that is no failed try."""
        await self._news.wait()
        if self._crash is not None:
            raise self._crash
        self._news.clear()
        endings, self._endings = self._endings, []
        return endings

    async def stop(self) -> list[Ending]:
        """Ends what is under way: claims are given back now rather than left to lapse."""
        stopped = self._tasks
        self._tasks = {}
        for task in stopped.values():
            task.cancel()
        if stopped:
            await asyncio.gather(*stopped.values(), return_exceptions=True)
        endings, self._endings = self._endings, []
        known = {message_id for message_id, _ in endings}
        return endings + [
            (message_id, self._fail(Failure.NETWORK_TIMEOUT, None)) for message_id in stopped if message_id not in known
        ]

    async def _run(self, entry: OutboxEntry, carrier: Carrier) -> None:
        event: Event
        try:
            stored = await carrier.transmit(entry)
        except AttemptFailed as failed:
            event = self._fail(failed.failure, failed.retry_after_ms)
        except Withdrawn:
            event = _CANCELLED
        except BaseException as crash:  # whatever it is: who waits for endings must not wait for this one
            self._crash = crash
            self._news.set()
            raise
        else:
            event = DeliveryAcked(node=stored[0].node) if stored else SUCCEEDED
        self._tasks.pop(entry.message_id, None)
        self._endings.append((entry.message_id, event))
        self._news.set()

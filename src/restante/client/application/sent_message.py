"""What `Client.send` returns: the send receipt, and a way to wait until the recipient has the message."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from restante.client.application.argument_checks import check_seconds
from restante.client.outbox_types import Status
from restante.core.outbox_events import OutboxEventType
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.model.ids import MessageId, show_message_id
from restante.model.send_receipt import Delivery, Dropped, Outcome, SendReceipt
from restante.model.states import ENDED, State
from restante.runtime.event_wait import set_or_after
from restante.runtime.sqlite.outbox.new_entry import OutboxEvent

LOOK_AGAIN_S: Final = 1.0  # another process may run the client and receive the ack; see inbox_reader.LOOK_AGAIN_S
FINAL: Final = frozenset(
    {
        OutboxEventType.DELIVERED,
        OutboxEventType.EXPIRED,
        OutboxEventType.EVICTED,
        OutboxEventType.DEAD_LETTERED,
    }
)


class NotDelivered(RestanteError):
    """The message ended without reaching its recipient; `state` says how, `code` why."""

    def __init__(self, message_id: MessageId, state: State, code: Code) -> None:
        super().__init__(f"message {show_message_id(message_id)} was not delivered: {state.value}", code=code)
        self.message_id = message_id
        self.state = state


class NotYetDelivered(RestanteError, TimeoutError):
    """No RECEIPT came within the time given. The message stays in the outbox, and may still be delivered."""

    def __init__(self, message_id: MessageId, timeout: float) -> None:
        super().__init__(
            f"message {show_message_id(message_id)} was not delivered within {timeout:g} s; it stays in the outbox",
            code=Code.TIMED_OUT,
        )
        self.message_id = message_id


class DeliveryWaiters:
    """Wakes those who wait for the end of a message."""

    def __init__(self, status: Callable[[MessageId], Awaitable[Status | None]]) -> None:
        self._status = status
        self._waiting: dict[MessageId, list[asyncio.Event]] = {}

    def notice(self, event: OutboxEvent) -> None:
        """Wake the tasks that wait for this message, if the event ends it."""
        if self._waiting and event.notice in FINAL:
            for waiting in self._waiting.get(event.message_id, ()):
                waiting.set()

    async def ended(self, message_id: MessageId) -> Status | None:
        """Return the final status of a message once it has ended; None if the outbox does not know it."""
        news = asyncio.Event()
        self._waiting.setdefault(message_id, []).append(news)
        try:
            while True:
                news.clear()
                status = await self._status(message_id)
                if status is None or status.state in ENDED:
                    return status
                await set_or_after(news, LOOK_AGAIN_S)
        finally:
            waiting = self._waiting[message_id]
            waiting.remove(news)
            if not waiting:
                del self._waiting[message_id]


class SentMessage:
    """An accepted message, or one that was dropped with its reason."""

    def __init__(self, receipt: SendReceipt, waiters: DeliveryWaiters) -> None:
        self.receipt = receipt
        self._waiters = waiters

    def __repr__(self) -> str:
        return f"SentMessage({show_message_id(self.message_id)}, {self.outcome})"

    @property
    def message_id(self) -> MessageId:
        return self.receipt.message_id

    @property
    def deliveries(self) -> tuple[Delivery, ...]:
        return self.receipt.deliveries

    @property
    def outcome(self) -> Outcome:
        """`Queued`, or `Dropped` with the reason."""
        return self.receipt.deliveries[0].outcome

    @property
    def outcomes(self) -> tuple[tuple[str, Outcome], ...]:
        return self.receipt.outcomes

    async def delivered(self, timeout: float | None = 60.0) -> Status:  # noqa: ASYNC109 - the caller's limit, told in the error
        """Wait until the recipient has the message, and return its status. A `timeout` of None sets no limit.

        Raises `NotYetDelivered` after `timeout` seconds, `NotDelivered` if it expired or became a dead letter.
        """
        if timeout is not None:
            check_seconds("timeout", timeout)
        if isinstance(self.outcome, Dropped):
            raise NotDelivered(self.message_id, State.DEAD, Code.NOT_FOUND)
        try:
            async with asyncio.timeout(timeout):
                status = await self._waiters.ended(self.message_id)
        except TimeoutError:
            raise NotYetDelivered(self.message_id, timeout or 0) from None
        if status is None or status.state is not State.DELIVERED:
            state = State.DEAD if status is None else status.state
            code = (status and status.last_error) or Code.NOT_FOUND
            raise NotDelivered(self.message_id, state, code)
        return status

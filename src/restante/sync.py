"""The client for blocking code: the same methods, without `await`.

    from restante import sync

    with sync.Client.open("alice") as client:
        client.send("bob", "bonjour").delivered(timeout=60)
        for message in client.inbox():
            print(message.sender_name, message.text)

A thin wrapper: an event loop in a thread runs the asyncio client. Methods may be called from any thread.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from restante.client.application.inbox_reader import ReceivedMessage as AsyncReceivedMessage
from restante.client.application.mail_sender import SEND_BATCH
from restante.client.application.send_pacing import SPACE_DEADLINE_S, lists_of
from restante.client.application.sent_message import SentMessage as AsyncSentMessage
from restante.client.client import Client as AsyncClient
from restante.client.contacts import Contact
from restante.client.outbox_types import Status
from restante.model.errors import RestanteError
from restante.model.ids import Address, MessageId
from restante.model.kinds import Kind
from restante.model.send_receipt import Outcome
from restante.policy.settings import Settings

Result = TypeVar("Result")


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="restante", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run the coroutine on the loop and wait for its result. An interrupt cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SentMessage:
    """An accepted message, or one that was dropped with its reason."""

    def __init__(self, sent: AsyncSentMessage, loop: _Loop) -> None:
        self._sent = sent
        self._loop = loop

    def __repr__(self) -> str:
        return repr(self._sent)

    @property
    def message_id(self) -> MessageId:
        return self._sent.message_id

    @property
    def outcome(self) -> Outcome:
        return self._sent.outcome

    def delivered(self, timeout: float | None = 60.0) -> Status:
        """Wait until the recipient has the message. Raises `NotYetDelivered` or `NotDelivered`."""
        return self._loop.run(self._sent.delivered(timeout))


class ReceivedMessage:
    """One message for the application."""

    def __init__(self, message: AsyncReceivedMessage, loop: _Loop) -> None:
        self._message = message
        self._loop = loop

    def __repr__(self) -> str:
        return repr(self._message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._message, name)

    def ack(self) -> None:
        """State that the application has processed the message; it is not shown again."""
        self._loop.run(self._message.ack())


class Client:
    """A client that connects and runs while its `with` block runs."""

    def __init__(self, client: AsyncClient, loop: _Loop) -> None:
        self._client = client
        self._loop = loop

    @classmethod
    def open(
        cls, directory: Path | str, passphrase: str | None = None, *, settings: Settings | None = None
    ) -> "Client":
        """Open the client of a directory that `restante id new` made."""
        loop = _Loop()

        async def make() -> AsyncClient:
            return AsyncClient.open(directory, passphrase, settings=settings)

        try:
            return cls(loop.run(make()), loop)
        except BaseException:
            loop.close()
            raise

    def __enter__(self) -> Self:
        self._loop.run(self._client.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._loop.run(self._client.__aexit__(kind, error, trace))
        finally:
            self._loop.close()

    def send(
        self,
        to: str | Address | Contact,
        body: str | bytes,
        *,
        kind: str = Kind.TEXT,
        ttl_s: int | None = None,
        wait: bool = True,
        deadline_s: float = SPACE_DEADLINE_S,
    ) -> SentMessage:
        """Accept one message for a contact; it is on disk when this returns."""
        work = self._client.send(to, body, kind=kind, ttl_s=ttl_s, wait=wait, deadline_s=deadline_s)
        return SentMessage(self._loop.run(work), self._loop)

    def send_many(
        self,
        to: str | Address | Contact,
        bodies: Iterable[str | bytes],
        *,
        kind: str = Kind.TEXT,
        ttl_s: int | None = None,
        wait: bool = True,
        deadline_s: float = SPACE_DEADLINE_S,
    ) -> list[SentMessage]:
        """Accept many messages for one contact, in order, many in one commit; see `restante.Client.send_many`."""
        sent: list[SentMessage] = []
        # Read in this thread: a slow source must not stop the event loop.
        for part in lists_of(bodies, size=SEND_BATCH):
            work = self._client.send_many(to, part, kind=kind, ttl_s=ttl_s, wait=wait, deadline_s=deadline_s)
            try:
                sent += [SentMessage(one, self._loop) for one in self._loop.run(work)]
            except RestanteError as problem:
                problem.accepted += len(sent)
                raise
        return sent

    def status(self, message_id: MessageId) -> Status | None:
        """Return the state of a message; None for one that was not accepted here in the last 30 days."""
        return self._loop.run(self._client.status(message_id))

    def inbox(self, *, follow: bool = True, explicit_acks: bool = False) -> Iterator[ReceivedMessage]:
        """Iterate over messages not acked yet, then over each new one as it arrives; see `restante.Client.inbox`."""
        messages = self._client.inbox(follow=follow, explicit_acks=explicit_acks)

        async def following() -> AsyncReceivedMessage | None:
            return await anext(messages, None)

        try:
            while (message := self._loop.run(following())) is not None:
                yield ReceivedMessage(message, self._loop)
        except CancelledError:
            return
        finally:
            self._loop.run(messages.aclose())

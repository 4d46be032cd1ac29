"""What a chat platform's adapter must do. `send` is all of it; the rest has an answer that suits most.

    class Console(ChannelAdapter):
        platform = Platform.OTHER

        async def send(self, message: Outgoing) -> PlatformAck:
            print(message.chat, message.text)
            return PlatformAck()

An adapter says in its exceptions only what it knows: `NotSent` when nothing can have arrived, `SendRefused` when the
platform said no, `NoAnswer` when it does not know. Anything else, a timeout or a bug, counts as that, too.
"""

from dataclasses import dataclass
from typing import Protocol

from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.policy.channel_platforms import Format, Platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One message for a platform. `text` is in `format`; `plain` says the same without markup.

    `key` is the same whenever this message is sent again: a platform that knows such keys recognises a repeat.
    `thread_key` is the key of the delivery's first chunk.
    """

    chat: str
    text: str
    plain: str
    format: Format
    key: str
    thread_key: str
    index: int = 0
    count: int = 1
    title: str | None = None
    reply_to: str | None = None
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class PlatformAck:
    """The platform has it; `name` is what it calls the message, to be answered with `reply_to`."""

    name: str | None = None


class NotSent(RestanteError):
    """Nothing left this machine, or nothing that counts: a refused connection, a name that does not resolve."""

    def __init__(self, text: str) -> None:
        super().__init__(text, code=Code.CHANNEL_UNAVAILABLE)


class NoAnswer(RestanteError):
    """It was sent, or part of it, and nobody said what became of it."""

    def __init__(self, text: str) -> None:
        super().__init__(text, code=Code.CHANNEL_UNAVAILABLE)


class SendRefused(RestanteError):
    """The platform said no. `said` and `status` are read by the one classifier of SPEC 12.5, and by nobody else: they
    are no part of the exception's text, which may be logged."""

    def __init__(self, said: str, *, status: int | None = None, retry_after_ms: int | None = None) -> None:
        super().__init__("the platform refused the message", code=Code.CHANNEL_REFUSED)
        self.said = said
        self.status = status
        self.retry_after_ms = retry_after_ms


class ChannelAdapter(Protocol):
    """A way to one platform. Made from configuration, started once, then sent through by several tasks at once."""

    platform: Platform = Platform.OTHER
    recognises_repeats: bool = False
    """Whether a message sent twice with the same key arrives once."""

    async def start(self) -> None:
        """Get ready; raise if that fails now. It is tried again later, and what is queued waits (SPEC 12.7)."""
        return

    async def send(self, message: Outgoing) -> PlatformAck:
        """Returns once the platform has the message."""
        ...

    async def check(self) -> str:
        """Ask the platform whether all is well; raise if not. A few words for the owner's own terminal."""
        return "nothing to ask"

    async def close(self) -> None:
        """Let go of connections."""
        return

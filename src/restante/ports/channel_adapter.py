"""The interface of a chat platform's adapter. Only `send` is required; the other methods have defaults.

    class Console(ChannelAdapter):
        platform = Platform.OTHER

        async def send(self, message: Outgoing) -> PlatformAck:
            print(message.chat, message.text)
            return PlatformAck()

An adapter raises `NotSent` if nothing can have arrived, `SendRefused` if the platform refused the message, and
`NoAnswer` if it does not know. Any other exception, a timeout or a bug, counts as `NoAnswer`.
"""

from dataclasses import dataclass
from typing import Protocol

from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.policy.channel_platforms import Format, Platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One message for a platform. `text` is in `format`; `plain` is the same text without markup.

    `key` stays the same when this message is sent again, so that a platform that supports such keys recognises a
    repeat. `thread_key` is the key of the delivery's first chunk.
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
    """The platform accepted the message. `platform_message_id` is its id there, which a later message can use as
    `reply_to`."""

    platform_message_id: str | None = None


class NotSent(RestanteError):
    """Nothing left this machine, for example because the connection was refused or a host name does not resolve."""

    def __init__(self, text: str) -> None:
        super().__init__(text, code=Code.CHANNEL_UNAVAILABLE)


class NoAnswer(RestanteError):
    """The message was sent, at least in part, and the platform did not answer. It may or may not have arrived."""

    def __init__(self, text: str) -> None:
        super().__init__(text, code=Code.CHANNEL_UNAVAILABLE)


class SendRefused(RestanteError):
    """The platform refused the message.

    Only the classifier of SPEC 12.5 reads `said` and `status`. They are not part of the exception's text, because that
    may be logged.
    """

    def __init__(self, said: str, *, status: int | None = None, retry_after_ms: int | None = None) -> None:
        super().__init__("the platform refused the message", code=Code.CHANNEL_REFUSED)
        self.said = said
        self.status = status
        self.retry_after_ms = retry_after_ms


class ChannelAdapter(Protocol):
    """The connection to one platform. It is built from configuration, started once, then used by several tasks at
    once."""

    platform: Platform = Platform.OTHER
    recognises_repeats: bool = False
    """Whether the platform drops a second message with the same key."""

    async def start(self) -> None:
        """Prepare for sending; raise if that fails now. The start is repeated later, and queued entries wait (SPEC
        12.7)."""
        return

    async def send(self, message: Outgoing) -> PlatformAck:
        """Send the message; return once the platform has accepted it."""
        ...

    async def check(self) -> str:
        """Check the connection to the platform; raise if it does not work. Returns a short text for the operator's
        terminal."""
        return "no check available"

    async def close(self) -> None:
        """Close all connections."""
        return

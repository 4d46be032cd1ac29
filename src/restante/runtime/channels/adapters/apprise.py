"""Send through any service that Apprise supports, by its URLs.

Apprise returns a bool and logs the reason. The log text is captured here for the classifier and not passed on.
"""

import asyncio
import logging
from typing import Final
from urllib.parse import quote

import apprise

from restante.model.errors import ConfigurationInvalid
from restante.policy.channel_platforms import Platform
from restante.ports.channel_adapter import ChannelAdapter, Outgoing, PlatformAck, SendRefused
from restante.runtime.channels.secret import Secret

CHAT: Final = "{chat}"
MAX_REASON_CHARS: Final = 8_192
_LOG: Final = logging.getLogger("apprise")


class AppriseAdapter(ChannelAdapter):
    """`url` is an Apprise URL in which {chat} is replaced. Set `platform`, so that texts are rendered and cut for
    it."""

    def __init__(self, *, url: Secret, platform: Platform = Platform.OTHER) -> None:
        self.platform = platform
        self._url = url
        self._one_at_a_time = asyncio.Lock()  # otherwise the log texts of two sends would be mixed

    async def start(self) -> None:
        self._notifier("chat")

    async def send(self, message: Outgoing) -> PlatformAck:
        notifier = self._notifier(message.chat)
        async with self._one_at_a_time:
            has_arrived, reason = await asyncio.to_thread(_notify, notifier, message)
        if not has_arrived:
            raise SendRefused(reason)
        return PlatformAck()

    def _notifier(self, chat: str) -> apprise.Apprise:
        notifier = apprise.Apprise()
        if not notifier.add(self._url.reveal().replace(CHAT, quote(chat, safe=""))):
            raise ConfigurationInvalid("Apprise does not know this URL; see its list of services")
        return notifier


class _Reasons(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.said = f"{self.said}\n{record.getMessage()}"[:MAX_REASON_CHARS]


def _notify(notifier: apprise.Apprise, message: Outgoing) -> tuple[bool, str]:
    reasons = _Reasons()
    _LOG.addHandler(reasons)
    try:
        return bool(notifier.notify(body=message.text, title=message.title or "")), reasons.said
    finally:
        _LOG.removeHandler(reasons)

"""Send a signed POST to a URL: the simplest way into a system without an adapter.

The receiver verifies `X-Restante-Signature`, an HMAC-SHA-256 over time, dot and body, drops old requests, and
recognises repeats by `Idempotency-Key` (docs/howto/channels.md).
"""

import hashlib
import hmac
from typing import Final

from restante.policy.channel_platforms import Platform
from restante.ports.channel_adapter import ChannelAdapter, Outgoing, PlatformAck
from restante.ports.clock import Clock
from restante.runtime.channels.adapters.http_client import HttpCaller, json_body
from restante.runtime.channels.secret import Secret
from restante.runtime.system import SystemClock

TIMESTAMP: Final = "X-Restante-Timestamp"
SIGNATURE: Final = "X-Restante-Signature"
KEY: Final = "Idempotency-Key"
_VERSION: Final = 1
_NAME_CHARS: Final = 256


class WebhookAdapter(ChannelAdapter):
    """The receiver interprets `chat`. Set `recognises_repeats` if it evaluates `Idempotency-Key`."""

    _clock: Clock = SystemClock()

    def __init__(
        self, *, url: str, secret: Secret, platform: Platform = Platform.OTHER, recognises_repeats: bool = False
    ) -> None:
        self.platform = platform
        self.recognises_repeats = recognises_repeats
        self._url = url
        self._secret = secret
        self._http = HttpCaller()

    async def send(self, message: Outgoing) -> PlatformAck:
        body = json_body(
            {
                "version": _VERSION,
                "chat": message.chat,
                "text": message.text,
                "format": message.format.value,
                "plain": message.plain,
                "index": message.index,
                "count": message.count,
                "key": message.key,
                "title": message.title,
                "reply_to": message.reply_to,
                "thread": message.thread,
            }
        )
        at_s = self._clock.now_ms() // 1_000
        headers = {
            "content-type": "application/json",
            KEY: message.key,
            TIMESTAMP: str(at_s),
            SIGNATURE: signature(self._secret, at_s, body),
        }
        answer = await self._http.call("POST", self._url, body=body, headers=headers)
        if not answer.is_success:
            raise answer.refusal()
        name = answer.json().get("message_id")
        return PlatformAck(name if isinstance(name, str) and 0 < len(name) <= _NAME_CHARS else None)

    async def close(self) -> None:
        await self._http.close()


def signature(secret: Secret, at_s: int, body: bytes) -> str:
    signed = f"{at_s}.".encode() + body
    return "v1=" + hmac.new(secret.reveal().encode(), signed, hashlib.sha256).hexdigest()

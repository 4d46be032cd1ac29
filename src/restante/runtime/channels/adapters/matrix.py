"""Matrix client-server API: PUT with the idempotency key as transaction id, so that repeats are recognised."""

from typing import Any, Final
from urllib.parse import quote

from restante.policy.channel_platforms import Format, Platform
from restante.ports.channel_adapter import ChannelAdapter, Outgoing, PlatformAck, SendRefused
from restante.runtime.channels.adapters.http_client import MAX_RETRY_AFTER_MS, HttpCaller, HttpResponse, json_body
from restante.runtime.channels.secret import Secret

_CLIENT: Final = "/_matrix/client/v3"
_SAID: Final = {
    "M_FORBIDDEN": "not a member",
    "M_NOT_FOUND": "chat not found",
    "M_TOO_LARGE": "message is too long",
    "M_LIMIT_EXCEEDED": "too many requests",
}
"""Matrix error codes as texts that the classifier knows."""


class MatrixAdapter(ChannelAdapter):
    """`chat` is a room id; `thread` and `reply_to` are event ids."""

    platform = Platform.MATRIX
    recognises_repeats = True

    def __init__(self, *, homeserver: str, token: Secret) -> None:
        self._base = homeserver.rstrip("/") + _CLIENT
        self._headers = {"content-type": "application/json", "authorization": f"Bearer {token.reveal()}"}
        self._http = HttpCaller()

    async def send(self, message: Outgoing) -> PlatformAck:
        content: dict[str, Any] = {"msgtype": "m.text", "body": message.plain}
        if message.format is Format.MATRIX_HTML:
            content |= {"format": "org.matrix.custom.html", "formatted_body": message.text}
        relation: dict[str, Any] = {}
        if message.thread is not None:
            relation |= {"rel_type": "m.thread", "event_id": message.thread}
        if message.reply_to is not None:
            relation["m.in_reply_to"] = {"event_id": message.reply_to}
        if relation:
            content["m.relates_to"] = relation
        path = f"/rooms/{quote(message.chat, safe='')}/send/m.room.message/{quote(message.key, safe='')}"
        reply = await self._call("PUT", path, json_body(content))
        name = reply.get("event_id")
        return PlatformAck(name if isinstance(name, str) else None)

    async def check(self) -> str:
        reply = await self._call("GET", "/account/whoami", b"")
        return f"logged in as {reply.get('user_id', '?')}"

    async def close(self) -> None:
        await self._http.close()

    async def _call(self, method: str, path: str, body: bytes) -> dict[str, Any]:
        answer = await self._http.call(method, self._base + path, body=body, headers=self._headers)
        if not answer.is_success:
            raise _refusal(answer)
        return answer.json()


def _refusal(answer: HttpResponse) -> SendRefused:
    reply = answer.json()
    said = _SAID.get(str(reply.get("errcode")), answer.text())
    after = reply.get("retry_after_ms")
    wait_ms = min(after, MAX_RETRY_AFTER_MS) if isinstance(after, int) and after >= 0 else answer.retry_after_ms
    return SendRefused(said, status=answer.status, retry_after_ms=wait_ms)

"""Telegram's Bot API: `sendMessage` and its errors."""

from typing import Any, Final

from restante.policy.channel_platforms import Format, Platform
from restante.ports.channel_adapter import ChannelAdapter, Outgoing, PlatformAck, SendRefused
from restante.runtime.channels.adapters.http_client import MAX_RETRY_AFTER_MS, HttpCaller, HttpResponse, json_body
from restante.runtime.channels.secret import Secret

API: Final = "https://api.telegram.org"
_JSON: Final = {"content-type": "application/json"}


class TelegramAdapter(ChannelAdapter):
    """`chat` is a chat id or @channel, `thread` a forum topic, `reply_to` a message id.

    Telegram has no idempotency keys: a message that is sent again arrives again.
    """

    platform = Platform.TELEGRAM

    def __init__(self, *, token: Secret, api: str = API, silent: bool = False) -> None:
        self._token = token
        self._api = api.rstrip("/")
        self._silent = silent
        self._http = HttpCaller()

    async def send(self, message: Outgoing) -> PlatformAck:
        request: dict[str, Any] = {"chat_id": message.chat, "text": message.text}
        if message.format is Format.TELEGRAM_HTML:
            request["parse_mode"] = "HTML"
        if message.reply_to is not None:
            request["reply_parameters"] = {
                "message_id": _number(message.reply_to),
                "allow_sending_without_reply": True,
            }
        if message.thread is not None:
            request["message_thread_id"] = _number(message.thread)
        if self._silent:
            request["disable_notification"] = True
        result = await self._call("sendMessage", request)
        return PlatformAck(str(result["message_id"]) if "message_id" in result else None)

    async def check(self) -> str:
        result = await self._call("getMe", {})
        return f"the bot @{result.get('username', '?')} answers"

    async def close(self) -> None:
        await self._http.close()

    async def _call(self, method: str, request: dict[str, Any]) -> dict[str, Any]:
        url = f"{self._api}/bot{self._token.reveal()}/{method}"
        answer = await self._http.call("POST", url, body=json_body(request), headers=_JSON)
        reply = answer.json()
        # A success status without readable JSON means that Telegram has the message. A refusal would send it again.
        if not answer.is_success or reply.get("ok") is False:
            raise _refusal(answer, reply)
        result = reply.get("result")
        return result if isinstance(result, dict) else {}


def _refusal(answer: HttpResponse, reply: dict[str, Any]) -> SendRefused:
    parameters = reply.get("parameters")
    after = parameters.get("retry_after") if isinstance(parameters, dict) else None
    wait_ms = min(after * 1_000, MAX_RETRY_AFTER_MS) if isinstance(after, int) and after >= 0 else answer.retry_after_ms
    return SendRefused(str(reply.get("description", answer.text())), status=answer.status, retry_after_ms=wait_ms)


def _number(text: str) -> int | str:
    return int(text) if text.removeprefix("-").isdecimal() else text

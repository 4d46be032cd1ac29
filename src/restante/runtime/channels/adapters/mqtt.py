"""MQTT 5: publish with QoS 1; a message counts as sent when the broker has acknowledged it."""

import asyncio
import contextlib
import logging
from typing import Any, Final, Literal

import aiomqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from restante.policy.channel_platforms import Platform
from restante.ports.channel_adapter import ChannelAdapter, NoAnswer, NotSent, Outgoing, PlatformAck, SendRefused
from restante.runtime.channels.secret import Secret

MAX_TOPIC_BYTES: Final = 65_535
_WILDCARDS: Final = frozenset("+#\0")
_QUIET: Final = logging.getLogger(f"{__name__}.paho")
_QUIET.disabled = True  # it would log topics, which are chats


_REASONS: Final = {
    0x87: "not a member",
    0x90: "invalid recipient",
    0x95: "message is too long",
    0x97: "too many requests",
}
"""Reason codes as texts that the classifier knows: not authorized, topic name invalid, packet too large, quota
exceeded."""


class _Client(aiomqtt.Client):
    """Records a refusal in an acknowledgement, which aiomqtt treats as a success."""

    refused: ReasonCode | None = None

    def _on_publish(
        self, client: Any, userdata: Any, mid: int, reason_code: ReasonCode, properties: Properties
    ) -> None:
        if reason_code.is_failure:
            self.refused = reason_code
        super()._on_publish(client, userdata, mid, reason_code, properties)

    async def leave(self) -> None:
        """Disconnect. Retrieve the exception of a lost connection, because asyncio logs exceptions that are never
        retrieved."""
        with contextlib.suppress(aiomqtt.MqttError):
            await self.__aexit__(None, None, None)
        if self._disconnected.done() and not self._disconnected.cancelled():
            self._disconnected.exception()


class MqttAdapter(ChannelAdapter):
    """`chat` is a topic. Key, index and format are in the message's user properties.

    The connection is opened on demand and kept. If it breaks, the next send opens another.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int = 1883,
        user: str | None = None,
        password: Secret | None = None,
        tls: bool = False,
        retain: bool = False,
        platform: Platform = Platform.OTHER,
        timeout_s: int = 10,
    ) -> None:
        self.platform = platform
        self._retain = retain
        self._timeout_s = timeout_s
        self._made: dict[str, Any] = {"hostname": host, "port": port, "username": user}
        if password is not None:
            self._made["password"] = password.reveal()
        if tls:
            self._made["tls_params"] = aiomqtt.TLSParameters()
        self._client: _Client | None = None
        self._connecting = asyncio.Lock()
        self._one_at_a_time = asyncio.Lock()  # so that a refusal belongs to a known message

    async def start(self) -> None:
        await self._connected()

    async def check(self) -> str:
        await self._connected()
        return "the broker answers"

    async def send(self, message: Outgoing) -> PlatformAck:
        topic = message.chat
        if _WILDCARDS & set(topic) or len(topic.encode()) > MAX_TOPIC_BYTES:
            raise SendRefused("invalid recipient: a topic has no wildcards and at most 65,535 bytes")
        properties = Properties(PacketTypes.PUBLISH)
        properties.UserProperty = _labels(message)
        async with self._one_at_a_time:
            client = await self._connected()
            client.refused = None
            try:
                await client.publish(topic, message.text.encode(), 1, self._retain, properties, timeout=self._timeout_s)
            except aiomqtt.MqttError as problem:
                await self._drop(client)
                raise NoAnswer(f"the broker did not acknowledge ({type(problem).__name__})") from None
            if client.refused is not None:
                raise SendRefused(_REASONS.get(client.refused.value, str(client.refused)))
        return PlatformAck(message.key)

    async def close(self) -> None:
        if self._client is not None:
            await self._drop(self._client)

    async def _connected(self) -> _Client:
        async with self._connecting:
            if self._client is not None:
                return self._client
            client = _Client(**self._made, protocol=aiomqtt.ProtocolVersion.V5, timeout=self._timeout_s, logger=_QUIET)
            try:
                await client.__aenter__()
            except aiomqtt.MqttError as problem:
                raise NotSent(f"the broker cannot be reached ({type(problem).__name__})") from None
            self._client = client
            return client

    async def _drop(self, client: _Client) -> None:
        if self._client is client:
            self._client = None
            await client.leave()


def _labels(message: Outgoing) -> list[tuple[str, str]]:
    labels = [("key", message.key), ("format", message.format.value), ("part", f"{message.index + 1}/{message.count}")]
    optional: tuple[tuple[Literal["title", "reply_to", "thread"], str | None], ...] = (
        ("title", message.title),
        ("reply_to", message.reply_to),
        ("thread", message.thread),
    )
    return labels + [(name, value) for name, value in optional if value is not None]

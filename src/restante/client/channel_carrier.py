"""The carrier of the route `channel`: selects the adapter for each chunk of the outbox (SPEC 12.7)."""

from collections.abc import Callable
from typing import Final

from restante.client.chunk_sender import ChunkSender, ChunkSenderContext
from restante.core.channel_chunks import channel_of, neighbours_to_ask
from restante.model.errors import RestanteError
from restante.model.ids import MessageId
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import ENDED, State
from restante.policy.failures import Failure
from restante.ports.carrier import StoredByNode, Withdrawn
from restante.ports.channel_adapter import ChannelAdapter
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.channels.adapter_pool import Condition
from restante.wire.channel_chunk import ChannelChunk, decode_chunk

_GIVEN_UP: Final = ENDED - {State.DELIVERED}
Watch = Callable[[MessageId, ChannelChunk, str | None], None]


class ChannelCarrier:
    """Transmits chunks through adapters. With `only`, other channels are ignored.

    `watch` is called when the sending of a chunk begins, and again with the platform's message id when the platform has
    accepted it. The second call comes before that is on disk.
    """

    def __init__(self, host: ChunkSenderContext, *, watch: Watch, only: str | None = None) -> None:
        self._host = host
        self._watch = watch
        self._only = only

    def is_up(self) -> bool:
        return True

    def is_connected(self, lane: str) -> bool:
        """Return whether the channel has started. An absent channel counts as connected, so that its entries fail."""
        channel = channel_of(lane)
        if self._only not in (None, channel):
            return False
        condition = self._host.adapters.health(channel).condition
        return condition in (Condition.READY, Condition.ABSENT)

    async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
        try:
            chunk = decode_chunk(self._host.seal.unseal(entry.payload, context=entry.message_id))
        except RestanteError as problem:
            raise AttemptFailed(
                "the payload is not a chunk of a channel message", failure=Failure.INVALID_FORMAT
            ) from problem
        if entry.lease is None:
            raise AttemptFailed("a channel sends only leased entries of the outbox", failure=Failure.INVALID_FORMAT)
        self._watch(entry.message_id, chunk, None)
        adapter = self._adapter(chunk.channel)
        for neighbour in neighbours_to_ask(chunk, entry):
            status = await self._host.outbox.status(neighbour)
            if status is not None and status.state in _GIVEN_UP:
                raise Withdrawn
        name = await ChunkSender(self._host, entry, entry.lease, chunk, adapter).run()
        self._watch(entry.message_id, chunk, name)
        return ()

    def _adapter(self, channel: str) -> ChannelAdapter:
        adapter = self._host.adapters.adapter(channel)
        if adapter is not None:
            return adapter
        if self._host.adapters.health(channel).condition is Condition.ABSENT:
            raise AttemptFailed("the channel is not in the configuration", failure=Failure.CHANNEL_ABSENT)
        raise AttemptFailed("the channel has not started", failure=Failure.CHANNEL_UNAVAILABLE)

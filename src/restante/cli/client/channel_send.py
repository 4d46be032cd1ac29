"""The work of `restante channel send`: queue a message, send what is due, show the state of each chunk."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from restante.cli.terminal import console, print_json
from restante.client.channels import ChannelMessage, Channels, Enqueued
from restante.client.outbox_types import Status
from restante.model.errors import StoreUnusable
from restante.model.ids import MessageId, show_message_id
from restante.model.states import State
from restante.policy.settings import Settings
from restante.runtime.channels.channel_config import Registered
from restante.views.text_tables import table


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """The state of each chunk. If nothing was queued, `chunks` is empty and `reason` says why."""

    reason: str | None
    chunks: Sequence[tuple[MessageId, Status]]

    @property
    def has_failed(self) -> bool:
        return any(status.state in (State.DEAD, State.EXPIRED) for _, status in self.chunks)


async def send_now(
    file: Path, channels: Mapping[str, Registered], draft: ChannelMessage, *, settings: Settings, budget_ms: int | None
) -> SendResult:
    """Queue the message, send what is due on its channel within the budget, and return the state of each chunk."""
    try:
        service = Channels.open(file, channels, settings=settings)
    except apsw.Error as error:
        look = "see what is wrong with 'restante outbox check'"
        raise StoreUnusable(f"{file.name} is damaged or incomplete ({error}); {look}") from error
    try:
        answer = await service.deliver(draft)
        if not isinstance(answer, Enqueued):
            return SendResult(reason=answer.reason, chunks=())
        if budget_ms is not None:
            await service.drain(only=draft.channel, budget_ms=budget_ms)
        found = [(each, await service.outbox.status(each)) for each in answer.message_ids]
        return SendResult(reason=None, chunks=[(each, status) for each, status in found if status is not None])
    finally:
        await service.close()


def print_sent(sent: SendResult, *, as_json: bool) -> None:
    chunks: list[dict[str, Any]] = [
        {
            "message_id": show_message_id(message_id),
            "state": status.state.value,
            "code": None if status.last_error is None else status.last_error.value,
        }
        for message_id, status in sent.chunks
    ]
    if as_json:
        print_json({"skipped": sent.reason, "chunks": chunks})
        return
    if sent.reason is not None:
        console().print(f"Nothing was queued: {sent.reason}", markup=False)
        return
    rows = [(str(number), one["message_id"], one["state"], one["code"] or "") for number, one in enumerate(chunks, 1)]
    console().print(table(f"Chunks: {len(rows)}", "chunk", "message", "state", "error", rows=rows, right=("chunk",)))

"""Print one message in full: its fields, its journal events and, on request, its sealed payload."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from restante.cli.terminal import console, print_json
from restante.model.journal import JournalEvent
from restante.views.message_timeline import events_data, events_table
from restante.views.messages import base64_of, hex_of
from restante.views.text_tables import fields


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDetail:
    """One message. `with_body`: the payload was requested; `body` is None if it was deleted."""

    title: str
    data: dict[str, Any]
    lines: Iterable[tuple[str, str]]
    events: Sequence[JournalEvent]
    with_body: bool
    body: bytes | None


def print_detail(message: MessageDetail, *, as_json: bool) -> None:
    if as_json:
        payload = {"payload_base64": base64_of(message.body)} if message.with_body else {}
        print_json({**message.data, **payload, "events": events_data(message.events)})
        return
    out = console()
    out.print(fields(message.title, message.lines))
    out.print(events_table(message.events))
    if message.with_body:
        out.print(hex_of(message.body))

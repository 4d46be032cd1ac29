"""One message with all that is known of it: its fields, its facts and, on request, its sealed payload."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from restante.cli.terminal import console, print_json
from restante.model.journal import JournalEvent
from restante.views.message_timeline import facts_data, facts_table
from restante.views.messages import base64_of, hex_of
from restante.views.text_tables import fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """`with_body` says that the payload was asked for; it may be gone all the same."""

    title: str
    data: dict[str, Any]
    lines: Iterable[tuple[str, str]]
    facts: Sequence[JournalEvent]
    with_body: bool
    body: bytes | None


def print_whole(message: Whole, *, as_json: bool) -> None:
    if as_json:
        payload = {"payload_base64": base64_of(message.body)} if message.with_body else {}
        print_json({**message.data, **payload, "facts": facts_data(message.facts)})
        return
    out = console()
    out.print(fields(message.title, message.lines))
    out.print(facts_table(message.facts))
    if message.with_body:
        out.print(hex_of(message.body))

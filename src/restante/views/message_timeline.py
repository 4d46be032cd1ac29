"""The journal events of one message, as a table and as JSON."""

from collections.abc import Sequence
from typing import Any

from rich.console import Group

from restante.model.error_codes import Code
from restante.model.ids import event_number
from restante.model.journal import JournalEvent
from restante.views import formatting
from restante.views.text_tables import table


def events_data(events: Sequence[JournalEvent]) -> list[dict[str, Any]]:
    return [
        {
            "number": event_number(event.event_id),
            "at_ms": event.at_ms,
            "event": event.kind.value,
            "attempt": event.attempt,
            "code": event.code,
            "latency_ms": event.latency_ms,
        }
        for event in events
    ]


def events_table(events: Sequence[JournalEvent]) -> Group:
    first_ms = events[0].at_ms if events else 0
    rows = [
        (
            formatting.moment(event.at_ms),
            f"+{formatting.roughly(event.at_ms - first_ms)}" if event.at_ms >= first_ms else "before",
            event.kind.value.replace("_", " "),
            str(event.attempt or ""),
            reason_text(event.code),
        )
        for event in events
    ]
    return table(
        "Journal events", "at (UTC)", "after", "event", "attempt", "why", rows=rows, right=("after", "attempt")
    )


def reason_text(code: str | None) -> str:
    """Return a code with its name. Other reasons are words already."""
    if code is None:
        return ""
    known = {each.value: each for each in Code}
    if code in known:
        return f"{code} {known[code].name.replace('_', ' ').lower()}"
    return code.replace("_", " ")

"""Received messages and messages that are held back, as lines of text and as JSON."""

import base64
from datetime import UTC, datetime
from typing import Any, Final

from restante.model.ids import show_message_id
from restante.model.inbox_entry import HeldBack, InboxEntry
from restante.model.kinds import Kind
from restante.views import formatting

NEXT_LINE: Final = "\n    "


def message_line(entry: InboxEntry, name: str) -> str:
    """Return a received message as text that is safe to print. Of media only the size is shown.

    Further lines of a text are indented: one that looks like the first line of a message is none.
    """
    late = " (late)" if entry.is_late else ""
    if entry.kind is Kind.MEDIA:
        text = f"{len(entry.plaintext):,} bytes"
    else:
        text = formatting.safe_text(entry.plaintext.decode("utf-8", "replace")).rstrip("\n").replace("\n", NEXT_LINE)
    return f"{formatting.moment(entry.received_at_ms)}  {name}{late}  {text}"


def message_data(entry: InboxEntry, name: str) -> dict[str, Any]:
    """Return a received message for JSON. A body that is not UTF-8 is given as base64."""
    data: dict[str, Any] = {
        "message_id": show_message_id(entry.message_id),
        "from": name,
        "kind": entry.kind.value,
        "received_at_ms": entry.received_at_ms,
        "sequence": entry.sequence_number,
        "is_late": entry.is_late,
    }
    try:
        data["text"] = entry.plaintext.decode("utf-8")
    except UnicodeDecodeError:
        data["base64"] = base64.b64encode(entry.plaintext).decode()
    return data


def held_back_line(held: HeldBack, name: str) -> str:
    """Say how many messages wait for an earlier one, and until when."""
    until = datetime.fromtimestamp(held.until_ms / 1_000, UTC).strftime("%H:%M")
    many = held.messages > 1
    return (
        f"{held.messages:,} message{'s' if many else ''} from {name} wait{'' if many else 's'} for an earlier one, "
        f"until {until} UTC"
    )


def held_back_data(held: HeldBack, name: str) -> dict[str, Any]:
    return {"from": name, "messages": held.messages, "until_ms": held.until_ms}

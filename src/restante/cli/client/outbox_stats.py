"""The totals of a client's outbox: what failed, what is in flight, how near each limit is."""

from typing import Any, Final

from rich.console import Console

from restante.cli.client.database_file import ClientFile
from restante.model.states import IN_FLIGHT, DeadCategory, State
from restante.runtime.sqlite.outbox.queries import EntryTotals
from restante.views import formatting
from restante.views.messages import at, lane
from restante.views.text_tables import fields, table

MOST_LANES: Final = 5
RECENT_MS: Final = 30 * 86_400_000


def stats_data(client: ClientFile) -> dict[str, Any]:
    reading = client.reading
    held = reading.held_by_state()
    dead = reading.dead_by_category()
    limits = client.settings.outbox
    messages, payload_bytes = client.outbox.held()
    return {
        "now_ms": client.now_ms,
        "states": {state.value: _held(held.get(state)) for state in State if state in IN_FLIGHT},
        "limits": {
            "messages": {"held": messages, "limit": limits.max_entries},
            "payload_bytes": {"held": payload_bytes, "limit": limits.max_payload_bytes},
        },
        "lanes": [
            {"lane": name, "held": held, "limit": limit}
            for name, held, limit in reading.fullest_lanes(limits, limit=MOST_LANES)
        ],
        "oldest_waiting_at_ms": reading.oldest_waiting_ms(),
        "next_wake_at_ms": client.now_ms
        if client.outbox.lanes.is_due(now_ms=client.now_ms)
        else client.outbox.next_wake_ms(now_ms=client.now_ms),
        "delivered_remembered": reading.count_delivered(),
        "dead_letters": {category.value: _held(dead.get(category)) for category in DeadCategory},
        "evicted": reading.count_evicted(since_ms=client.now_ms - RECENT_MS),
    }


def has_failures(data: dict[str, Any]) -> bool:
    """Return whether messages are dead, expired or were evicted in the last 30 days."""
    return bool(data["evicted"]) or any(one["messages"] for one in data["dead_letters"].values())


def print_stats(out: Console, data: dict[str, Any]) -> None:
    now_ms = data["now_ms"]
    failures = {**data["dead_letters"], "evicted": {"messages": data["evicted"], "payload_bytes": 0}}
    if has_failures(data):
        out.print(_sums("Not delivered", "category", failures))
        out.print("List them with 'restante dlq list'. Evicted messages are not kept.\n", style="bold red")
    else:
        out.print("No message failed: none is dead, expired or evicted.\n")
    out.print(_sums("In flight", "state", data["states"]))
    full = [
        _fill_row("messages", data["limits"]["messages"], "messages"),
        _fill_row("payload", data["limits"]["payload_bytes"], "bytes"),
    ]
    full += [
        _fill_row(f"lane {lane(one['lane'])}", {"held": one["held"], "limit": one["limit"]}, "messages")
        for one in data["lanes"]
    ]
    out.print(table("How full", "what", "full", "", "held of limit", rows=full, right=("full",)))
    oldest, wake = data["oldest_waiting_at_ms"], data["next_wake_at_ms"]
    moments = [
        ("oldest unsent", "none" if oldest is None else at(oldest, now_ms)),
        ("next wake", "none" if wake is None else at(wake, now_ms)),
        ("delivered", f"{data['delivered_remembered']:,} in the last 30 days"),
    ]
    out.print(fields("Times", moments))


def _held(held: EntryTotals | None) -> dict[str, int]:
    return {"messages": held.messages if held else 0, "payload_bytes": held.payload_bytes if held else 0}


def _sums(title: str, of: str, sums: dict[str, dict[str, int]]) -> Any:
    rows = [(name, f"{one['messages']:,}", f"{one['payload_bytes']:,}") for name, one in sums.items()]
    return table(title, of, "messages", "bytes", rows=rows, right=("messages", "bytes"))


def _fill_row(name: str, filled: dict[str, int], unit: str) -> tuple[str, ...]:
    held, limit = filled["held"], filled["limit"]
    return name, formatting.percentage(held, limit), formatting.bar(held, limit), f"{held:,} of {limit:,} {unit}"

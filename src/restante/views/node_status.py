"""A node's status as tables."""

from typing import Any

from rich.console import Console

from restante.views import formatting
from restante.views.text_tables import fields, table


def print_relay(out: Console, relay: str) -> None:
    """Print the address on one line, unbroken, so that it can be copied."""
    out.print("Clients name this relay by its key and its endpoint:")
    out.print(f"{relay}\n", markup=False, soft_wrap=True)


def print_status(out: Console, data: dict[str, Any]) -> None:
    now_ms = data["now_ms"]
    out.print(fields(f"Node in {data['directory']}", _node_rows(data, now_ms)))
    print_relay(out, data["relay_address"])
    out.print(fields("Store", _store_rows(data["store"], now_ms)))
    if not data["running"]:
        out.print(f"Start it with: restante node run {data['directory']}", markup=False)
        return
    relay = data["relay"]
    limit = data["limits"]["max_connections"]
    open_now = f"{relay['connections']:,} of {limit:,}, {relay['subscriptions']:,} of them subscribed"
    pending = f"{relay['pending_puts']:,} puts, {relay['pending_put_bytes']:,} bytes"
    now = [("connections", open_now), ("pending", pending), ("shipping", _shipping(data["shipping"], now_ms))]
    out.print(fields("Now", now))
    out.print(table("Since the start", "what", "times", "bytes", rows=_counts(relay), right=("times", "bytes")))


def _node_rows(data: dict[str, Any], now_ms: int) -> list[tuple[str, str]]:
    if not data["running"]:
        return [("state", "not running")]
    health = data["health"]
    state = "running" if health["usable"] else f"running, store unusable: {health['reason']} ({health['code']})"
    if health["damaged_blobs"]:
        state += f", {_many(health['damaged_blobs'], 'message', 's')} damaged on disk"
    since = f"{formatting.moment(data['started_at_ms'])} UTC ({formatting.away(data['started_at_ms'], now_ms)})"
    return [
        ("state", state),
        ("since", since),
        ("process", f"{data['pid']}, version {data['version']}"),
        ("status", f"http://{data['status_address']}/healthz and /metrics"),
        *([] if health["reaping"] == "working" else [("reaping", health["reaping"])]),
    ]


def _shipping(shipping: dict[str, Any] | None, now_ms: int) -> str:
    if shipping is None:
        return "off: journal.ship_to is not set"
    if shipping["failing"]:
        return f"failing, {_many(shipping['failures_in_a_row'], 'time', 's')} in a row; the log says why"
    last = shipping["last_at_ms"]
    return (
        "nothing shipped yet"
        if last is None
        else f"{shipping['events_total']:,} events, {formatting.away(last, now_ms)}"
    )


def _store_rows(store: dict[str, Any] | None, now_ms: int) -> list[tuple[str, str]]:
    if store is None:
        return [("holds", "nothing yet: the node has never run")]
    messages, mailboxes = _many(store["blobs"], "message", "s"), _many(store["mailboxes"], "mailbox", "es")
    oldest, expiry = store["oldest_stored_at_ms"], store["next_expiry_at_ms"]
    return [
        ("holds", f"{messages}, {store['total_bytes']:,} bytes, in {mailboxes}"),
        ("expired", f"{store['expired']:,} of them wait to be removed"),
        ("oldest", "none" if oldest is None else formatting.away(oldest, now_ms)),
        ("next expiry", "none" if expiry is None else formatting.away(expiry, now_ms)),
        ("journal", f"{_many(store['events'], 'event', 's')}, {store['unshipped_events']:,} unshipped"),
        ("file", f"{store['file_bytes']:,} bytes"),
    ]


def _many(count: int, what: str, ending: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else ending}"


def _counts(relay: dict[str, Any]) -> list[tuple[str, str, str]]:
    refused = [(f"refused {code}", count, None) for code, count in sorted(relay["refusals_total"].items())]
    closed = [
        (f"closed, {reason.replace('_', ' ')}", count, None)
        for reason, count in relay["connections_closed_total"].items()
    ]
    rows: list[tuple[str, int, int | None]] = [
        ("connections accepted", relay["connections_total"], None),
        ("rejected, limit reached", relay["connections_rejected_total"], None),
        ("handshake failed", relay["handshake_failures_total"], None),
        *closed,
        ("closed, protocol error", relay["protocol_errors_total"], None),
        ("puts stored", relay["puts_stored_total"], relay["bytes_stored_total"]),
        ("messages served", relay["blobs_served_total"], relay["bytes_served_total"]),
        ("messages deleted by recipients", relay["blobs_deleted_total"], None),
        ("messages removed, expired", relay["blobs_reaped_total"], None),
        ("messages damaged on disk", relay["blobs_damaged_total"], None),
        *refused,
    ]
    return [(what, f"{times:,}", "" if size is None else f"{size:,}") for what, times, size in rows]

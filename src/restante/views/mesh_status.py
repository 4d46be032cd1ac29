"""What operators see of the mesh: the nodes of a local network, and the peers of one node. Values in, tables out."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Group

from restante.views.text_tables import fields, table

_SHOWN_DIGITS = 12  # of a node id: enough to tell nodes apart


def network_table(nodes: Iterable[tuple[str, dict[str, Any] | None]]) -> Group:
    """Return one line a node: its address, and what it says of itself if it answers."""
    return table(
        "Nodes",
        "address",
        "state",
        "peers",
        "copies",
        "records",
        "repaired",
        "connections",
        rows=[_network_row(address, status) for address, status in nodes],
        right=("peers", "copies", "records", "repaired", "connections"),
    )


def _network_row(address: str, status: dict[str, Any] | None) -> Sequence[str]:
    if status is None or status["mesh"] is None:
        return (address, "does not answer", *[""] * 5)
    stats = status["mesh"]["stats"]
    state = "serving" if stats["is_serving"] else "syncing"
    counts = [stats["reached_nodes"], stats["copies"], stats["records"], stats["blobs_repaired_total"]]
    return (address, state, *[f"{each:,}" for each in counts], f"{status['relay']['connections']:,}")


def mesh_fields(mesh: dict[str, Any]) -> Group:
    """Return the mesh part of a node's status."""
    stats, health = mesh["stats"], mesh["health"]
    rows = [
        ("roles", ", ".join(mesh["roles"])),
        ("connection", health["connection"]),
        ("clock", health["clock"]),
        ("network", health["network"]),
        ("directory", f"{stats['directory_nodes']:,} nodes, {stats['table_nodes']:,} in the routing table"),
        ("stored", f"{stats['copies']:,} copies under {stats['keys']:,} keys, {stats['records']:,} prekey records"),
        ("time buckets", f"{stats['open_buckets']:,} with mail"),
        ("answers", "complete" if stats["is_serving"] else "not complete: not yet synced with its neighbours"),
        ("repaired", f"{stats['blobs_repaired_total']:,} copies, {stats['blobs_damaged_total']:,} found damaged"),
    ]
    return fields("Mesh", rows)


def peers_table(peers: Iterable[dict[str, Any]]) -> Group:
    """Return one line for each node that a node knows."""
    rows = [(*_described(each), _yes_no(each["reached"]), _yes_no(each["in_table"])) for each in peers]
    return table("Peers", *_DESCRIBED, "reached", "table", rows=rows, whole=True)


def known_nodes_table(nodes: Iterable[dict[str, Any]]) -> Group:
    """Return one line for each node that a client knows."""
    return table("Nodes", *_DESCRIBED, rows=list(map(_described, nodes)), whole=True)


def closest_nodes_table(nodes: Iterable[dict[str, Any]]) -> Group:
    """Return one line for each node that a lookup found, the closest first."""
    return table("Closest nodes", "node", "address", rows=[_placed(each) for each in nodes], whole=True)


def holders_table(holders: Iterable[dict[str, Any]]) -> Group:
    """Return one line for each node around an inbox. Only its owner knows how many messages a node holds."""
    rows = [
        (
            *_placed(each),
            _yes_no(each["should_store"]),
            _yes_no(each["answers"]),
            "" if each["messages"] is None else f"{each['messages']:,}",
        )
        for each in holders
    ]
    columns = ("node", "address", "should store", "answers", "messages")
    return table("Mail for this address in this hour", *columns, rows=rows, right=("messages",), whole=True)


def _placed(node: dict[str, Any]) -> tuple[str, str]:
    return node["node"][:_SHOWN_DIGITS], node["place"].partition("@")[2]


_DESCRIBED = ("node", "address", "roles", "family")


def _described(node: dict[str, Any]) -> tuple[str, ...]:
    return (
        node["node"][:_SHOWN_DIGITS],
        " ".join(node["endpoints"]),
        " ".join(node["roles"]),
        node["family"][:_SHOWN_DIGITS],
    )


def _yes_no(value: object) -> str:
    return "yes" if value else "no"

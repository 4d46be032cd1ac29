"""What a node tells its operator about the mesh: status and health. Numbers, fixed words and public facts of nodes."""

from dataclasses import asdict
from ipaddress import IPv6Address, ip_address
from typing import Any

from restante.core.directory.routing_table import Phase
from restante.model.node_descriptor import Endpoint
from restante.node.mesh.agent import MeshAgent


def mesh_health(agent: MeshAgent | None) -> dict[str, Any] | None:
    """Return warnings; none of them makes the node unusable (SPEC 7.11)."""
    if agent is None:
        return None
    time = agent.service.view.time
    clock = "agrees with the network" if time.is_agreed else "own clock: fewer than 3 families answer"
    if time.is_own_clock_wrong:
        clock = f"wrong by about {round(time.offset_ms / 60_000)} minutes; the node uses network time"
    return {
        "connection": "isolated: no other node answers" if agent.is_isolated else "working",
        "clock": clock,
        "damaged_blobs": agent.service.family.counters.blobs_damaged,
        "network": "private" if agent.service.view.is_private else "public",
    }


def mesh_data(agent: MeshAgent | None) -> dict[str, Any] | None:
    """Return what `restante node peers` shows."""
    if agent is None:
        return None
    view = agent.service.view
    valid = sorted(view.directory.valid(now_ms=view.now_ms()), key=lambda node: node.node_id)
    peers = [
        {
            "node": each.node_id.hex(),
            "endpoints": list(map(_shown, each.endpoints)),
            "roles": each.roles.names,
            "family": each.family.hex(),
            "expires_at_ms": each.expires_at_ms,
            "reached": each.node_id in agent.directory.reached,
            "in_table": view.table.phase_of(each) in (Phase.LISTED, Phase.PINGED),
        }
        for each in valid
        if each.node_id != view.own.node_id
    ]
    return {
        "node": view.own.node_id.hex(),
        "roles": view.own.roles.names,
        "health": mesh_health(agent),
        "stats": asdict(agent.stats()),
        "peers": peers,
    }


def _shown(endpoint: Endpoint) -> str:
    address = ip_address(endpoint.ip)
    return f"[{address}]:{endpoint.port}" if isinstance(address, IPv6Address) else f"{address}:{endpoint.port}"

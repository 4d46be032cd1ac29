"""Twelve node processes under load and kill -9, twenty people who come and go, 10,000 messages through circuits."""

from pathlib import Path

import pytest

from support.circuit.busy_people import Load, everything_arrives_once_in_order
from support.circuit.people import node_processes
from support.spec.clauses import clause


@pytest.mark.soak
@clause("1.1", "1.2", "11.3")
async def test_10_000_messages_arrive_once_in_order_through_circuits_although_nodes_are_killed(tmp_path: Path) -> None:
    with node_processes(tmp_path / "nodes", 12) as nodes:
        load = Load(people=20, messages=500, visits=5, kills=40)
        await everything_arrives_once_in_order(tmp_path, nodes, load)

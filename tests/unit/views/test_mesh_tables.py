"""views/mesh_status and views/circuits: what people compare and copy is whole in a narrow terminal."""

import io
from typing import Any

import pytest
from rich.console import Console, RenderableType

from restante.views.circuits import circuits_view
from restante.views.mesh_status import closest_nodes_table, holders_table, known_nodes_table, peers_table

ADDRESS = "[2001:db8:1234:5678:9abc:def0:1234:5678]:7431"
NODE: dict[str, Any] = {
    "node": "21cd25daa9e0" + "0" * 52,
    "place": f"{'ab' * 32}@{ADDRESS}",
    "endpoints": [ADDRESS],
    "roles": ["mailbox", "storage", "hop"],
    "family": "d518b0f304b5" + "0" * 52,
    "should_store": True,
    "answers": True,
    "messages": 3,
    "reached": True,
    "in_table": False,
}


def printed(made: RenderableType) -> str:
    text = io.StringIO()
    Console(file=text, width=60).print(made, crop=False)
    return text.getvalue()


@pytest.mark.parametrize("made", [known_nodes_table, closest_nodes_table, holders_table, peers_table])
def test_no_address_of_a_node_is_cut(made: Any) -> None:
    assert f" {ADDRESS}" in printed(made([NODE]))


def test_without_circuits_there_is_a_sentence_and_no_empty_table() -> None:
    pool = {
        "circuits": [],
        "built": 0,
        "failures": {"guard": 54},
        "silent": 0,
        "build_timeout_ms": 5_000,
        "build_median_ms": None,
    }
    shown = printed(circuits_view(pool, None))
    assert shown.startswith("No circuit stands now.\n")
    assert "guard middle exit" not in shown
    assert "54 at the guard" in shown


def test_what_a_circuit_is_for_is_not_cut() -> None:
    circuit = {"hops": ["94531204", "c4a5333d", "3aee0bb3"], "streams": 3, "age_ms": 93_000, "build_ms": 9}
    circuits = [{**circuit, "use": use} for use in ("public inbox", "contacts inbox", "former contacts inbox 1")]
    pool = {
        "circuits": circuits,
        "built": 3,
        "failures": {},
        "silent": 0,
        "build_timeout_ms": 500,
        "build_median_ms": 9,
    }
    shown = printed(circuits_view(pool, None))
    for use in ("public inbox", "contacts inbox", "former contacts inbox 1"):
        assert f" {use} " in shown

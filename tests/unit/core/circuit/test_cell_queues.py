"""core/circuit: queues of a hop, in turns, bounded per circuit and in all."""

from hypothesis import given
from hypothesis import strategies as st

from restante.core.circuit.cell_queues import MAX_QUEUE_BYTES, CellBudget, CellQueues
from support.spec.clauses import clause

CELL = bytes(2_048)


@clause("11.5")
def test_a_circuit_over_its_window_is_destroyed_and_no_other() -> None:
    budget: CellBudget[int] = CellBudget(100_000_000)
    queues = CellQueues(budget)
    for _ in range(MAX_QUEUE_BYTES // len(CELL)):
        assert queues.add(1, CELL) == []
        assert queues.add(2, CELL) == []
        assert queues.take() is not None
    assert queues.add(1, CELL) == []
    while not (victims := queues.add(2, CELL)):
        pass
    assert victims == [2]


@clause("11.5")
def test_over_the_budget_of_the_node_the_longest_queue_is_destroyed() -> None:
    budget: CellBudget[int] = CellBudget(10 * len(CELL))
    near, far = CellQueues(budget), CellQueues(budget)
    for _ in range(7):
        assert near.add(1, CELL) == []
    for _ in range(3):
        assert far.add(2, CELL) == []
    assert far.add(2, CELL) == [1]
    near.forget(1)
    assert budget.total_bytes == 4 * len(CELL)


def test_circuits_take_turns() -> None:
    queues: CellQueues[str] = CellQueues(CellBudget(1_000_000))
    for circuit, count in (("a", 3), ("b", 1), ("c", 2)):
        for number in range(count):
            queues.add(circuit, f"{circuit}{number}".encode())
    taken = []
    while (raw := queues.take()) is not None:
        taken.append(raw.decode())
    assert taken == ["a0", "b0", "c0", "a1", "c1", "a2"]


@given(st.lists(st.tuples(st.sampled_from("atf"), st.integers(0, 3), st.integers(1, 40))))
def test_the_budget_counts_exactly_what_is_queued(steps: list[tuple[str, int, int]]) -> None:
    budget: CellBudget[int] = CellBudget(100_000)
    queues = CellQueues(budget)
    held = dict.fromkeys(range(4), 0)
    for step, circuit, size in steps:
        if step == "a":
            queues.add(circuit, bytes([circuit]) * size)
            held[circuit] += size
        elif step == "f":
            queues.forget(circuit)
            held[circuit] = 0
        elif (raw := queues.take()) is not None:
            held[raw[0]] -= len(raw)
        assert budget.total_bytes == sum(held.values())

"""Turns of the write queue: equal shares, and nobody waits for another's backlog (SPEC 6.8)."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from restante.core.fair_queue import CONNECTION_TURN, SOURCE_TURN, FairQueue
from support.spec.clauses import clause

MAX_COST = 200
ITEMS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(1, MAX_COST)), max_size=80)


@given(ITEMS, st.lists(st.integers(1, 300), max_size=40))
def test_every_item_is_served_once_and_each_connection_in_its_order(
    items: list[tuple[int, int, int]], budgets: list[int]
) -> None:
    queue: FairQueue[int] = FairQueue()
    for number, (source, connection, cost) in enumerate(items):
        queue.add(source, (source, connection), number, cost=cost)
    served: list[int] = []
    for budget in budgets:
        served += queue.take(budget)
    while len(queue):
        served += queue.take(100)
    assert sorted(served) == list(range(len(items)))
    assert queue.cost == 0
    for key in {(source, connection) for source, connection, _ in items}:
        own = [number for number in served if items[number][:2] == key]
        assert own == sorted(own)


@clause("6.8")
@given(ITEMS, st.integers(1, MAX_COST))
def test_between_two_turns_of_a_waiting_connection_no_other_source_gets_more_than_one_turn(
    items: list[tuple[int, int, int]], cost: int
) -> None:
    queue: FairQueue[tuple[int, int]] = FairQueue()
    for source, connection, greedy_cost in items:
        queue.add(source, (source, connection), (source, greedy_cost), cost=greedy_cost)
    queue.add("modest", "modest", (-1, cost), cost=cost)
    before: Counter[int] = Counter()
    while len(queue):
        for source, served_cost in queue.take(1):
            if source == -1:
                assert all(spent <= SOURCE_TURN + MAX_COST for spent in before.values())
                return
            before[source] += served_cost
    raise AssertionError("never served")


@clause("6.8")
@given(st.integers(2, 8), st.lists(st.integers(1, MAX_COST), min_size=8, max_size=8))
def test_sources_with_a_backlog_get_equal_shares_whatever_their_items_cost(sources: int, costs: list[int]) -> None:
    queue: FairQueue[tuple[int, int]] = FairQueue()
    for source in range(sources):
        for _ in range(20_000 // costs[source]):
            queue.add(source, source, (source, costs[source]), cost=costs[source])
    shares: Counter[int] = Counter()
    for source, cost in queue.take(10_000):
        shares[source] += cost
    assert max(shares.values()) - min(shares.values()) <= 2 * (SOURCE_TURN + MAX_COST)


@clause("6.8")
def test_a_source_with_many_connections_gets_no_more_than_one_with_a_single_connection() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(1_000):
        queue.add("crowd", f"crowd {number % 100}", "crowd", cost=1)
        queue.add("single", "single", "single", cost=1)
    shares = Counter(queue.take(1_000))
    assert abs(shares["crowd"] - shares["single"]) <= SOURCE_TURN


@clause("6.8")
def test_within_a_source_connections_take_turns() -> None:
    queue: FairQueue[int] = FairQueue()
    for _ in range(500):
        for connection in range(4):
            queue.add("home", connection, connection, cost=1)
    assert set(Counter(queue.take(SOURCE_TURN)).values()) == {CONNECTION_TURN}


@clause("6.8")
def test_a_single_connection_gets_everything() -> None:
    queue: FairQueue[int] = FairQueue()
    for number in range(1_000):
        queue.add("home", "only", number, cost=1)
    assert queue.take(10_000) == list(range(1_000))


def test_large_items_are_paid_for_even_if_the_connection_queues_them_one_by_one() -> None:
    queue: FairQueue[str] = FairQueue()
    for _ in range(20_000):
        queue.add("small", "small", "small", cost=1)
    shares: Counter[str] = Counter()
    for _ in range(50):
        if not shares["queued large"]:
            queue.add("large", "large", "large", cost=MAX_COST)
            shares["queued large"] = 1
        for item in queue.take(1):
            shares[item] += MAX_COST if item == "large" else 1
            shares["queued large"] = 0 if item == "large" else shares["queued large"]
    assert shares["large"] <= shares["small"] + MAX_COST + SOURCE_TURN

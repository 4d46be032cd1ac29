"""core/circuit: which circuit serves a request, and when circuits are built, rotated and ended."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.circuit.flow import MAX_STREAMS
from restante.core.circuit.pool import STORES, Build, PooledCircuit, Reuse, Wait, choose_circuit, due, rotate_at
from restante.model.ids import NodeId
from restante.policy.circuits.limits import GONE_MS, CircuitLimits
from support.spec.clauses import clause

NOW = 10_000_000
LIMITS = CircuitLimits()


def circuit(number: int, use: str | None = None, *, streams: int = 0, age_ms: int = 1_000) -> PooledCircuit:
    return PooledCircuit(
        number=number,
        hops=tuple(NodeId(bytes([number, place]) * 16) for place in range(3)),
        use=use,
        streams=streams,
        built_at_ms=NOW - age_ms,
        used_at_ms=NOW - 500,
        rotate_at_ms=NOW - age_ms + 600_000,
    )


@clause("11.6")
def test_a_circuit_serves_one_use_only() -> None:
    pool = [circuit(1, STORES), circuit(2, "inbox a"), circuit(3)]
    assert choose_circuit(pool, STORES, now_ms=NOW, limits=LIMITS) == Reuse(1)
    assert choose_circuit(pool, "inbox a", now_ms=NOW, limits=LIMITS) == Reuse(2)
    assert choose_circuit(pool, "inbox b", now_ms=NOW, limits=LIMITS) == Reuse(3), "a spare"
    assert choose_circuit(pool[:2], "inbox b", now_ms=NOW, limits=LIMITS) == Build()


@clause("11.1")
@pytest.mark.parametrize("place", [0, 1, 2])
def test_no_node_is_reached_over_a_circuit_in_which_it_is_a_hop(place: int) -> None:
    pool = [circuit(1, STORES)]
    avoid = frozenset({pool[0].hops[place]})
    assert choose_circuit(pool, STORES, now_ms=NOW, limits=LIMITS, avoid=avoid) == Build()


@clause("11.6")
def test_an_inbox_is_asked_over_circuits_with_two_exits_before_one_is_used_twice() -> None:
    def choose(pool: list[PooledCircuit]) -> object:
        return choose_circuit(pool, "inbox", now_ms=NOW, limits=LIMITS, wants_exits=2)

    first, second = circuit(1, "inbox", streams=1), circuit(2, "inbox", streams=1)
    same_exit = replace(circuit(3), hops=(*circuit(3).hops[:2], first.hops[-1]))
    assert choose([]) == Build()
    assert choose([first]) == Build(avoid_exits=frozenset({first.hops[-1]}))
    assert choose([first, same_exit]) == Build(avoid_exits=frozenset({first.hops[-1]})), "the exit of the spare is used"
    assert choose([first, circuit(4)]) == Reuse(4), "a spare with another exit"
    assert choose([first, second]) == Reuse(1)
    assert choose([replace(first, streams=2), second]) == Reuse(2), "the least loaded"


@clause("11.2")
def test_a_full_pool_gives_up_an_unused_circuit_or_waits() -> None:
    busy = [circuit(number, "inbox", streams=1) for number in range(1, 11)]
    assert choose_circuit(busy, STORES, now_ms=NOW, limits=LIMITS) == Wait()
    idle = replace(busy[3], streams=0)
    assert choose_circuit([*busy[:3], idle, *busy[4:]], STORES, now_ms=NOW, limits=LIMITS) == Build(evicted=4)
    assert choose_circuit(busy[:8], STORES, now_ms=NOW, limits=LIMITS, building=2) == Wait()


def test_a_circuit_with_all_its_streams_open_takes_no_more() -> None:
    assert choose_circuit([circuit(1, STORES, streams=MAX_STREAMS)], STORES, now_ms=NOW, limits=LIMITS) == Build()


@clause("11.2")
def test_a_circuit_that_has_carried_its_messages_makes_room_for_another() -> None:
    spent = replace(circuit(1, STORES), is_spent=True)
    assert choose_circuit([spent], STORES, now_ms=NOW, limits=LIMITS) == Build()
    busy = [circuit(number, "inbox", streams=1) for number in range(3, 11)]
    full = [spent, replace(circuit(2, "records"), used_at_ms=0), *busy]
    assert choose_circuit(full, STORES, now_ms=NOW, limits=LIMITS) == Build(evicted=1)


@clause("11.3")
def test_a_circuit_is_rotated_after_ten_minutes_and_gone_at_twelve() -> None:
    old = circuit(1, "inbox", streams=1, age_ms=600_000)
    assert choose_circuit([old], "inbox", now_ms=NOW, limits=LIMITS) == Build()
    assert due([old], now_ms=NOW, limits=LIMITS).rotate == (1,)
    assert due([replace(old, streams=0)], now_ms=NOW, limits=LIMITS).destroy == (1,)
    assert due([circuit(1, "inbox", streams=1, age_ms=GONE_MS)], now_ms=NOW, limits=LIMITS).destroy == (1,)


@clause("11.3")
@given(st.floats(-1, 1))
def test_the_time_to_rotate_leaves_time_for_a_new_subscription(dice: float) -> None:
    assert 480_000 <= rotate_at(0, dice) <= GONE_MS - 30_000


@clause("11.3")
def test_idle_time_starts_at_the_first_use() -> None:
    spare = circuit(1, age_ms=120_000)
    unused = replace(spare, used_at_ms=spare.built_at_ms)
    assert due([unused], now_ms=NOW, limits=LIMITS).destroy == ()
    used = replace(unused, use=STORES, used_at_ms=NOW - 60_000)
    assert due([used], now_ms=NOW, limits=LIMITS).destroy == (1,)
    assert due([replace(used, streams=1)], now_ms=NOW, limits=LIMITS).destroy == (), "a subscription keeps it"


@clause("11.2")
def test_spares_are_built_while_the_client_is_active_and_the_pool_has_room() -> None:
    assert due([], now_ms=NOW, limits=LIMITS).build_spares == 2
    assert due([], now_ms=NOW, limits=LIMITS, building=1).build_spares == 1
    assert due([circuit(1)], now_ms=NOW, limits=LIMITS).build_spares == 1
    assert due([], now_ms=NOW, limits=LIMITS, is_active=False).build_spares == 0
    receiving = [circuit(1, "inbox", streams=1)]
    assert due(receiving, now_ms=NOW, limits=LIMITS, is_active=False).build_spares == 2, "for its next message"
    busy = [circuit(number, "inbox", streams=1) for number in range(1, 10)]
    assert due(busy, now_ms=NOW, limits=LIMITS).build_spares == 1

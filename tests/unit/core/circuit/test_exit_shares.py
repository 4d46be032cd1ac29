"""core/circuit/exit_shares: no circuit uses up what an exit may store at a node (SPEC 6.6)."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restante.core.circuit.exit_shares import LEAST_PARTS, MAX_DIVIDED, Claim, ExitShares
from restante.model.ids import InboxKey, NodeId
from restante.wire.frames.mesh_storage import UNLIMITED, MeshRoom
from support.spec.clauses import clause

NODE, OTHER_NODE = NodeId(b"n" * 32), NodeId(b"o" * 32)
KEY, OTHER_KEY = InboxKey(b"k" * 32), InboxKey(b"l" * 32)
SIZE = 100


class Node:
    """A storage node that gives this exit `share` bytes, `key_share` under each key, or limits nothing."""

    def __init__(self, shares: ExitShares, share: int = UNLIMITED, key_share: int = UNLIMITED) -> None:
        self.shares = shares
        self.share = share
        self.key_share = key_share
        self.held: dict[InboxKey, int] = {}

    def put(self, circuit: str, key: InboxKey = KEY, size: int = SIZE) -> bool | None:
        """Return whether the put was stored; None if the exit itself refused it."""
        claim = self.shares.claim(circuit, NODE, key, size)
        return None if claim is None else self.answer(claim)

    def answer(self, claim: Claim) -> bool:
        node_left, key_left = self.left(claim.key)
        is_stored = claim.size_bytes <= min(node_left, key_left)
        if is_stored:
            self.held[claim.key] = self.held.get(claim.key, 0) + claim.size_bytes
        node_left, key_left = self.left(claim.key)
        room = MeshRoom(node_bytes=node_left, key_bytes=key_left)
        is_limited = (node_left, key_left) != (UNLIMITED, UNLIMITED)
        self.shares.answered(claim, room if is_limited else None, is_stored=is_stored)
        return is_stored

    def left(self, key: InboxKey) -> tuple[int, int]:
        in_all = self.share if self.share == UNLIMITED else self.share - sum(self.held.values())
        under_key = self.key_share if self.key_share == UNLIMITED else self.key_share - self.held.get(key, 0)
        return in_all, under_key

    def stored(self, circuit: str, keys: Sequence[InboxKey] = (KEY,)) -> int:
        """Return how many puts of this circuit are stored before it is refused."""
        count = 0
        while self.put(circuit, keys[count % len(keys)]):
            count += 1
        return count


@clause("6.6")
def test_a_node_that_limits_nothing_is_divided_among_nobody() -> None:
    node = Node(ExitShares())
    assert all(node.put("greedy") for _ in range(1_000))


@clause("6.6")
def test_one_circuit_gets_a_tenth_of_what_the_node_gives_the_exit_and_the_next_one_a_tenth_of_the_rest() -> None:
    node = Node(ExitShares(), share=100 * SIZE)
    assert node.stored("greedy") == 10
    assert node.put("greedy") is None, "the exit refuses it, without asking the node"
    assert node.stored("modest") == 10
    assert node.put("greedy") is None


@clause("6.6")
def test_with_more_circuits_each_gets_the_same_smaller_part() -> None:
    node = Node(ExitShares(), share=1_000 * SIZE)
    circuits = [str(number) for number in range(25)]
    for circuit in circuits:
        assert node.put(circuit)
    assert {node.stored(circuit) + 1 for circuit in circuits} == {1_000 // 25}
    assert sum(node.held.values()) == node.share


@clause("6.6")
def test_what_is_left_under_one_key_is_divided_apart() -> None:
    node = Node(ExitShares(), key_share=50 * SIZE)
    assert node.stored("greedy") == 5
    assert node.put("greedy", OTHER_KEY)
    assert node.put("modest")


@clause("6.6")
def test_many_keys_give_a_circuit_no_more_of_the_node() -> None:
    node = Node(ExitShares(), share=100 * SIZE)
    keys = [InboxKey(bytes([number]) * 32) for number in range(50)]
    assert node.stored("greedy", keys) == 10


@clause("6.6")
def test_another_node_is_not_concerned() -> None:
    shares = ExitShares()
    node = Node(shares, share=100 * SIZE)
    node.stored("greedy")
    assert shares.claim("greedy", OTHER_NODE, KEY, SIZE) is not None


def test_the_first_put_of_a_circuit_is_the_nodes_to_refuse() -> None:
    node = Node(ExitShares(), share=3 * SIZE)
    assert [node.put(circuit) for circuit in ("one", "two", "three", "four")] == [True, True, True, False]
    assert node.put("one") is None
    assert node.put("four") is False, "nothing of it was stored: it may ask again"


@clause("6.6")
def test_puts_under_way_count_before_their_answers_come() -> None:
    shares = ExitShares()
    node = Node(shares, share=100 * SIZE)
    assert node.put("greedy")
    claims = [shares.claim("greedy", NODE, KEY, SIZE) for _ in range(20)]
    assert sum(claim is not None for claim in claims) == 9


def test_puts_that_were_under_way_when_the_node_began_to_limit_count_too() -> None:
    shares = ExitShares()
    node = Node(shares, share=100 * SIZE)
    claims = [shares.claim("greedy", NODE, KEY, SIZE) for _ in range(10)]
    for claim in claims:
        assert claim is not None
        assert node.answer(claim)
    assert node.put("greedy") is None


def test_a_put_that_is_not_stored_is_given_back() -> None:
    shares = ExitShares()
    node = Node(shares, share=100 * SIZE)
    assert node.put("circuit")
    for _ in range(50):
        claim = shares.claim("circuit", NODE, KEY, SIZE)
        assert claim is not None
        shares.unanswered(claim)
    assert node.stored("circuit") == 9


@clause("6.6", "11.5")
def test_nothing_is_left_of_a_circuit_that_ended() -> None:
    shares = ExitShares()
    node = Node(shares, share=100 * SIZE)
    under_way = [shares.claim("gone", NODE, KEY, SIZE) for _ in range(2)]
    assert node.stored("gone")
    shares.forget("gone")
    for claim in under_way:
        assert claim is not None
        node.answer(claim)
    assert "gone" not in repr([shares._circuits, shares._divisions])
    assert node.stored("next") == (100 - 10 - 2) // 10


def test_a_node_that_no_longer_limits_is_free_again() -> None:
    node = Node(ExitShares(), share=100 * SIZE)
    node.stored("greedy")
    node.share = UNLIMITED
    assert node.put("modest")
    assert node.put("greedy")


@clause("7.12")
def test_keys_that_a_flood_names_are_bounded() -> None:
    shares = ExitShares()
    node = Node(shares, share=10**9, key_share=10**6)
    for number in range(MAX_DIVIDED + 100):
        node.put("flood", InboxKey(number.to_bytes(32, "big")), size=1)
    assert len(shares._divisions) <= MAX_DIVIDED
    assert NODE in shares._divisions


@clause("6.6")
@settings(max_examples=200)
@given(
    st.integers(1, 200),
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 5), st.booleans()), max_size=300),
)
def test_no_circuit_ever_holds_more_than_its_part_and_one_put(share: int, acts: list[tuple[int, int, bool]]) -> None:
    """Circuits put and end in any order; what a circuit holds is at most a tenth of what was left when it began."""
    shares = ExitShares()
    node = Node(shares, share=share * SIZE)
    held: dict[str, int] = {}
    left_when_it_began: dict[str, int] = {}
    for number, size, ends in acts:
        circuit = str(number)
        if ends:
            shares.forget(circuit)
            held.pop(circuit, None)
            left_when_it_began.pop(circuit, None)
            continue
        left_when_it_began.setdefault(circuit, node.left(KEY)[0] + sum(held.values()))
        if node.put(circuit, size=size * SIZE):
            held[circuit] = held.get(circuit, 0) + size * SIZE
            most = max(left_when_it_began[circuit] // LEAST_PARTS, 5 * SIZE)
            assert held[circuit] <= most
    assert sum(held.values()) <= share * SIZE


@pytest.mark.parametrize("bad", [-1, 2**64])
def test_a_room_is_a_u64(bad: int) -> None:
    with pytest.raises(ValueError, match="room"):
        MeshRoom(node_bytes=bad, key_bytes=0)

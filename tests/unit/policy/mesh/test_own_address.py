"""policy/mesh/own_address: whose word about the own address counts (SPEC 7.1)."""

import pytest

from restante.policy.mesh.own_address import MOST_HEARD, NEEDS_FAMILIES, OwnAddress, is_credible
from support.spec.clauses import clause

LOOPBACK, PRIVATE, PUBLIC, OTHER = (bytes(ip) for ip in ([127, 0, 0, 1], [10, 0, 0, 1], [8, 8, 8, 8], [9, 9, 9, 9]))

NODE = b"n" * 32


@clause("7.1")
@pytest.mark.parametrize(
    ("seen", "by", "expected"),
    [
        (LOOPBACK, PUBLIC, False),
        (PRIVATE, PUBLIC, False),
        (LOOPBACK, PRIVATE, False),
        (bytes(4), LOOPBACK, False),
        (OTHER, PUBLIC, True),
        (PUBLIC, PRIVATE, True),
        (LOOPBACK, bytes([127, 0, 1, 1]), True),
    ],
)
def test_nobody_sees_a_node_at_an_address_that_reaches_less_far_than_its_own(
    seen: bytes, by: bytes, *, expected: bool
) -> None:
    assert is_credible(seen, by=by) is expected
    address = OwnAddress()
    address.hear(NODE, seen, by=by, family=b"family")
    assert address.choose(needs_families=1) == (seen if expected else None)


@clause("7.1")
def test_one_family_is_believed_until_two_others_agree() -> None:
    address = OwnAddress()
    address.hear(NODE, OTHER, by=PUBLIC, family=b"liar")
    assert address.choose(needs_families=NEEDS_FAMILIES) is None
    assert address.choose(needs_families=1) == OTHER
    address.hear(NODE, PUBLIC, by=PUBLIC, family=b"one")
    address.hear(NODE, PUBLIC, by=PUBLIC, family=b"one")
    assert address.choose(needs_families=NEEDS_FAMILIES) is None
    assert not address.is_settled
    address.hear(NODE, PUBLIC, by=PUBLIC, family=b"another")
    assert address.choose(needs_families=NEEDS_FAMILIES) == PUBLIC
    assert address.is_settled


@clause("7.1")
def test_in_a_private_network_one_family_is_enough() -> None:
    address = OwnAddress(needs_families=1)
    address.hear(NODE, PRIVATE, by=PRIVATE, family=b"one")
    assert address.choose(needs_families=NEEDS_FAMILIES) == PRIVATE
    assert address.is_settled


@clause("7.1")
def test_two_nodes_of_one_operator_are_not_two_families_before_their_families_are_known() -> None:
    address = OwnAddress()
    for node in (b"one", b"another"):
        address.hear(node, OTHER, by=PUBLIC, family=None)
    assert address.choose(needs_families=1) == OTHER
    assert not address.is_settled
    assert address.choose(needs_families=NEEDS_FAMILIES) is None
    for node in (b"one", b"another"):
        address.hear(node, OTHER, by=PUBLIC, family=b"operator")
    assert address.choose(needs_families=NEEDS_FAMILIES) is None
    assert not address.is_settled
    address.hear(b"third", PUBLIC, by=PUBLIC, family=b"other operator")
    assert address.choose(needs_families=1) == OTHER, "each has one word, and it was the first"


@clause("7.1", "7.12")
def test_words_about_the_own_address_are_bounded() -> None:
    address = OwnAddress()
    for number in range(2 * MOST_HEARD):
        address.hear(NODE, bytes([8, 8, number // 256, number % 256]), by=PUBLIC, family=number.to_bytes(32, "big"))
        address.hear(number.to_bytes(32, "big"), PUBLIC, by=PUBLIC, family=None)
    assert len(address._words) == len(address._words_of_nodes) == MOST_HEARD

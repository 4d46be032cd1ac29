"""wire/merkle: trees over commits and lists, paths and proofs of absence (SPEC 10.2, 7.4)."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.errors import Malformed
from restante.model.ids import InboxKey, PayloadHash
from restante.wire.merkle import (
    EMPTY_ROOT,
    MAX_LEAVES,
    MerklePath,
    MerkleTree,
    address_hash,
    decode_path,
    encode_path,
    listed_leaf,
    merkle_root,
    proves_absence,
    root_from,
    stored_leaf,
)
from support.spec.clauses import clause
from support.wire.codec_properties import assert_sees_every_bit, decoded, flipped

hashes = st.binary(min_size=32, max_size=32)
leaf_lists = st.lists(hashes, min_size=1, max_size=40)
sorted_lists = st.lists(hashes, min_size=1, max_size=20, unique=True).map(sorted)


def by_definition(leaves: list[bytes]) -> bytes:
    """RFC 6962: split at the largest power of two below the number of leaves."""
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\x01" + by_definition(leaves[:split]) + by_definition(leaves[split:])).digest()


@clause("10.2")
def test_a_leaf_is_hashed_as_the_specification_says() -> None:
    inner = hashlib.sha256(b"k" * 32 + (1_700_000_000_000).to_bytes(8, "big")).digest()
    assert address_hash(InboxKey(b"k" * 32), 1_700_000_000_000) == inner
    expected = hashlib.sha256(b"\x00restante-stored-v1" + inner + b"h" * 32).digest()
    assert stored_leaf(inner, PayloadHash(b"h" * 32)) == expected


@clause("10.2")
def test_one_put_is_a_tree_of_one_leaf() -> None:
    assert merkle_root([b"l" * 32]) == b"l" * 32
    assert root_from(b"l" * 32, MerkleTree([b"l" * 32]).path(0)) == b"l" * 32


@clause("10.2")
@given(leaf_lists)
def test_every_path_leads_to_the_root(leaves: list[bytes]) -> None:
    root = merkle_root(leaves)
    assert root == by_definition(leaves)
    for index, leaf in enumerate(leaves):
        path = MerkleTree(leaves).path(index)
        assert root_from(leaf, path) == root
        assert decode_path(encode_path(path)) == path


@clause("10.2")
@given(leaf_lists, st.data())
def test_a_run_of_leaves_and_its_path_give_the_root_and_the_path_of_each(
    leaves: list[bytes], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(leaves) - 1))
    length = data.draw(st.integers(1, len(leaves) - first))
    whole = MerkleTree(leaves)
    run = whole.path(first, length)
    assert decode_path(encode_path(run), length) == run
    part = MerkleTree(leaves[first : first + length], run)
    assert (part.root, part.count) == (whole.root, len(leaves))
    assert len(run.siblings) <= 2 * (len(leaves) - 1).bit_length()
    paths = [whole.path(index) for index in range(first, first + length)]
    assert [part.path(index) for index in range(first, first + length)] == paths
    assert part.paths(first, length) == whole.paths(first, length) == paths


@given(leaf_lists, st.data())
def test_other_leaves_or_another_order_give_another_root(leaves: list[bytes], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(leaves) - 1))
    length = data.draw(st.integers(1, len(leaves) - first))
    whole, some = MerkleTree(leaves), leaves[first : first + length]
    run = whole.path(first, length)
    at = data.draw(st.integers(0, length - 1))
    damaged = [*some[:at], flipped(some[at], data.draw(st.integers(0, 255))), *some[at + 1 :]]
    assert MerkleTree(damaged, run).root != whole.root
    if some[::-1] != some:
        assert MerkleTree(some[::-1], run).root != whole.root
    with pytest.raises(Malformed, match="as many leaves"):
        MerkleTree([*some, bytes(32)], run)


@given(st.binary(max_size=200), st.integers(1, 5))
def test_arbitrary_bytes_are_no_path_of_a_run_or_encode_to_themselves(raw: bytes, length: int) -> None:
    path = decoded(lambda each: decode_path(each, length), raw)
    assert path is None or encode_path(path) == raw


@pytest.mark.parametrize(("index", "length", "count"), [(0, 0, 1), (0, 2, 1), (3, 2, 4), (0, 1, MAX_LEAVES + 1)])
def test_a_path_lies_inside_its_tree(index: int, length: int, count: int) -> None:
    raw = encode_path(MerklePath(index, count, ()))
    with pytest.raises(Malformed, match="must be in"):
        decode_path(raw, length)


@given(leaf_lists, st.data())
def test_a_damaged_path_or_leaf_leads_elsewhere(leaves: list[bytes], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(leaves) - 1))
    path = MerkleTree(leaves).path(index)
    root = merkle_root(leaves)
    assert root_from(flipped(leaves[index], data.draw(st.integers(0, 255))), path) != root
    raw = encode_path(path)
    if path.siblings:
        at = data.draw(st.integers(64, len(raw) * 8 - 1))
        damaged = decoded(decode_path, flipped(raw, at))
        assert damaged is None or root_from(leaves[index], damaged) != root


def test_the_bytes_of_a_path_are_all_seen() -> None:
    assert_sees_every_bit(decode_path, encode_path(MerkleTree([bytes([n]) * 32 for n in range(5)]).path(2)))


@pytest.mark.parametrize("raw", [b"", bytes(7), bytes(9), bytes(8), bytes(8 + 17 * 32)])
def test_bytes_that_are_no_path_are_refused(raw: bytes) -> None:
    with pytest.raises(Malformed):
        decode_path(raw)


@clause("7.4", "13.5")
@given(sorted_lists, hashes)
def test_neighbours_prove_exactly_what_is_not_listed(listed: list[bytes], wanted: bytes) -> None:
    leaves = [listed_leaf(PayloadHash(each)) for each in listed]
    root, count = merkle_root(leaves), len(listed)
    proofs = [(PayloadHash(each), MerkleTree(leaves).path(at)) for at, each in enumerate(listed)]
    at = sum(each < wanted for each in listed)
    neighbours = proofs[max(at - 1, 0) : at + 1]
    assert proves_absence(PayloadHash(wanted), neighbours, root=root, count=count) == (wanted not in listed)
    for present in listed:
        for left in range(count):
            assert not proves_absence(PayloadHash(present), proofs[left : left + 2], root=root, count=count)
            assert not proves_absence(PayloadHash(present), proofs[left : left + 1], root=root, count=count)
    assert not proves_absence(PayloadHash(wanted), neighbours, root=root, count=count + 1)


def test_an_empty_list_proves_absence_by_its_root() -> None:
    assert proves_absence(PayloadHash(bytes(32)), [], root=EMPTY_ROOT, count=0)
    assert not proves_absence(PayloadHash(bytes(32)), [], root=bytes(32), count=0)
    assert merkle_root([]) == EMPTY_ROOT

"""Merkle trees of storage receipts (SPEC 10.2) and of the lists that FETCH_DONE signs (7.4).

A level pairs its hashes from the left; an odd last one moves up unpaired. Leaves and inner nodes are hashed with
different first bytes, so an inner node never passes as a leaf. Index and count of a path fix which side each sibling is
on; with the signed count of a list, two neighbouring paths prove that nothing lies between them. Adjoining leaves share
a path: who computes them all needs only the hashes beside the run, and gets from them the path of each.
"""

import hashlib
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from restante.model.errors import Malformed
from restante.model.ids import InboxKey, PayloadHash, inbox_key, payload_hash
from restante.wire.field_checks import check_number, check_time

HASH_BYTES: Final = 32
MAX_LEAVES: Final = 1 << 16
"""More than one commit stores or one key lists."""
STORED_LEAF: Final = b"\x00restante-stored-v1"
"""What the leaf of a put begins with; inner hash and payload hash follow (SPEC 10.2)."""
EMPTY_ROOT: Final = hashlib.sha256(b"restante-empty-list-v1").digest()
_INNER: Final = b"\x01"
_LISTED_LEAF: Final = b"\x00restante-listed-v1"
_PATH_HEAD: Final = struct.Struct(">II")
PATH_HEAD_BYTES: Final = _PATH_HEAD.size
MAX_PATH_BYTES: Final = PATH_HEAD_BYTES + 16 * HASH_BYTES
MAX_RUN_PATH_BYTES: Final = PATH_HEAD_BYTES + 2 * 16 * HASH_BYTES
"""The path of a run of leaves has at most two hashes a level."""


class MerklePath(NamedTuple):
    """The siblings of the leaf `first`, or of `length` adjoining leaves from there on: from below, the left one first.

    A tuple, because a commit has hundreds. `decode_path` checks those of others.
    """

    first: int
    leaves: int
    """How many the whole tree has."""
    siblings: tuple[bytes, ...]
    length: int = 1


@lru_cache(maxsize=4_096)  # mail to one recipient within an hour has one inbox key and few expiries
def address_hash(key: InboxKey, expires_at_ms: int) -> bytes:
    """Return the inner hash of a stored leaf. Evidence contains it instead of the inbox key."""
    check_time(expires_at_ms, "expires_at")
    return hashlib.sha256(inbox_key(key) + expires_at_ms.to_bytes(8, "big")).digest()


def stored_leaf(inner_hash: bytes, sealed_hash: PayloadHash) -> bytes:
    """Return the leaf of one put, from `address_hash` and the hash of the sealed bytes (SPEC 10.2)."""
    if len(inner_hash) != HASH_BYTES or len(sealed_hash) != HASH_BYTES:
        raise Malformed(f"the hashes of a leaf must have {HASH_BYTES} bytes")
    return hashlib.sha256(STORED_LEAF + inner_hash + sealed_hash).digest()


def listed_leaf(sealed_hash: PayloadHash) -> bytes:
    """Return the leaf of one entry of a list that a node signs."""
    return hashlib.sha256(_LISTED_LEAF + payload_hash(sealed_hash)).digest()


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """Return the root; `EMPTY_ROOT` if there are no leaves."""
    return MerkleTree(leaves).root if leaves else EMPTY_ROOT


class MerkleTree:
    """A tree of which adjoining leaves are known: all of them, or a run with its path."""

    __slots__ = ("_levels", "count", "root")

    def __init__(self, leaves: Sequence[bytes], run: MerklePath | None = None) -> None:
        """`run` is the path of the leaves that are known; without one there are no others."""
        if run is not None and len(leaves) != run.length:
            raise Malformed("a Merkle path of a run fits as many leaves as it is long")
        if set(map(len, leaves)) != {HASH_BYTES}:
            raise Malformed(f"a Merkle tree has leaves, of {HASH_BYTES} bytes each")
        first = 0 if run is None else run.first
        count = len(leaves) if run is None else run.leaves
        check_number(count, "number of leaves", low=1, high=MAX_LEAVES)
        siblings = iter(() if run is None else run.siblings)
        self.count: Final = count
        self._levels: list[tuple[int, Sequence[bytes]]] = []  # of each, the index of its first known hash
        level = leaves
        while count > 1:
            if first & 1:
                first, level = first - 1, [next(siblings), *level]
            if (last := first + len(level)) & 1 and last < count:
                level = [*level, next(siblings)]
            self._levels.append((first, level))
            first, count, level = first >> 1, (count + 1) >> 1, _paired(level)
        self.root: Final = level[0]

    def path(self, index: int, length: int = 1) -> MerklePath:
        """Return the path of these leaves, all of them known."""
        siblings: list[bytes] = []
        at, end, size = index, index + length, self.count
        for first, level in self._levels:
            if at & 1:
                at -= 1
                siblings.append(level[at - first])
            if end & 1 and end < size:
                siblings.append(level[end - first])
                end += 1
            at, end, size = at >> 1, (end + 1) >> 1, (size + 1) >> 1
        return MerklePath(index, self.count, tuple(siblings), length)

    def paths(self, index: int, length: int) -> list[MerklePath]:
        """Return the path of each of these leaves: neighbours share most of theirs, so all are built from the top."""
        ways: dict[int, tuple[bytes, ...]] = {0: ()}
        for depth in range(len(self._levels) - 1, -1, -1):
            first, level = self._levels[depth]
            size = first + len(level)
            ways = {
                at: (level[(at ^ 1) - first], *ways[at >> 1]) if at ^ 1 < size else ways[at >> 1]
                for at in range(index >> depth, ((index + length - 1) >> depth) + 1)
            }
        count = self.count
        return [MerklePath(at, count, way) for at, way in ways.items()]


def root_from(leaf: bytes, path: MerklePath) -> bytes:
    """Return the root that this leaf and path lead to. The caller compares it with a signed one."""
    current = leaf
    for is_right, sibling in zip(_sides(path.first, path.leaves), path.siblings, strict=True):
        current = _inner(sibling, current) if is_right else _inner(current, sibling)
    return current


def proves_absence(
    wanted: PayloadHash, neighbours: Sequence[tuple[PayloadHash, MerklePath]], *, root: bytes, count: int
) -> bool:
    """Return whether the listed neighbours show that `wanted` is not in the sorted list with this root and count."""
    if count == 0:
        return root == EMPTY_ROOT and not neighbours
    if any(path.leaves != count or root_from(listed_leaf(each), path) != root for each, path in neighbours):
        return False
    match neighbours:
        case [(first, path)]:
            return (path.first == 0 and wanted < first) or (path.first == count - 1 and wanted > first)
        case [(before, left), (after, right)]:
            return right.first == left.first + 1 and before < wanted < after
        case _:
            return False


def encode_path(path: MerklePath) -> bytes:
    return _PATH_HEAD.pack(path.first, path.leaves) + b"".join(path.siblings)


def decode_path(raw: bytes, length: int = 1) -> MerklePath:
    """Decode the path of `length` adjoining leaves."""
    most_bytes = MAX_PATH_BYTES if length == 1 else MAX_RUN_PATH_BYTES
    if not PATH_HEAD_BYTES <= len(raw) <= most_bytes or (len(raw) - PATH_HEAD_BYTES) % HASH_BYTES:
        raise Malformed(f"a Merkle path has {PATH_HEAD_BYTES}..{most_bytes} bytes: index, count and whole hashes")
    index, count = _PATH_HEAD.unpack_from(raw)
    siblings = tuple([raw[at : at + HASH_BYTES] for at in range(PATH_HEAD_BYTES, len(raw), HASH_BYTES)])
    if len(siblings) != _siblings_needed(index, length, count):
        raise Malformed("a Merkle path has as many hashes as its index and count require")
    return MerklePath(index, count, siblings, length)


def _inner(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(_INNER + left + right).digest()


def _paired(level: Sequence[bytes]) -> list[bytes]:
    """Return the level above; `level` begins with a left hash, and a last one without a partner moves up."""
    sha256 = hashlib.sha256
    above = [sha256(_INNER + level[at] + level[at + 1]).digest() for at in range(0, len(level) - 1, 2)]
    return [*above, level[-1]] if len(level) & 1 else above


@lru_cache(maxsize=4_096)  # commits have few different sizes
def _siblings_needed(index: int, length: int, count: int) -> int:
    """Return how many hashes lead from these leaves to the root; raise if the tree has no such leaves."""
    check_number(count, "number of leaves", low=1, high=MAX_LEAVES)
    check_number(length, "number of leaves of a path", low=1, high=count)
    check_number(index, "index of a leaf", high=count - length)
    needed, end = 0, index + length
    while count > 1:
        needed += (index & 1) + (end & 1 and end < count)
        index, end, count = index >> 1, (end + 1) >> 1, (count + 1) >> 1
    return needed


@lru_cache(maxsize=4_096)
def _sides(index: int, count: int) -> tuple[bool, ...]:
    """Return for each sibling on the way up whether our own hash is the right one of the pair."""
    sides: list[bool] = []
    while count > 1:
        if index ^ 1 < count:
            sides.append(index & 1 == 1)
        index, count = index >> 1, (count + 1) >> 1
    return tuple(sides)

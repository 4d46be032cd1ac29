"""Merkle trees of storage receipts (SPEC 10.2) and of the lists that FETCH_DONE signs (7.4).

A level pairs its hashes from the left; an odd last one moves up unpaired. Leaves and inner nodes are hashed with
different first bytes, so an inner node never passes as a leaf. Index and count of a path fix which side each sibling is
on; with the signed count of a list, two neighbouring paths prove that nothing lies between them.
"""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from restante.model.errors import Malformed
from restante.model.ids import InboxKey, PayloadHash, exactly, inbox_key, payload_hash
from restante.wire.field_checks import check_number, check_time

HASH_BYTES: Final = 32
MAX_LEAVES: Final = 1 << 16
"""More than one commit stores or one key lists."""
EMPTY_ROOT: Final = hashlib.sha256(b"restante-empty-list-v1").digest()
_LEAF: Final = b"\x00"
_INNER: Final = b"\x01"
_STORED_DOMAIN: Final = b"restante-stored-v1"
_LISTED_DOMAIN: Final = b"restante-listed-v1"
_PATH_HEAD: Final = struct.Struct(">II")
MAX_PATH_BYTES: Final = _PATH_HEAD.size + 16 * HASH_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class MerklePath:
    """The siblings of one leaf, from the leaf upward."""

    index: int
    count: int
    siblings: tuple[bytes, ...]

    def __post_init__(self) -> None:
        check_number(self.count, "number of leaves", low=1, high=MAX_LEAVES)
        check_number(self.index, "index of a leaf", high=self.count - 1)
        if len(self.siblings) != len(_sides(self.index, self.count)):
            raise Malformed("a Merkle path has as many hashes as its index and count require")
        for each in self.siblings:
            exactly(each, HASH_BYTES, "hash of a Merkle path")


def address_hash(key: InboxKey, expires_at_ms: int) -> bytes:
    """Return the inner hash of a stored leaf. Evidence contains it instead of the inbox key."""
    check_time(expires_at_ms, "expires_at")
    return hashlib.sha256(inbox_key(key) + expires_at_ms.to_bytes(8, "big")).digest()


def stored_leaf(inner_hash: bytes, sealed_hash: PayloadHash) -> bytes:
    """Return the leaf of one put, from `address_hash` and the hash of the sealed bytes (SPEC 10.2)."""
    exactly(inner_hash, HASH_BYTES, "inner hash")
    return hashlib.sha256(_LEAF + _STORED_DOMAIN + inner_hash + payload_hash(sealed_hash)).digest()


def listed_leaf(sealed_hash: PayloadHash) -> bytes:
    """Return the leaf of one entry of a list that a node signs."""
    return hashlib.sha256(_LEAF + _LISTED_DOMAIN + payload_hash(sealed_hash)).digest()


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """Return the root; `EMPTY_ROOT` if there are no leaves."""
    return _levels(leaves)[-1][0] if leaves else EMPTY_ROOT


def merkle_paths(leaves: Sequence[bytes]) -> list[MerklePath]:
    """Return the path of every leaf, in order."""
    if not leaves:
        return []
    levels = _levels(leaves)
    return [_path(levels, index) for index in range(len(leaves))]


def merkle_path(leaves: Sequence[bytes], index: int) -> MerklePath:
    return MerkleTree(leaves).path(index)


class MerkleTree:
    """A tree of at least one leaf, of which some paths are needed."""

    __slots__ = ("_levels",)

    def __init__(self, leaves: Sequence[bytes]) -> None:
        self._levels = _levels(leaves)

    def path(self, index: int) -> MerklePath:
        return _path(self._levels, index)


def root_from(leaf: bytes, path: MerklePath) -> bytes:
    """Return the root that this leaf and path lead to. The caller compares it with a signed one."""
    current = leaf
    for is_right, sibling in zip(_sides(path.index, path.count), path.siblings, strict=True):
        current = _inner(sibling, current) if is_right else _inner(current, sibling)
    return current


def proves_absence(
    wanted: PayloadHash, neighbours: Sequence[tuple[PayloadHash, MerklePath]], *, root: bytes, count: int
) -> bool:
    """Return whether the listed neighbours show that `wanted` is not in the sorted list with this root and count."""
    if count == 0:
        return root == EMPTY_ROOT and not neighbours
    if any(path.count != count or root_from(listed_leaf(each), path) != root for each, path in neighbours):
        return False
    match neighbours:
        case [(first, path)]:
            return (path.index == 0 and wanted < first) or (path.index == count - 1 and wanted > first)
        case [(before, left), (after, right)]:
            return right.index == left.index + 1 and before < wanted < after
        case _:
            return False


def encode_path(path: MerklePath) -> bytes:
    return _PATH_HEAD.pack(path.index, path.count) + b"".join(path.siblings)


def decode_path(raw: bytes) -> MerklePath:
    if not _PATH_HEAD.size <= len(raw) <= MAX_PATH_BYTES or (len(raw) - _PATH_HEAD.size) % HASH_BYTES:
        raise Malformed(f"a Merkle path has {_PATH_HEAD.size}..{MAX_PATH_BYTES} bytes: index, count and whole hashes")
    index, count = _PATH_HEAD.unpack_from(raw)
    starts = range(_PATH_HEAD.size, len(raw), HASH_BYTES)
    return MerklePath(index=index, count=count, siblings=tuple(raw[at : at + HASH_BYTES] for at in starts))


def _inner(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(_INNER + left + right).digest()


def _levels(leaves: Sequence[bytes]) -> list[Sequence[bytes]]:
    check_number(len(leaves), "number of leaves", low=1, high=MAX_LEAVES)
    levels: list[Sequence[bytes]] = [leaves]
    while len(level := levels[-1]) > 1:
        paired = [_inner(level[at], level[at + 1]) for at in range(0, len(level) - 1, 2)]
        levels.append([*paired, level[-1]] if len(level) % 2 else paired)
    return levels


def _path(levels: Sequence[Sequence[bytes]], index: int) -> MerklePath:
    siblings: list[bytes] = []
    at = index
    for level in levels[:-1]:
        if at ^ 1 < len(level):
            siblings.append(level[at ^ 1])
        at >>= 1
    return MerklePath(index=index, count=len(levels[0]), siblings=tuple(siblings))


@lru_cache(maxsize=4_096)  # commits have few different sizes
def _sides(index: int, count: int) -> tuple[bool, ...]:
    """Return for each sibling on the way up whether our own hash is the right one of the pair."""
    sides: list[bool] = []
    while count > 1:
        if index ^ 1 < count:
            sides.append(index & 1 == 1)
        index, count = index >> 1, (count + 1) >> 1
    return tuple(sides)

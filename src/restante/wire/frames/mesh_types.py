"""The numbers of the mesh's frames, and the lists that several of them contain."""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from restante.model.errors import Malformed
from restante.model.ids import exactly
from restante.wire.descriptors import MAX_DESCRIPTOR_BYTES, MIN_DESCRIPTOR_BYTES
from restante.wire.field_checks import check_number

HASH_BYTES: Final = 32
MAX_CONTACTS: Final = 20
"""Descriptors in one answer to FIND_NODE: one k-bucket (SPEC 7.1)."""
MAX_HASHES: Final = 1_024
_SIZE: Final = struct.Struct(">H")


class MeshFrameType(IntEnum):
    """The mesh has the types 0x40 to 0x5f."""

    AUTHENTICATE = 0x40
    FIND_NODE = 0x41
    NODES = 0x42
    SYNC_DIRECTORY = 0x43
    DIRECTORY_PAGE = 0x44
    PUBLISH_DESCRIPTOR = 0x45
    DESCRIPTOR_TAKEN = 0x46
    MESH_ROOM = 0x47
    MESH_PUT = 0x48
    MESH_STORED = 0x49
    WRONG_BUCKET = 0x4A
    NOT_RESPONSIBLE = 0x4B
    PUT_RECORD = 0x4C
    GET_RECORD = 0x4D
    RECORD = 0x4E
    FETCH = 0x50
    MESH_SUBSCRIBE = 0x51
    LISTED = 0x52
    FETCH_DONE = 0x53
    MESH_DELETE = 0x54
    MESH_DELETED = 0x55
    HAVE = 0x58
    HAVE_LIST = 0x59
    WANT = 0x5A
    BLOCK = 0x5B
    WANT_DONE = 0x5C
    HAVE_DONE = 0x5D


MESH_TYPES: Final = range(0x40, 0x60)


def check_flag(number: int, what: str) -> bool:
    if number > 1:
        raise Malformed(f"{what} must be 0 or 1, not {number}")
    return number == 1


def check_hashes(hashes: Sequence[bytes], *, low: int = 0) -> None:
    check_number(len(hashes), "number of hashes", low=low, high=MAX_HASHES)
    for each in hashes:
        exactly(each, HASH_BYTES, "hash")


def split_hashes(raw: bytes) -> tuple[bytes, ...]:
    """Return the 32-byte hashes of `raw`; the frame's sizes have made sure that they are whole."""
    if len(raw) % HASH_BYTES:
        raise Malformed("a list of hashes has a part of a hash at its end")
    return tuple(raw[at : at + HASH_BYTES] for at in range(0, len(raw), HASH_BYTES))


def check_descriptors(raws: Sequence[bytes], *, most: int) -> None:
    check_number(len(raws), "number of descriptors", high=most)
    for each in raws:
        check_number(len(each), "size of a descriptor", low=MIN_DESCRIPTOR_BYTES, high=MAX_DESCRIPTOR_BYTES)


def join_descriptors(raws: Sequence[bytes]) -> bytes:
    return b"".join(_SIZE.pack(len(each)) + each for each in raws)


def split_descriptors(raw: bytes, *, most: int) -> tuple[bytes, ...]:
    """Return the encoded descriptors. They are verified one by one later: a bad one spoils only itself."""
    found: list[bytes] = []
    start = 0
    while start < len(raw):
        if len(found) == most or start + _SIZE.size > len(raw):
            raise Malformed(f"a list of descriptors has at most {most} whole ones")
        (size,) = _SIZE.unpack_from(raw, start)
        start += _SIZE.size + size
        found.append(raw[start - size : start])
        if start > len(raw):
            raise Malformed("a descriptor in a list is cut off")
    return tuple(found)

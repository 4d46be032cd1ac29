"""Cells: what travels on a circuit, always full, in two sizes (SPEC 11.1, NETWORK 4).

On a connection a cell is a circuit id and a body. The body holds one onion layer per hop that it has still to pass, and
random bytes behind it. Inside the innermost layer is a command for the last hop of the circuit, or from it.
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from restante.model.errors import Malformed
from restante.model.ids import exactly

MAX_HOPS: Final = 3
LAYER_BYTES: Final = 16
DIALLER_BIT: Final = 0x8000_0000
"""Set in the circuit ids that the dialling end of a connection chooses, so that two ends never choose the same."""


class CellClass(IntEnum):
    """The two sizes of a cell body."""

    SMALL = 0
    LARGE = 1


BODY_BYTES: Final = {CellClass.SMALL: 2_048, CellClass.LARGE: 16_384}
_CLASS_BY_BYTES: Final = {size: each for each, size in BODY_BYTES.items()}
_HEAD: Final = struct.Struct(">BHH")  # command, stream, length


class Command(IntEnum):
    """What the innermost layer of a cell says."""

    EXTEND = 1
    EXTENDED = 2
    STORE = 3
    STORED = 4
    BEGIN = 5
    CONNECTED = 6
    DATA = 7
    END = 8
    CREDIT = 9
    FAILED = 10


class CellContent(NamedTuple):
    """A command with its stream and data. Stream 0 is the circuit itself."""

    command: Command
    stream: int
    data: bytes = b""


def layered_bytes(cell_class: CellClass, hop: int) -> int:
    """Return how many bytes of a body the layers of `hop` and all behind it take. Hops count from 1 at the guard."""
    return BODY_BYTES[cell_class] - (hop - 1) * LAYER_BYTES


def max_data_bytes(cell_class: CellClass) -> int:
    """Return how many bytes of data fit into a cell, whatever the length of its circuit."""
    return layered_bytes(cell_class, MAX_HOPS + 1) - _HEAD.size


def class_of_body(body: bytes) -> CellClass:
    """Return the class of a body by its size; raise for any other size."""
    cell_class = _CLASS_BY_BYTES.get(len(body))
    if cell_class is None:
        sizes = " or ".join(map(str, BODY_BYTES.values()))
        raise Malformed(f"a cell body has {sizes} bytes, not {len(body)}")
    return cell_class


def encode_content(content: CellContent, *, size_bytes: int) -> bytes:
    """Encode a command into exactly `size_bytes`, padded with zeros, ready for the innermost layer."""
    if len(content.data) > size_bytes - _HEAD.size:
        raise Malformed(f"{len(content.data)} bytes of data do not fit a cell; at most {size_bytes - _HEAD.size}")
    head = _HEAD.pack(content.command, content.stream, len(content.data))
    return (head + content.data).ljust(size_bytes, b"\x00")


def decode_content(raw: bytes) -> CellContent:
    """Decode the innermost layer. What lies behind the data is padding and is not looked at."""
    if len(raw) < _HEAD.size:
        raise Malformed("a cell is too short for a command")
    number, stream, length = _HEAD.unpack_from(raw)
    if length > len(raw) - _HEAD.size:
        raise Malformed(f"a cell names {length} bytes of data and holds {len(raw) - _HEAD.size}")
    try:
        command = Command(number)
    except ValueError:
        raise Malformed(f"{number} is not a command of a cell") from None
    return CellContent(command, stream, raw[_HEAD.size : _HEAD.size + length])


_EXTEND: Final = struct.Struct(">32s1280s")


class Extend(NamedTuple):
    """Ask the last hop to extend the circuit to this node, with the client's circuit request for it."""

    node_id: bytes
    request: bytes


def encode_extend(extend: Extend) -> bytes:
    return _EXTEND.pack(exactly(extend.node_id, 32, "node id"), exactly(extend.request, 1_280, "circuit request"))


def decode_extend(raw: bytes) -> Extend:
    return Extend(*_EXTEND.unpack(exactly(raw, _EXTEND.size, "EXTEND")))

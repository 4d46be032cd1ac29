"""Frames of circuits between two neighbours. The request number of a frame is the circuit id on that connection.

Every frame has one of the two sizes of a cell, CREATE and DESTROY, too; what its content leaves free is random. The
dialling end of a connection chooses circuit ids, with the top bit set.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple

from restante.model.errors import Malformed
from restante.model.ids import exactly
from restante.wire.circuit.cells import BODY_BYTES, DIALLER_BIT, MAX_HOPS, CellClass
from restante.wire.field_checks import MAX_U32, check_number
from restante.wire.frames.codec import frame_head

CREATE_BYTES: Final = 1_280
CREATED_BYTES: Final = 1_152
_SMALL: Final = BODY_BYTES[CellClass.SMALL]

Random = Callable[[int], bytes]


class CircuitFrameType(IntEnum):
    """Circuits have the types 0x60 to 0x6f."""

    CREATE = 0x60
    CREATED = 0x61
    CELL = 0x62
    DESTROY = 0x63


FROM_DIALLER: Final = frozenset({int(each) for each in CircuitFrameType if each is not CircuitFrameType.CREATED})
TO_DIALLER: Final = frozenset({int(each) for each in CircuitFrameType if each is not CircuitFrameType.CREATE})


class Create(NamedTuple):
    """A circuit request, for the hop with this number."""

    hop: int
    request: bytes


def encode_create(circuit: int, create: Create, random: Random) -> bytes:
    check_number(create.hop, "hop", low=1, high=MAX_HOPS)
    content = bytes([create.hop]) + exactly(create.request, CREATE_BYTES, "circuit request")
    return encode_circuit_frame(CircuitFrameType.CREATE, circuit, content + random(_SMALL - len(content)))


def decode_create(body: bytes) -> Create:
    exactly(body, _SMALL, "CREATE")
    check_number(body[0], "hop", low=1, high=MAX_HOPS)
    return Create(body[0], body[1 : 1 + CREATE_BYTES])


def encode_created(circuit: int, answer: bytes, random: Random) -> bytes:
    exactly(answer, CREATED_BYTES, "circuit answer")
    return encode_circuit_frame(CircuitFrameType.CREATED, circuit, answer + random(_SMALL - len(answer)))


def decode_created(body: bytes) -> bytes:
    return exactly(body, _SMALL, "CREATED")[:CREATED_BYTES]


def encode_destroy(circuit: int, random: Random) -> bytes:
    """DESTROY has no reason: nothing can be read from it."""
    return encode_circuit_frame(CircuitFrameType.DESTROY, circuit, random(_SMALL))


def encode_circuit_frame(frame_type: CircuitFrameType, circuit: int, body: bytes) -> bytes:
    return frame_head(frame_type, circuit, len(body)) + body


def check_circuit_id(circuit: int) -> int:
    """Return an id that the dialling end chose; raise for any other."""
    if not DIALLER_BIT <= circuit <= MAX_U32:
        raise Malformed("a circuit id has its top bit set by the end that dials")
    return circuit

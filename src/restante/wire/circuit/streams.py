"""What the streams of a circuit carry inside cells: STORE and its answers, BEGIN, credits and failures (SPEC 11.6).

A STORE is longer than a cell: its first piece travels in a STORE cell, the others in DATA cells of the same stream.
Each node's answer is one STORED cell: the place of the node in the request, the frame type of the node's answer and
the body of that frame, unchanged, so that the client can verify it.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from restante.model.errors import Malformed
from restante.model.ids import BLINDED_KEY_BYTES, NODE_ID_BYTES, BlindedKey, NodeId, blinded_key, exactly
from restante.wire.circuit.cells import BODY_BYTES, CellClass, CellContent, Command, max_data_bytes
from restante.wire.envelope import MAX_ENVELOPE_BYTES
from restante.wire.field_checks import MAX_U32, check_number
from restante.wire.mesh_keys import MAX_BUCKET

MAX_STORE_NODES: Final = 5
SMALL_CELLS: Final = 4
"""What fits this many small cells uses them (NETWORK 4): ordinary mail takes three."""
_STORE: Final = struct.Struct(f">IB{BLINDED_KEY_BYTES}sQ")  # bytes of all that follows, nodes, blinded key, bucket
_STORED: Final = struct.Struct(">BB")
_CREDIT: Final = struct.Struct(">I")
_FAILED: Final = struct.Struct(">BI")
_LENGTH_BYTES: Final = 4
MAX_STORE_BYTES: Final = _STORE.size + MAX_STORE_NODES * NODE_ID_BYTES + MAX_ENVELOPE_BYTES
NO_ANSWER: Final = 0
"""In place of a frame type: the node could not be reached, or did not answer in time."""


class StreamFailure(IntEnum):
    """Why the exit could not serve a stream."""

    UNKNOWN_NODE = 1
    """The node is not in the exit's directory, or is a hop of this circuit."""
    UNREACHABLE = 2
    BUSY = 3
    """The exit has no memory for this request now."""
    RATE_LIMITED = 4
    """With the time after which the exit takes the next STORE."""


class StoreRequest(NamedTuple):
    """Store this envelope at these nodes."""

    nodes: tuple[NodeId, ...]
    blinded: BlindedKey
    bucket: int
    envelope: bytes


class StoreAnswer(NamedTuple):
    """The answer of one node, as it gave it. `frame_type` is `NO_ANSWER` if there was none."""

    place: int
    frame_type: int
    body: bytes


class Failed(NamedTuple):
    failure: StreamFailure
    retry_after_ms: int = 0


def encode_store(request: StoreRequest) -> bytes:
    check_number(len(request.nodes), "number of nodes of a STORE", low=1, high=MAX_STORE_NODES)
    check_number(request.bucket, "time bucket", high=MAX_BUCKET)
    check_number(len(request.envelope), "the size of an envelope", low=1, high=MAX_ENVELOPE_BYTES)
    nodes = b"".join(exactly(node, NODE_ID_BYTES, "node id") for node in request.nodes)
    size = _STORE.size - _LENGTH_BYTES + len(nodes) + len(request.envelope)
    head = _STORE.pack(size, len(request.nodes), blinded_key(request.blinded), request.bucket)
    return head + nodes + request.envelope


def store_bytes(first: bytes) -> int:
    """Return how many bytes the whole STORE has, by its first piece."""
    if len(first) < _STORE.size:
        raise Malformed("a STORE begins with its length, its nodes, its blinded key and its bucket")
    size = int.from_bytes(first[:_LENGTH_BYTES], "big") + _LENGTH_BYTES
    check_number(size, "the size of a STORE", low=_STORE.size + NODE_ID_BYTES + 1, high=MAX_STORE_BYTES)
    return size


def decode_store(raw: bytes) -> StoreRequest:
    exactly(raw, store_bytes(raw), "STORE")
    _, count, blinded, bucket = _STORE.unpack_from(raw)
    check_number(count, "number of nodes of a STORE", low=1, high=MAX_STORE_NODES)
    start = _STORE.size + count * NODE_ID_BYTES
    ids = [NodeId(raw[at : at + NODE_ID_BYTES]) for at in range(_STORE.size, start, NODE_ID_BYTES)]
    if len(raw) <= start or len(set(ids)) != count:
        raise Malformed("a STORE names each node once and contains an envelope")
    return StoreRequest(tuple(ids), BlindedKey(blinded), bucket, raw[start:])


def encode_stored(answer: StoreAnswer) -> bytes:
    return _STORED.pack(answer.place, answer.frame_type) + answer.body


def decode_stored(raw: bytes) -> StoreAnswer:
    if len(raw) < _STORED.size:
        raise Malformed("STORED names a node and the type of its answer")
    place, frame_type = _STORED.unpack_from(raw)
    return StoreAnswer(place, frame_type, raw[_STORED.size :])


def encode_credit(size_bytes: int) -> bytes:
    return _CREDIT.pack(size_bytes)


def decode_credit(raw: bytes) -> int:
    size: int = _CREDIT.unpack(exactly(raw, _CREDIT.size, "CREDIT"))[0]
    return size


def encode_failed(failed: Failed) -> bytes:
    return _FAILED.pack(failed.failure, min(failed.retry_after_ms, MAX_U32))


def decode_failed(raw: bytes) -> Failed:
    number, retry_after_ms = _FAILED.unpack(exactly(raw, _FAILED.size, "FAILED"))
    try:
        return Failed(StreamFailure(number), retry_after_ms)
    except ValueError:
        raise Malformed(f"{number} is no reason of a failed stream") from None


def cell_cost(cell_class: CellClass) -> int:
    """Return what a cell takes of a window: its whole size, because that is what it takes in a hop's queue."""
    return BODY_BYTES[cell_class]


def class_for(size_bytes: int) -> CellClass:
    return CellClass.SMALL if size_bytes <= SMALL_CELLS * max_data_bytes(CellClass.SMALL) else CellClass.LARGE


def split_into_cells(command: Command, stream: int, data: bytes) -> Iterator[tuple[CellContent, CellClass]]:
    """Yield the cells of one piece of data: the first with `command`, the others with DATA."""
    cell_class = class_for(len(data))
    size = max_data_bytes(cell_class)
    yield CellContent(command, stream, data[:size]), cell_class
    for at in range(size, len(data), size):
        yield CellContent(Command.DATA, stream, data[at : at + size]), cell_class

"""Encode what shows that a node's signed list has a blob or lacks it: FETCH_DONE and entries beside it (SPEC 13.5).

The journal's column `answer` holds it. Node key and expiry are part of it, so that the node's storage receipt for the
blob can be compared without any other source.
"""

import struct
from dataclasses import dataclass
from typing import Final

from restante.model.errors import Malformed
from restante.model.ids import NodeKey, PayloadHash, node_key, payload_hash
from restante.wire.field_checks import check_number, check_time
from restante.wire.frames.mesh_reading import FetchDone, KeyAnswer
from restante.wire.merkle import HASH_BYTES, MerklePath, decode_path, encode_path

MAX_ENTRIES: Final = 2
_HEAD: Final = struct.Struct(">32sQBHB")  # node key, expiry, index of the answer, size of FETCH_DONE, number of entries
_ENTRY: Final = struct.Struct(f">{HASH_BYTES}sH")  # hash, size of the path


@dataclass(frozen=True, slots=True, kw_only=True)
class ListProof:
    """`index` says which answer of `done` is meant. `entries` are one or two neighbours of the blob in the sorted list,
    or the blob itself; none if the list is empty."""

    node: NodeKey
    expires_at_ms: int
    index: int
    done: FetchDone
    entries: tuple[tuple[PayloadHash, MerklePath], ...]

    def __post_init__(self) -> None:
        node_key(self.node)
        check_time(self.expires_at_ms, "expires_at")
        check_number(self.index, "index of an answer", high=len(self.done.answers) - 1)
        check_number(len(self.entries), "number of list entries", high=MAX_ENTRIES)

    @property
    def answer(self) -> KeyAnswer:
        return self.done.answers[self.index]


def encode_list_proof(proof: ListProof) -> bytes:
    done = proof.done.body()
    head = _HEAD.pack(proof.node, proof.expires_at_ms, proof.index, len(done), len(proof.entries))
    paths = [(each, encode_path(path)) for each, path in proof.entries]
    return head + done + b"".join(_ENTRY.pack(each, len(path)) + path for each, path in paths)


def decode_list_proof(raw: bytes) -> ListProof:
    """Return the proof; its signature and paths are not verified yet. Raises `Malformed`."""
    try:
        node, expires_at_ms, index, done_bytes, count = _HEAD.unpack_from(raw)
        at = _HEAD.size + done_bytes
        entries: list[tuple[PayloadHash, MerklePath]] = []
        for _ in range(count):
            hashed, size = _ENTRY.unpack_from(raw, at)
            at += _ENTRY.size + size
            entries.append((payload_hash(hashed), decode_path(raw[at - size : at])))
    except struct.error:
        raise Malformed("a list proof ends too early") from None
    done = raw[_HEAD.size : _HEAD.size + done_bytes]
    if at != len(raw) or len(done) not in FetchDone.SIZES:
        raise Malformed("a list proof has the size that its fields require")
    return ListProof(
        node=node_key(node),
        expires_at_ms=expires_at_ms,
        index=index,
        done=FetchDone.from_body(done),
        entries=tuple(entries),
    )

"""Encode and decode storage receipts: a DELIVERY ack over a commit's Merkle root, with one put's path (SPEC 10.2)."""

from functools import lru_cache
from typing import Final, NamedTuple

from restante.model.errors import Malformed
from restante.model.ids import MESSAGE_ID_BYTES, exactly
from restante.wire.acks import ACK_BYTES, Ack, AckType, decode_ack, encode_ack
from restante.wire.merkle import HASH_BYTES, MAX_PATH_BYTES, MerklePath, decode_path, encode_path, root_from

MAX_RECEIPT_BYTES: Final = ACK_BYTES + MAX_PATH_BYTES
MIN_RECEIPT_BYTES: Final = ACK_BYTES + 8


@lru_cache(maxsize=64)  # all receipts of a commit contain the same ack
def decode_commit_ack(raw: bytes) -> Ack:
    """Decode the DELIVERY ack of a commit."""
    ack = decode_ack(raw)
    if ack.type is not AckType.DELIVERY:
        raise Malformed("a storage receipt is a DELIVERY ack")
    return ack


class StorageReceipt(NamedTuple):
    """One put's evidence: a DELIVERY ack and the path of one leaf. It counts once the root follows from the leaf that
    the client computed itself."""

    ack: Ack
    path: MerklePath

    @property
    def root(self) -> bytes:
        return self.ack.subject


def unsigned_receipt(root: bytes, *, now_ms: int) -> Ack:
    """Return the ack that a node signs once for a whole commit."""
    exactly(root, HASH_BYTES, "Merkle root")
    return Ack(type=AckType.DELIVERY, reference=root[:MESSAGE_ID_BYTES], subject=root, timestamp_ms=now_ms)


def covers(receipt: StorageReceipt, leaf: bytes) -> bool:
    """Return whether the receipt's root contains this leaf. The signature is checked in core/mesh_proofs."""
    return root_from(leaf, receipt.path) == receipt.root


def encode_receipt(receipt: StorageReceipt) -> bytes:
    return encode_ack(receipt.ack) + encode_path(receipt.path)


def decode_receipt(raw: bytes) -> StorageReceipt:
    if not MIN_RECEIPT_BYTES <= len(raw) <= MAX_RECEIPT_BYTES:
        raise Malformed(f"a storage receipt has {MIN_RECEIPT_BYTES}..{MAX_RECEIPT_BYTES} bytes, not {len(raw)}")
    return StorageReceipt(decode_commit_ack(raw[:ACK_BYTES]), decode_path(raw[ACK_BYTES:]))

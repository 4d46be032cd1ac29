"""Sign and verify storage receipts (SPEC 7.8, 10.2)."""

from collections.abc import Sequence
from dataclasses import replace

from restante.crypto.identity import Identity, is_signed_by
from restante.model.ids import NodeKey, PayloadHash
from restante.wire.acks import Ack, ack_to_sign
from restante.wire.envelope import Envelope, hash_sealed_bytes
from restante.wire.merkle import address_hash, merkle_paths, merkle_root, stored_leaf
from restante.wire.storage_receipts import StorageReceipt, covers, unsigned_receipt


def leaf_of(envelope: Envelope, sealed_hash: PayloadHash | None = None) -> bytes:
    """Return the leaf that a receipt for this envelope must contain. The sender computes it from what it sent."""
    hashed = hash_sealed_bytes(envelope.sealed) if sealed_hash is None else sealed_hash
    return stored_leaf(address_hash(envelope.inbox_key, envelope.expires_at_ms), hashed)


def sign_receipts_of_commit(node: Identity, leaves: Sequence[bytes], *, now_ms: int) -> list[StorageReceipt]:
    """Return one receipt a leaf, with one signature for all. Call it only after the commit is on disk (SPEC 1.3)."""
    unsigned = unsigned_receipt(merkle_root(leaves), now_ms=now_ms)
    ack = replace(unsigned, signature=node.sign(ack_to_sign(unsigned)))
    return [StorageReceipt(ack=ack, path=path) for path in merkle_paths(leaves)]


class SignedCommits:
    """Receipts of one node, whose signature covers a whole commit: it is verified once, not for each of its puts."""

    __slots__ = ("_last", "_node")

    def __init__(self, node: NodeKey) -> None:
        self._node = node
        self._last: Ack | None = None

    def has_stored(self, receipt: StorageReceipt, leaf: bytes) -> bool:
        """Return whether the node signed that it stores exactly this leaf."""
        if not covers(receipt, leaf):
            return False
        if receipt.ack != self._last:
            if not is_signed_by(self._node, receipt.ack.signature, ack_to_sign(receipt.ack)):
                return False
            self._last = receipt.ack
        return True


def is_receipt_for(receipt: StorageReceipt, *, node: NodeKey, leaf: bytes) -> bool:
    """Return whether this node signed that it stores exactly this leaf."""
    return SignedCommits(node).has_stored(receipt, leaf)

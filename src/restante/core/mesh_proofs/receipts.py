"""Sign and verify storage receipts: mesh nodes and named relays give the same ones (SPEC 7.8, 10.2)."""

from collections.abc import Sequence
from dataclasses import replace

from restante.crypto.identity import Identity, is_signed_by
from restante.model.ids import NodeKey, PayloadHash
from restante.model.journal import StorageReceipt as Evidence
from restante.wire.acks import Ack, ack_to_sign
from restante.wire.envelope import Envelope, hash_sealed_bytes
from restante.wire.envelope_parser import parse_envelope
from restante.wire.merkle import MerklePath, MerkleTree, address_hash, encode_path, stored_leaf
from restante.wire.storage_receipts import StorageReceipt, covers, unsigned_receipt


def leaf_of(envelope: Envelope, sealed_hash: PayloadHash | None = None) -> bytes:
    """Return the leaf that a receipt for this envelope must contain. The sender computes it from what it sent."""
    hashed = hash_sealed_bytes(envelope.sealed) if sealed_hash is None else sealed_hash
    return stored_leaf(address_hash(envelope.inbox_key, envelope.expires_at_ms), hashed)


class SignedCommit:
    """The puts of one commit, signed once for all. Give its receipts only after the commit is on disk (SPEC 1.3)."""

    __slots__ = ("_tree", "ack")

    def __init__(self, node: Identity, leaves: Sequence[bytes], *, now_ms: int) -> None:
        self._tree = MerkleTree(leaves)
        unsigned = unsigned_receipt(self._tree.root, now_ms=now_ms)
        self.ack = replace(unsigned, signature=node.sign(ack_to_sign(unsigned)))

    def path(self, first: int, length: int) -> MerklePath:
        """Return the path of adjoining leaves."""
        return self._tree.path(first, length)

    def paths(self) -> list[MerklePath]:
        """Return the path of each leaf."""
        return self._tree.paths(0, self._tree.count)


def sign_receipts_of_commit(node: Identity, leaves: Sequence[bytes], *, now_ms: int) -> list[StorageReceipt]:
    """Return one receipt a leaf, with one signature for all. Call it only after the commit is on disk (SPEC 1.3)."""
    commit = SignedCommit(node, leaves, now_ms=now_ms)
    return [StorageReceipt(commit.ack, path) for path in commit.paths()]


class SignedCommits:
    """Receipts of one node, whose signature covers a whole commit: it is verified once, not for each of its puts."""

    __slots__ = ("_last", "_node")

    def __init__(self, node: NodeKey) -> None:
        self._node = node
        self._last: Ack | None = None

    def has_stored(self, receipt: StorageReceipt, leaf: bytes) -> bool:
        """Return whether the node signed that it stores exactly this leaf."""
        return covers(receipt, leaf) and self._has_signed(receipt.ack)

    def receipts_of_run(self, ack: Ack, run: MerklePath, leaves: Sequence[bytes]) -> list[StorageReceipt] | None:
        """Return the receipt of each leaf; None unless the node signed that it stores exactly these, in this order."""
        if len(leaves) != run.length:
            return None
        tree = MerkleTree(leaves, run)
        if tree.root != ack.subject or not self._has_signed(ack):
            return None
        return [StorageReceipt(ack, path) for path in tree.paths(run.first, run.length)]

    def _has_signed(self, ack: Ack) -> bool:
        if ack != self._last:
            if not is_signed_by(self._node, ack.signature, ack_to_sign(ack)):
                return False
            self._last = ack
        return True


def is_receipt_for(receipt: StorageReceipt, *, node: NodeKey, leaf: bytes) -> bool:
    """Return whether this node signed that it stores exactly this leaf."""
    return SignedCommits(node).has_stored(receipt, leaf)


def evidence_of(envelope: bytes, receipt: StorageReceipt) -> Evidence:
    """Return the receipt of this envelope as it is journaled: it can be checked without the inbox key (SPEC 10.2)."""
    inbox_key, expires_at_ms, _ = parse_envelope(envelope)
    return Evidence(
        inner_hash=address_hash(inbox_key, expires_at_ms),
        path=encode_path(receipt.path),
        root=receipt.root,
        at_ms=receipt.ack.timestamp_ms,
        signature=receipt.ack.signature,
    )

"""Show that a node withholds mail, by what it signed when it stored a blob and when it listed (SPEC 13.5).

A sender keeps storage receipts, a recipient keeps FETCH_DONE. Either alone proves nothing.
"""

from bisect import bisect_left
from collections.abc import Sequence

from restante.core.mesh_proofs.reading import is_done_by
from restante.crypto.identity import is_signed_by
from restante.model.errors import Malformed
from restante.model.ids import InboxKey, NodeKey, PayloadHash
from restante.model.journal import StorageReceipt
from restante.policy.completion import STORED_TTL_MS
from restante.policy.quota import HOUR_MS
from restante.wire.acks import ack_to_sign
from restante.wire.frames.mesh_reading import FetchDone
from restante.wire.list_proofs import ListProof
from restante.wire.merkle import (
    MerkleTree,
    address_hash,
    decode_path,
    listed_leaf,
    proves_absence,
    root_from,
    stored_leaf,
)
from restante.wire.storage_receipts import unsigned_receipt


class SignedList:
    """What one node listed for one key, and the FETCH_DONE that it signed over it."""

    __slots__ = ("_done", "_index", "_node", "_sorted", "_tree")

    def __init__(self, node: NodeKey, done: FetchDone, key: InboxKey, listed: Sequence[PayloadHash]) -> None:
        self._node = node
        self._done = done
        self._index = [each.inbox_key for each in done.answers].index(key)
        self._sorted = sorted(listed)
        self._tree = MerkleTree([listed_leaf(each) for each in self._sorted]) if listed else None

    def prove(self, blob: PayloadHash, *, expires_at_ms: int) -> ListProof:
        """Return the entries of the sorted list that show whether the blob is in it."""
        at = bisect_left(self._sorted, blob)
        is_here = at < len(self._sorted) and self._sorted[at] == blob
        shown = [at] if is_here else [each for each in (at - 1, at) if 0 <= each < len(self._sorted)]
        paths = [] if self._tree is None else map(self._tree.path, shown)
        entries = tuple((self._sorted[each], path) for each, path in zip(shown, paths, strict=True))
        return ListProof(
            node=self._node, expires_at_ms=expires_at_ms, index=self._index, done=self._done, entries=entries
        )


def is_listed(proof: ListProof, blob: PayloadHash) -> bool:
    """Return whether the node signed a list that has this blob."""
    [(shown, path)] = proof.entries if len(proof.entries) == 1 else [(None, None)]
    if shown != blob or path is None or path.leaves != proof.answer.count:
        return False
    return root_from(listed_leaf(blob), path) == proof.answer.root and is_done_by(proof.done, proof.node)


def is_absent(proof: ListProof, blob: PayloadHash) -> bool:
    """Return whether the node signed that its complete list for this key lacks the blob."""
    answer = proof.answer
    return (
        answer.is_complete
        and answer.after == 0
        and proves_absence(blob, proof.entries, root=answer.root, count=answer.count)
        and is_done_by(proof.done, proof.node)
    )


def is_stored(receipt: StorageReceipt, node: NodeKey, blob: PayloadHash) -> bool:
    """Return whether the node signed that it stores this blob. The receipt is as a client journaled it."""
    try:
        root = root_from(stored_leaf(receipt.inner_hash, blob), decode_path(receipt.path))
    except Malformed:
        return False
    ack = unsigned_receipt(receipt.root, now_ms=receipt.at_ms)
    return root == receipt.root and is_signed_by(node, receipt.signature, ack_to_sign(ack))


def is_withheld(receipt: StorageReceipt, proof: ListProof, blob: PayloadHash) -> bool:
    """Return whether the node stored the blob under this key and later, before it expired, signed that it has none.

    The recipient journals an absence only when it gets the blob for the first time: it has deleted it nowhere yet.
    """
    is_same_key = address_hash(proof.answer.inbox_key, proof.expires_at_ms) == receipt.inner_hash
    # Nodes stamp a receipt after its commit and a list before it is read, so a later stamp saw the commit. An equal one
    # may not have.
    # A sender may write any expiry, and rounds it up to an hour; nodes keep nothing for more than 30 days (SPEC 6.6).
    kept_until_ms = min(proof.expires_at_ms, receipt.at_ms + STORED_TTL_MS - HOUR_MS)
    is_in_time = receipt.at_ms < proof.done.time_ms < kept_until_ms
    return is_same_key and is_in_time and is_stored(receipt, proof.node, blob) and is_absent(proof, blob)

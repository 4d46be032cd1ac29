"""Find nodes that withhold mail in the journals of a sender and a recipient (SPEC 13.5).

The sender journals a node's storage receipt, the recipient the node's signed list without the blob. Both signatures are
verified here, so neither journal is trusted.
"""

from collections.abc import Iterable, Sequence

from restante.core.mesh_proofs.withholding import is_withheld
from restante.model.ids import MessageId, NodeId, PayloadHash
from restante.model.journal import JournalEvent, JournalKind, StorageReceipt
from restante.wire.inbox_keys import node_id_of
from restante.wire.list_proofs import decode_list_proof


def withheld_blobs(sender: Sequence[JournalEvent], recipient: Iterable[JournalEvent]) -> dict[NodeId, set[PayloadHash]]:
    """Return, for each node, the blobs that it signed for and later left out of a complete list that it signed."""
    receipts = _receipts(sender)
    found: dict[NodeId, set[PayloadHash]] = {}
    for row in recipient:
        if row.kind is not JournalKind.MISSING_AT_NODE or row.answer is None or row.payload_hash is None:
            continue
        proof = decode_list_proof(row.answer)
        node = node_id_of(proof.node)
        if any(is_withheld(each, proof, row.payload_hash) for each in receipts.get((node, row.payload_hash), ())):
            found.setdefault(node, set()).add(row.payload_hash)
    return found


def _receipts(sender: Sequence[JournalEvent]) -> dict[tuple[NodeId, PayloadHash], list[StorageReceipt]]:
    """Return the receipts by node and blob. The hash of a message is journaled with its attempts."""
    hashes: dict[MessageId | None, set[PayloadHash]] = {}
    for row in sender:
        if row.payload_hash is not None:
            hashes.setdefault(row.message_id, set()).add(row.payload_hash)
    found: dict[tuple[NodeId, PayloadHash], list[StorageReceipt]] = {}
    for row in sender:
        receipt = receipt_of(row)
        if row.kind is JournalKind.DELIVERY_CONFIRMED and row.node is not None and receipt is not None:
            for hashed in hashes.get(row.message_id, ()):
                found.setdefault((row.node, hashed), []).append(receipt)
    return found


def receipt_of(row: JournalEvent) -> StorageReceipt | None:
    """Return the storage receipt in a journal event, if it has one."""
    if (
        row.evidence_inner_hash is None
        or row.evidence_path is None
        or row.evidence_root is None
        or row.evidence_at_ms is None
        or row.evidence_signature is None
    ):
        return None
    return StorageReceipt(
        row.evidence_inner_hash, row.evidence_path, row.evidence_root, row.evidence_at_ms, row.evidence_signature
    )

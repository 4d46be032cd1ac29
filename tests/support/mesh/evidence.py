"""What a verifier finds in the journals of a sender and a recipient, and in nothing else (SPEC 13.5)."""

from restante.client.client import Client
from restante.client.mesh.evidence import ALTERED
from restante.core.mesh_proofs.withholding import is_listed, is_withheld
from restante.model.ids import MessageId, NodeId, PayloadHash
from restante.model.journal import JournalEvent, JournalKind, StorageReceipt
from restante.wire.inbox_keys import node_id_of
from restante.wire.list_proofs import decode_list_proof

ALL = 10_000_000


def events(client: Client, kind: JournalKind) -> list[JournalEvent]:
    return [row for row in client.journal.events(after=0, limit=ALL) if row.kind is kind]


def withholding_nodes(sender: Client, recipient: Client) -> set[NodeId]:
    """Return the nodes that signed for a blob, and later a complete list without it."""
    receipts = _receipts(sender)
    named = set()
    for row in events(recipient, JournalKind.MISSING_AT_NODE):
        assert row.answer is not None
        assert row.payload_hash is not None
        proof = decode_list_proof(row.answer)
        assert row.node == node_id_of(proof.node)
        for receipt in receipts.get((row.node, row.payload_hash), ()):
            if is_withheld(receipt, proof, row.payload_hash):
                named.add(node_id_of(proof.node))
    return named


def altering_nodes(recipient: Client) -> set[NodeId]:
    """Return the nodes that signed a list with a blob and sent other bytes for it."""
    named = set()
    for row in events(recipient, JournalKind.SECURITY):
        if row.code == ALTERED:
            assert row.answer is not None
            assert row.payload_hash is not None
            proof = decode_list_proof(row.answer)
            if is_listed(proof, row.payload_hash):
                named.add(node_id_of(proof.node))
    return named


def _receipts(sender: Client) -> dict[tuple[NodeId | None, PayloadHash], list[StorageReceipt]]:
    """Return the receipts by node and blob. The hash of a message is journaled with its attempts."""
    rows = sender.journal.events(after=0, limit=ALL)
    hashes: dict[MessageId | None, set[PayloadHash]] = {}
    for row in rows:
        if row.payload_hash is not None:
            hashes.setdefault(row.message_id, set()).add(row.payload_hash)
    found: dict[tuple[NodeId | None, PayloadHash], list[StorageReceipt]] = {}
    for row in rows:
        if row.kind is JournalKind.DELIVERY_CONFIRMED:
            for hashed in hashes[row.message_id]:
                found.setdefault((row.node, hashed), []).append(_receipt(row))
    return found


def _receipt(row: JournalEvent) -> StorageReceipt:
    assert row.evidence_inner_hash is not None
    assert row.evidence_path is not None
    assert row.evidence_root is not None
    assert row.evidence_at_ms is not None
    assert row.evidence_signature is not None
    return StorageReceipt(
        row.evidence_inner_hash, row.evidence_path, row.evidence_root, row.evidence_at_ms, row.evidence_signature
    )

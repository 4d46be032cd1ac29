"""What a verifier finds in the journals of a sender and a recipient, and in nothing else (SPEC 13.5)."""

from restante.client.client import Client
from restante.client.mesh.evidence import ALTERED
from restante.core.mesh_proofs.journal_evidence import withheld_blobs
from restante.core.mesh_proofs.withholding import is_listed
from restante.model.ids import NodeId
from restante.model.journal import JournalEvent, JournalKind
from restante.wire.inbox_keys import node_id_of
from restante.wire.list_proofs import decode_list_proof

ALL = 10_000_000


def events(client: Client, kind: JournalKind) -> list[JournalEvent]:
    return [row for row in client.journal.events(after=0, limit=ALL) if row.kind is kind]


def withholding_nodes(sender: Client, recipient: Client) -> set[NodeId]:
    """Return the nodes that signed for a blob, and later a complete list without it."""
    sent = sender.journal.events(after=0, limit=ALL)
    received = recipient.journal.events(after=0, limit=ALL)
    for row in received:
        if row.kind is JournalKind.MISSING_AT_NODE:
            assert row.answer is not None
            assert row.payload_hash is not None
            assert row.node == node_id_of(decode_list_proof(row.answer).node)
    return set(withheld_blobs(sent, received))


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

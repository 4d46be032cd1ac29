"""Journals what nodes signed when they hid or altered mail (SPEC 13.5). With a sender's storage receipt it names a node
that withholds."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from restante.client.mesh.inbox_nodes import ListedBucket
from restante.core.mesh_proofs.withholding import SignedList
from restante.model.ids import InboxKey, NodeId, PayloadHash
from restante.model.journal import JournalKind
from restante.runtime.sqlite.file.client_file import ClientFile
from restante.wire.envelope import decode_envelope
from restante.wire.list_proofs import encode_list_proof

ALTERED = "altered_at_node"
"""The code of a security event: a node listed a blob and sent other bytes for it."""


class Accusation(NamedTuple):
    """A node and a blob, with the node's signed list: an altered blob is in it, a missing one is not."""

    node: NodeId
    payload_hash: PayloadHash
    answer: bytes
    is_altered: bool


def accuse(
    key: InboxKey,
    listed: dict[NodeId, ListedBucket],
    blobs: dict[PayloadHash, bytes],
    *,
    first_seen: Collection[PayloadHash],
    missing_at: Iterable[tuple[NodeId, PayloadHash]],
    altered_by: Iterable[tuple[NodeId, PayloadHash]],
) -> list[Accusation]:
    """Return what is to be journaled after a read. `blobs` are the envelopes that other nodes sent.

    A blob that came before was deleted by its owner, so nodes that lack it are honest.
    """
    lists = {node: SignedList(each.node, each.done, key, each.hashes) for node, each in listed.items()}

    def proved(node: NodeId, blob: PayloadHash, *, is_altered: bool) -> Accusation:
        expires_at_ms = decode_envelope(blobs[blob]).expires_at_ms
        answer = encode_list_proof(lists[node].prove(blob, expires_at_ms=expires_at_ms))
        return Accusation(node, blob, answer, is_altered)

    missing = [proved(*each, is_altered=False) for each in missing_at if each[1] in first_seen]
    altered = [proved(*each, is_altered=True) for each in altered_by if each[1] in first_seen and each[0] in lists]
    return missing + altered


async def journal(file: ClientFile, accusations: Sequence[Accusation], now_ms: Callable[[], int]) -> None:
    """Write one event for each, in one commit."""
    await file.run(partial(_append, file, accusations, now_ms()))


def _append(file: ClientFile, accusations: Sequence[Accusation], now_ms: int) -> None:
    for each in accusations:
        file.journal.append(
            JournalKind.SECURITY if each.is_altered else JournalKind.MISSING_AT_NODE,
            at_ms=now_ms,
            code=ALTERED if each.is_altered else None,
            payload_hash=each.payload_hash,
            node=each.node,
            answer=each.answer,
        )

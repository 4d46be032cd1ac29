"""What a node signs that acknowledges a blob and later lists without it (SPEC 13.5), for synthetic journals."""

from functools import cache

from restante.core.mesh_proofs.reading import answer_for, sign_done
from restante.core.mesh_proofs.receipts import sign_receipts_of_commit
from restante.core.mesh_proofs.withholding import SignedList
from restante.crypto.identity import Identity
from restante.model.ids import InboxKey, PayloadHash
from restante.model.journal import StorageReceipt
from restante.wire.list_proofs import encode_list_proof
from restante.wire.merkle import address_hash, encode_path, stored_leaf


@cache
def identity_of(seed: bytes) -> Identity:
    return Identity(seed)


def signed_receipt(
    node: Identity, key: InboxKey, blob: PayloadHash, *, at_ms: int, expires_at_ms: int
) -> StorageReceipt:
    """Return the receipt of a commit with this put alone, as the sender journals it."""
    inner_hash = address_hash(key, expires_at_ms)
    [signed] = sign_receipts_of_commit(node, [stored_leaf(inner_hash, blob)], now_ms=at_ms)
    return StorageReceipt(inner_hash, encode_path(signed.path), signed.root, at_ms, signed.ack.signature)


def signed_absence(node: Identity, key: InboxKey, blob: PayloadHash, *, at_ms: int, expires_at_ms: int) -> bytes:
    """Return the node's complete and empty list for the key, as the recipient journals it."""
    done = sign_done(node, [answer_for(key, [], after=0, last=0, is_complete=True)], now_ms=at_ms)
    return encode_list_proof(SignedList(node.node_key, done, key, []).prove(blob, expires_at_ms=expires_at_ms))

"""Sign and verify what reading needs: the owner's proofs and the node's FETCH_DONE (SPEC 7.4, 7.5, 13.5)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from restante.crypto.blinded_keys import BlindedSigner
from restante.crypto.identity import Identity, is_signed_by
from restante.model.ids import InboxKey, NodeKey, PayloadHash
from restante.wire.frames.mesh_reading import (
    FetchDone,
    FetchEntry,
    KeyAnswer,
    MeshDelete,
    delete_to_sign,
    done_to_sign,
    fetch_to_sign,
)
from restante.wire.frames.mesh_types import MeshFrameType
from restante.wire.merkle import listed_leaf, merkle_root

FEW: Final = 64
"""Roots of lists up to this length are remembered; longer lists would take too much memory."""


def answer_for(key: InboxKey, listed: Sequence[PayloadHash], *, after: int, last: int, is_complete: bool) -> KeyAnswer:
    """Return what the node signs of one key: the list that it sent, sorted."""
    return KeyAnswer(
        inbox_key=key,
        after=after,
        last=last,
        count=len(listed),
        root=_root_of(listed),
        is_complete=is_complete,
    )


def sign_done(node: Identity, answers: Sequence[KeyAnswer], *, now_ms: int) -> FetchDone:
    return FetchDone(answers=tuple(answers), time_ms=now_ms, signature=node.sign(done_to_sign(answers, now_ms)))


def is_done_by(done: FetchDone, node: NodeKey) -> bool:
    return is_signed_by(node, done.signature, done_to_sign(done.answers, done.time_ms))


def matches_list(answer: KeyAnswer, listed: Sequence[PayloadHash]) -> bool:
    """Return whether the signed answer is about exactly the hashes that came before it."""
    return answer.count == len(listed) and answer.root == _root_of(listed)


def prove_entry(
    signer: BlindedSigner,
    entry: FetchEntry,
    frame_type: MeshFrameType,
    *,
    challenge: bytes,
    connection: bytes,
    entropy: bytes,
) -> FetchEntry:
    to_sign = fetch_to_sign(entry, frame_type, challenge=challenge, connection=connection)
    return replace(entry, signature=signer.sign(to_sign, entropy=entropy))


def is_proved(entry: FetchEntry, frame_type: MeshFrameType, *, challenge: bytes, connection: bytes) -> bool:
    """Return whether the owner of the blinded key signed this entry on this connection."""
    to_sign = fetch_to_sign(entry, frame_type, challenge=challenge, connection=connection)
    return is_signed_by(entry.blinded, entry.signature, to_sign)


def sign_delete(signer: BlindedSigner, bucket: int, hashes: Sequence[PayloadHash], *, entropy: bytes) -> MeshDelete:
    unsigned = MeshDelete(blinded=signer.public_key, bucket=bucket, hashes=tuple(hashes))
    return replace(unsigned, signature=signer.sign(delete_to_sign(unsigned), entropy=entropy))


def is_delete_by_owner(delete: MeshDelete) -> bool:
    return is_signed_by(delete.blinded, delete.signature, delete_to_sign(delete))


def _root_of(listed: Sequence[PayloadHash]) -> bytes:
    ordered = tuple(sorted(listed))
    return _root_of_few(ordered) if len(ordered) <= FEW else _merkle_root(ordered)


@lru_cache(maxsize=1_024)  # polls list the same few messages again, and five nodes list them alike
def _root_of_few(ordered: tuple[PayloadHash, ...]) -> bytes:
    return _merkle_root(ordered)


def _merkle_root(ordered: Sequence[PayloadHash]) -> bytes:
    return merkle_root([listed_leaf(each) for each in ordered])

"""core/mesh_proofs/withholding: a receipt and a later signed list without the blob name a node, nothing less does."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.mesh_proofs.reading import answer_for, sign_done
from restante.core.mesh_proofs.receipts import leaf_of, sign_receipts_of_commit
from restante.core.mesh_proofs.withholding import SignedList, is_absent, is_listed, is_withheld
from restante.crypto.identity import Identity
from restante.model.errors import Malformed
from restante.model.ids import InboxKey, PayloadHash
from restante.model.journal import StorageReceipt
from restante.wire.envelope import Envelope, hash_sealed_bytes
from restante.wire.journal_schema import MAX_ANSWER_BYTES
from restante.wire.list_proofs import ListProof, decode_list_proof, encode_list_proof
from restante.wire.merkle import address_hash, encode_path
from support.spec.clauses import clause
from support.wire.codec_properties import flipped

NODE, OTHER = Identity(b"n" * 32), Identity(b"m" * 32)
KEY, OTHER_KEY = InboxKey(b"k" * 32), InboxKey(b"j" * 32)
HOUR_MS = 3_600_000
STORED_MS = 500_000 * HOUR_MS
EXPIRES_MS = STORED_MS + 48 * HOUR_MS
ENVELOPE = Envelope(inbox_key=KEY, expires_at_ms=EXPIRES_MS, sealed=b"sealed")
BLOB = hash_sealed_bytes(ENVELOPE.sealed)
hashes = st.binary(min_size=32, max_size=32).map(PayloadHash)


def receipt_of(node: Identity = NODE, *, at_ms: int = STORED_MS) -> StorageReceipt:
    [signed, _] = sign_receipts_of_commit(node, [leaf_of(ENVELOPE), b"x" * 32], now_ms=at_ms)
    return StorageReceipt(
        address_hash(KEY, EXPIRES_MS), encode_path(signed.path), signed.root, at_ms, signed.ack.signature
    )


def proof_of(
    listed: list[PayloadHash],
    *,
    node: Identity = NODE,
    key: InboxKey = KEY,
    complete: bool = True,
    after: int = 0,
    at_ms: int = STORED_MS + HOUR_MS,
) -> ListProof:
    answers = [
        answer_for(OTHER_KEY if key == KEY else KEY, [], after=0, last=0, is_complete=True),
        answer_for(key, listed, after=after, last=after, is_complete=complete),
    ]
    done = sign_done(node, answers, now_ms=at_ms)
    return SignedList(node.node_key, done, key, listed).prove(BLOB, expires_at_ms=EXPIRES_MS)


@clause("13.5")
@given(st.lists(hashes, max_size=40, unique=True))
def test_any_list_without_the_blob_proves_its_absence_and_survives_the_journal(listed: list[PayloadHash]) -> None:
    raw = encode_list_proof(proof_of(listed))
    assert len(raw) <= MAX_ANSWER_BYTES
    proof = decode_list_proof(raw)
    assert encode_list_proof(proof) == raw
    assert is_absent(proof, BLOB) is (BLOB not in listed)
    assert not is_listed(proof, BLOB)
    assert is_withheld(receipt_of(), proof, BLOB)


@clause("13.5")
@given(st.lists(hashes, max_size=40, unique=True))
def test_a_list_with_the_blob_proves_that_it_was_listed(listed: list[PayloadHash]) -> None:
    proof = proof_of([*listed, BLOB])
    assert is_listed(proof, BLOB)
    assert not is_absent(proof, BLOB)
    assert not is_withheld(receipt_of(), proof, BLOB)


@clause("13.5")
@pytest.mark.parametrize(
    ("receipt", "proof"),
    [
        (receipt_of(OTHER), proof_of([])),
        (receipt_of(), proof_of([], node=OTHER)),
        (receipt_of(), proof_of([], key=OTHER_KEY)),
        (receipt_of(), proof_of([], complete=False)),
        (receipt_of(), proof_of([], after=1)),
        (receipt_of(at_ms=STORED_MS + 2 * HOUR_MS), proof_of([])),
        (receipt_of(), proof_of([], at_ms=STORED_MS)),
        (receipt_of(), proof_of([], at_ms=EXPIRES_MS)),
        (receipt_of()._replace(root=b"r" * 32), proof_of([])),
    ],
    ids=[
        "other signer",
        "other node",
        "other key",
        "incomplete",
        "after",
        "stored later",
        "stored at the same moment",
        "expired",
        "other root",
    ],
)
def test_nothing_less_accuses_a_node(receipt: StorageReceipt, proof: ListProof) -> None:
    assert not is_withheld(receipt, proof, BLOB)


@clause("13.5")
@given(st.integers(min_value=0))
def test_no_altered_proof_counts(bit: int) -> None:
    raw = encode_list_proof(proof_of([PayloadHash(b"\x01" * 32), PayloadHash(b"\xfe" * 32)]))
    try:
        proof = decode_list_proof(flipped(raw, bit % (8 * len(raw))))
    except Malformed:
        return
    assert not is_withheld(receipt_of(), proof, BLOB)


@clause("6.6", "13.5")
@pytest.mark.parametrize(("days", "is_named"), [(29, True), (31, False)])
def test_a_node_that_kept_a_blob_for_30_days_is_not_accused_whatever_expiry_its_sender_wrote(
    days: int, is_named: bool
) -> None:
    expires_at_ms = STORED_MS + 89 * 24 * HOUR_MS
    envelope = replace(ENVELOPE, expires_at_ms=expires_at_ms)
    [signed] = sign_receipts_of_commit(NODE, [leaf_of(envelope)], now_ms=STORED_MS)
    receipt = StorageReceipt(
        address_hash(KEY, expires_at_ms), encode_path(signed.path), signed.root, STORED_MS, signed.ack.signature
    )
    proof = replace(proof_of([], at_ms=STORED_MS + days * 24 * HOUR_MS), expires_at_ms=expires_at_ms)
    assert is_withheld(receipt, proof, BLOB) is is_named


def test_a_proof_about_an_answer_that_is_not_there_is_refused() -> None:
    proof = proof_of([])
    with pytest.raises(Malformed):
        replace(proof, index=2)

"""core/mesh_proofs: what counts as a node's or an owner's word in the mesh."""

from dataclasses import replace

import pytest

from restante.core.mesh_proofs.descriptors import admit_to_family, sign_descriptor, verify_descriptor
from restante.core.mesh_proofs.reading import (
    FEW,
    answer_for,
    is_delete_by_owner,
    is_done_by,
    is_proved,
    matches_list,
    prove_entry,
    sign_delete,
    sign_done,
)
from restante.core.mesh_proofs.receipts import SignedCommits, is_receipt_for, leaf_of, sign_receipts_of_commit
from restante.core.mesh_proofs.records import newer_record, open_record, sign_record, verify_record
from restante.crypto.blinded_keys import BlindedSigner, in_period
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.errors import RemoteProtocolError
from restante.model.ids import InboxKey, PayloadHash
from restante.model.node_descriptor import Role
from restante.wire.descriptors import encode_descriptor
from restante.wire.envelope import Envelope
from restante.wire.frames.mesh_reading import FetchEntry
from restante.wire.frames.mesh_types import MeshFrameType
from restante.wire.merkle import listed_leaf, merkle_root
from restante.wire.prekey_records import encode_record
from support.mesh.frames import HASHES, KEY, NODE, NOW_MS, OPERATOR, example_descriptor
from support.spec.clauses import clause
from support.wire.codec_properties import flipped

OWNER = Identity(bytes(range(32)))
STRANGER = Identity(bytes(range(1, 33)))
SIGNER = BlindedSigner(OWNER, place=in_period(7))
ENTROPY = b"\xe7" * 32
ENVELOPE = Envelope(inbox_key=KEY, expires_at_ms=3_600_000 * 500_000, sealed=b"sealed")


@clause("7.1")
def test_a_descriptor_altered_in_any_bit_is_refused() -> None:
    raw = encode_descriptor(example_descriptor())
    for bit in range(0, len(raw) * 8, 7):
        with pytest.raises(RemoteProtocolError):
            verify_descriptor(flipped(raw, bit))


@clause("7.1")
def test_a_one_sided_family_claim_is_refused() -> None:
    claimed = replace(example_descriptor(), certificate=admit_to_family(STRANGER, STRANGER.node_key))
    with pytest.raises(RemoteProtocolError, match="operator") as refused:
        verify_descriptor(encode_descriptor(sign_descriptor(claimed, NODE)))
    assert refused.value.code is Code.AUTHENTICATION_FAILED


@clause("7.1")
def test_family_and_networks_follow_from_the_descriptor() -> None:
    descriptor = example_descriptor()
    assert descriptor.family == OPERATOR.address
    assert replace(descriptor, certificate=None).family == NODE.node_key
    assert descriptor.networks == {bytes([127, 0, 1]), b"\x20\x01" + bytes(4)}
    assert Role.STORAGE in descriptor.roles


@clause("7.8", "10.2")
def test_a_receipt_counts_only_for_its_leaf_and_its_node() -> None:
    leaf = leaf_of(ENVELOPE)
    misfiled = leaf_of(replace(ENVELOPE, inbox_key=InboxKey(b"x" * 32)))
    shortened = leaf_of(replace(ENVELOPE, expires_at_ms=ENVELOPE.expires_at_ms - 3_600_000))
    first, second = sign_receipts_of_commit(NODE, [misfiled, leaf], now_ms=NOW_MS)
    assert is_receipt_for(second, node=NODE.node_key, leaf=leaf)
    assert not is_receipt_for(first, node=NODE.node_key, leaf=leaf)
    assert not is_receipt_for(second, node=NODE.node_key, leaf=shortened)
    assert not is_receipt_for(second, node=STRANGER.node_key, leaf=leaf)


@clause("7.8", "10.2")
def test_a_verified_commit_proves_its_own_leaves_and_no_other_commit() -> None:
    leaves = [leaf_of(replace(ENVELOPE, expires_at_ms=3_600_000 * each)) for each in (1, 2, 3)]
    commits = SignedCommits(NODE.node_key)
    first, second = sign_receipts_of_commit(NODE, leaves[:2], now_ms=NOW_MS)
    assert commits.has_stored(first, leaves[0])
    assert commits.has_stored(second, leaves[1])
    assert not commits.has_stored(second, leaves[2])
    [forged] = sign_receipts_of_commit(STRANGER, leaves[2:], now_ms=NOW_MS)
    assert not commits.has_stored(forged, leaves[2])
    borrowed = forged._replace(ack=replace(forged.ack, signature=first.ack.signature))
    assert not commits.has_stored(borrowed, leaves[2])
    later = first._replace(ack=replace(first.ack, timestamp_ms=NOW_MS + 1))
    assert not commits.has_stored(later, leaves[0])
    assert commits.has_stored(first, leaves[0])


@clause("7.4")
def test_fetch_done_is_about_exactly_the_list_that_came() -> None:
    answer = answer_for(KEY, HASHES, after=0, last=3, is_complete=True)
    done = sign_done(NODE, [answer], now_ms=NOW_MS)
    assert is_done_by(done, NODE.node_key)
    assert not is_done_by(done, STRANGER.node_key)
    assert not is_done_by(replace(done, time_ms=NOW_MS + 1), NODE.node_key)
    assert not is_done_by(replace(done, answers=(replace(answer, is_complete=False),)), NODE.node_key)
    assert matches_list(answer, HASHES[::-1])
    assert not matches_list(answer, HASHES[:2])
    assert not matches_list(answer, (*HASHES[:2], PayloadHash(b"x" * 32)))


@clause("7.4")
@pytest.mark.parametrize("count", [0, 1, FEW, FEW + 1])
def test_a_list_of_any_length_is_signed_whatever_order_it_came_in(count: int) -> None:
    listed = [PayloadHash(number.to_bytes(32, "big")) for number in range(count)]
    answer = answer_for(KEY, listed, after=0, last=count, is_complete=True)
    assert answer.root == merkle_root([listed_leaf(each) for each in listed])
    assert matches_list(answer, listed[::-1])
    assert not matches_list(answer, [*listed[1:], PayloadHash(b"x" * 32)])


@clause("7.4")
def test_a_proof_is_good_for_one_entry_one_frame_and_one_connection() -> None:
    entry = FetchEntry(blinded=SIGNER.public_key, bucket=7, after=3)
    here = {"challenge": b"c" * 32, "connection": b"n" * 32}
    proved = prove_entry(SIGNER, entry, MeshFrameType.FETCH, **here, entropy=ENTROPY)
    assert is_proved(proved, MeshFrameType.FETCH, **here)
    assert not is_proved(proved, MeshFrameType.MESH_SUBSCRIBE, **here)
    assert not is_proved(replace(proved, after=0), MeshFrameType.FETCH, **here)
    assert not is_proved(replace(proved, bucket=8), MeshFrameType.FETCH, **here)
    assert not is_proved(proved, MeshFrameType.FETCH, challenge=b"d" * 32, connection=b"n" * 32)
    assert not is_proved(proved, MeshFrameType.FETCH, challenge=b"c" * 32, connection=b"m" * 32)


@clause("7.4")
def test_only_the_owner_deletes_and_only_what_it_named() -> None:
    delete = sign_delete(SIGNER, 7, HASHES, entropy=ENTROPY)
    assert is_delete_by_owner(delete)
    assert not is_delete_by_owner(replace(delete, hashes=HASHES[:2]))
    assert not is_delete_by_owner(replace(delete, bucket=8))
    assert not is_delete_by_owner(replace(delete, blinded=BlindedSigner(STRANGER, place=in_period(7)).public_key))


@clause("7.6")
def test_a_record_opens_for_its_address_and_period_only() -> None:
    raw = encode_record(sign_record(OWNER, b"bundle", period=655, now_ms=NOW_MS, nonce=bytes(12), entropy=ENTROPY))
    assert open_record(raw, owner=OWNER.address, period=655) == b"bundle"
    for owner, period in ((STRANGER.address, 655), (OWNER.address, 656)):
        with pytest.raises(RemoteProtocolError, match="another address"):
            open_record(raw, owner=owner, period=period)
    for bit in range(0, len(raw) * 8, 11):
        with pytest.raises(RemoteProtocolError):
            verify_record(flipped(raw, bit))


@clause("7.6")
def test_the_newest_record_wins_and_an_older_one_never_replaces_it() -> None:
    old, new = (
        encode_record(sign_record(OWNER, b"bundle", period=655, now_ms=at, nonce=bytes(12), entropy=ENTROPY))
        for at in (NOW_MS, NOW_MS + 1)
    )
    assert newer_record(None, old) == old
    assert newer_record(old, new) == new
    assert newer_record(new, old) == new

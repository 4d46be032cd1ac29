"""Handshake, first message and state files of version 1, derived by derive_session.py without any of our code."""

from restante.core.session_messages import accept_session, decrypt_message, encrypt_message
from restante.crypto.handshake import Encapsulation, initiate, respond
from restante.crypto.identity import Identity
from restante.crypto.prekey_codec import decode_prekeys, encode_prekeys
from restante.crypto.prekeys import public_bundle
from restante.crypto.ratchet_codec import decode_ratchet, encode_ratchet
from restante.crypto.sender_tag import SenderTags
from restante.model.ids import MessageId, SessionId
from restante.policy.padding import unpad
from restante.wire.session_message import decode_session_message, encode_session_message
from support.spec.clauses import clause
from support.wire.golden_vectors import load

VECTOR = {name: bytes.fromhex(value) for name, value in load("session").items()}
ALICE, BOB = Identity(bytes(range(32))), Identity(bytes(range(32, 64)))
NOW_MS = 1_800_000_000_000
PREKEYS = decode_prekeys(VECTOR["prekeys"])
MESSAGE_ID = MessageId(bytes.fromhex("9f1c5a3e6d0b4c1e8a572f4e0c9b7d11"))


@clause("8.1", "8.3")
def test_the_one_who_writes_first_comes_to_the_session_and_to_these_bytes() -> None:
    bundle = public_bundle(PREKEYS, BOB.card, now_ms=NOW_MS)
    agreed = initiate(
        ALICE,
        bundle,
        one_time=bundle.one_time[0],
        encapsulation=Encapsulation(secret=VECTOR["kem_secret"], ciphertext=VECTOR["kem_ciphertext"]),
        entropy=b"\x61" * 32 + b"\x62" * 32,
        generation=3,
    )
    assert agreed.session_id == VECTOR["session_id"]
    after, message = encrypt_message(
        agreed.ratchet,
        b"first",
        sender=ALICE.address,
        session_id=agreed.session_id,
        message_id=MESSAGE_ID,
        generation=3,
        opening=agreed.opening,
        make_tag=lambda covered: SenderTags(ALICE).make(covered, recipient=BOB.card),
        entropy=b"\x63" * 16 + bytes(32),
    )
    assert unpad(message) == VECTOR["message"]
    assert encode_ratchet(after) == VECTOR["alice_state"]


def test_the_other_end_reads_them() -> None:
    message, tag, covered = decode_session_message(VECTOR["message"])
    assert encode_session_message(message, lambda _covered: tag) == VECTOR["message"]
    assert SenderTags(BOB).is_valid(tag, covered, sender=ALICE.card)
    assert message.opening is not None
    agreed = respond(BOB, message.opening, generation=3, prekeys=PREKEYS, now_ms=NOW_MS)
    assert agreed.session_id == message.session_id == VECTOR["session_id"]
    assert agreed.ratchet.root_key == VECTOR["secret"]
    accepted = accept_session(message, recipient=BOB, prekeys=PREKEYS, now_ms=NOW_MS)
    assert accepted.plaintext == b"first"
    assert encode_ratchet(accepted.agreed.ratchet) == VECTOR["bob_state"]
    assert accepted.prekeys.one_time == {}


def test_a_prekey_store_of_version_1_is_read() -> None:
    assert encode_prekeys(PREKEYS) == VECTOR["prekeys"]
    assert (PREKEYS.next_id, [prekey.prekey_id for prekey in PREKEYS.signed], list(PREKEYS.one_time)) == (10, [7], [9])


def test_states_of_version_1_are_read_and_go_on() -> None:
    alice, bob = decode_ratchet(VECTOR["alice_state"]), decode_ratchet(VECTOR["bob_state"])
    session = SessionId(VECTOR["session_id"])
    bob, answer = encrypt_message(
        bob,
        b"answer",
        sender=BOB.address,
        session_id=session,
        message_id=MESSAGE_ID,
        generation=3,
        opening=None,
        make_tag=lambda _covered: bytes(16),
        entropy=bytes(48),
    )
    alice, text = decrypt_message(alice, decode_session_message(unpad(answer)).message, now_ms=NOW_MS)
    assert text == b"answer"


def test_a_state_of_version_1_with_a_skipped_key_is_read() -> None:
    state = decode_ratchet(VECTOR["bob_state_with_a_gap"])
    assert encode_ratchet(state) == VECTOR["bob_state_with_a_gap"]
    after, text = decrypt_message(state, decode_session_message(VECTOR["message"]).message, now_ms=NOW_MS)
    assert text == b"first"
    assert after.skipped == {}

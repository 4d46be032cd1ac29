"""crypto/identity: one seed, every key, and a card that nobody can change."""

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st
from nacl import bindings

from restante.crypto.identity import Identity, is_blindable, is_signed_by, verify_card
from restante.model.contact_card import ContactCard
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RemoteProtocolError
from restante.model.ids import Address
from support.crypto.mixed_order import signed_by_mixed_order
from support.crypto.small_order_points import points_of_small_order
from support.wire.codec_properties import flipped

ALICE = Identity(bytes(range(32)))
ALICE_KEYS = ALICE.card.sealing_key + ALICE.card.agreement_key
BOB = Identity(bytes(range(32, 64)))
seeds = st.binary(min_size=32, max_size=32)

# HKDF-SHA-256 (RFC 5869) of the seed 00 01 .. 1f under the labels "restante-identity-v1:storage" and ":tags", worked
# out with an HMAC alone; the address is the Ed25519 public key of the same under ":sign".
ALICE_ADDRESS = "1e86e38d94339735201df2f0a1fa8c0af9d869f1956d0fd064f323dea61a80e9"
ALICE_STORAGE_KEY = "73cfa764a22f0044595de25450ffc8009ab15d3daa77ac91b32f8ee447dfb9c0"
ALICE_TAG_SECRET = "4770f417dc71fdb4d327d5e3732741dbc8f998f1cef1886a6725dd6b699779cd"  # noqa: S105 - of a test's seed


def refusal_of(card: ContactCard) -> Code | None:
    try:
        verify_card(card)
    except RemoteProtocolError as refused:
        return refused.code
    return None


def signed_by_alice(sealing_key: bytes, agreement_key: bytes = ALICE.card.agreement_key) -> ContactCard:
    signature = ALICE.sign(b"restante-card-v2" + sealing_key + agreement_key)
    return ContactCard(address=ALICE.address, sealing_key=sealing_key, agreement_key=agreement_key, signature=signature)


def test_a_seed_gives_the_same_keys_for_ever() -> None:
    assert ALICE.address.hex() == ALICE_ADDRESS
    assert ALICE.storage_key.hex() == ALICE_STORAGE_KEY
    assert ALICE.tag_secret.hex() == ALICE_TAG_SECRET


@given(seeds)
def test_the_same_seed_is_the_same_identity(seed: bytes) -> None:
    one, other = Identity(seed), Identity(seed)
    assert one.card == other.card
    assert (one.storage_key, one.tag_secret, one.sign(b"x")) == (other.storage_key, other.tag_secret, other.sign(b"x"))


@given(seeds, st.integers(0, 255))
def test_another_seed_shares_no_key(seed: bytes, bit: int) -> None:
    one, other = Identity(seed), Identity(flipped(seed, bit))
    assert one.address != other.address
    assert one.card.sealing_key[:1184] != other.card.sealing_key[:1184]
    assert one.card.sealing_key[1184:] != other.card.sealing_key[1184:]
    assert len({one.storage_key, other.storage_key, one.tag_secret, other.tag_secret, seed}) == 5


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_a_seed_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(Malformed, match=f"identity seed must have 32 bytes, not {size}"):
        Identity(bytes(size))


def test_a_node_is_known_by_its_signing_key() -> None:
    assert ALICE.node_key.hex() == ALICE_ADDRESS
    assert len(ALICE.card.sealing_key) == 1184 + 32


@given(seeds)
def test_a_card_as_it_was_issued_is_accepted(seed: bytes) -> None:
    card = Identity(seed).card
    assert verify_card(card) is card


def test_every_single_bit_flip_of_a_card_is_refused() -> None:
    raw = ALICE.card.address + ALICE.card.sealing_key + ALICE.card.agreement_key + ALICE.card.signature
    refusals = []
    for bit in range(len(raw) * 8):
        bent = flipped(raw, bit)
        card = ContactCard(
            address=Address(bent[:32]), sealing_key=bent[32:-96], agreement_key=bent[-96:-64], signature=bent[-64:]
        )
        refusals.append(refusal_of(card))
    assert len(refusals) == 8 * 1344
    assert set(refusals) == {Code.AUTHENTICATION_FAILED}


@pytest.mark.parametrize(
    "forged",
    [
        replace(ALICE.card, sealing_key=BOB.card.sealing_key),
        replace(ALICE.card, sealing_key=BOB.card.sealing_key, signature=BOB.card.signature),
        replace(ALICE.card, address=BOB.address),
        replace(ALICE.card, agreement_key=BOB.card.agreement_key),
        replace(ALICE.card, signature=BOB.sign(b"restante-card-v2" + ALICE_KEYS)),
        replace(ALICE.card, signature=ALICE.sign(ALICE_KEYS)),
        replace(ALICE.card, signature=b""),
        replace(ALICE.card, address=Address(b"")),
    ],
    ids=[
        "another's sealing key",
        "another's sealing key and signature",
        "another's address",
        "another's agreement key",
        "signed by another",
        "signed without the domain",
        "not signed",
        "no address",
    ],
)
def test_a_card_that_its_own_address_did_not_sign_is_refused(forged: ContactCard) -> None:
    assert refusal_of(forged) is Code.AUTHENTICATION_FAILED


def test_the_border_between_two_signed_keys_cannot_be_moved() -> None:
    both = ALICE.card.sealing_key + ALICE.card.agreement_key
    moved = replace(ALICE.card, sealing_key=both[:-31], agreement_key=both[-31:])
    assert refusal_of(moved) is Code.MALFORMED


@pytest.mark.parametrize("agreement_key", [b"", bytes(31), bytes(32), b"\x01" + bytes(31), bytes(33)])
def test_a_truly_signed_agreement_key_that_agrees_on_nothing_is_refused(agreement_key: bytes) -> None:
    assert refusal_of(signed_by_alice(ALICE.card.sealing_key, agreement_key)) is Code.MALFORMED


def test_a_card_whose_address_cannot_be_blinded_is_refused_although_its_signature_holds() -> None:
    """Mail could never be stored for it (SPEC 7.2)."""
    mixed, signature = signed_by_mixed_order(12_345, b"restante-card-v2" + ALICE_KEYS)
    assert is_signed_by(mixed, signature, b"restante-card-v2" + ALICE_KEYS)
    assert refusal_of(replace(ALICE.card, address=Address(mixed), signature=signature)) is Code.MALFORMED
    assert not is_blindable(Address(mixed))
    assert not is_blindable(Address(b"short"))
    assert is_blindable(ALICE.address)


@pytest.mark.parametrize("size", [0, 1184, 1215, 1217])
def test_a_signed_card_with_a_sealing_key_of_another_size_is_refused(size: int) -> None:
    assert refusal_of(signed_by_alice(ALICE.card.sealing_key.ljust(size, b"\x00")[:size])) is Code.MALFORMED


@pytest.mark.parametrize(
    "sealing_key",
    [
        b"\xff" * 1184 + ALICE.card.sealing_key[1184:],
        ALICE.card.sealing_key[:1184] + bytes(32),
        ALICE.card.sealing_key[:1184] + b"\x01" + bytes(31),
    ],
    ids=["no ML-KEM key", "an X25519 share of zero", "an X25519 share of small order"],
)
def test_a_truly_signed_key_that_nothing_can_be_sealed_for_is_refused_before_it_is_used(sealing_key: bytes) -> None:
    assert refusal_of(signed_by_alice(sealing_key)) is Code.MALFORMED


@given(st.binary(max_size=80))
def test_a_signature_holds_for_its_own_message_only(message: bytes) -> None:
    signature = ALICE.sign(message)
    assert is_signed_by(ALICE.address, signature, message)
    assert not is_signed_by(ALICE.address, signature, message + b"\x00")
    assert not is_signed_by(BOB.address, signature, message)


@given(st.binary(max_size=40), st.binary(max_size=70), st.binary(max_size=10))
def test_whatever_the_bytes_asking_for_a_signer_never_raises(signer: bytes, signature: bytes, message: bytes) -> None:
    assert is_signed_by(signer, signature, message) in (True, False)
    assert not is_signed_by(ALICE.address, signature, message)


@pytest.mark.parametrize("signer", points_of_small_order(), ids=bytes.hex)
def test_a_key_of_small_order_signs_nothing(signer: bytes) -> None:
    # R = r·B and S = r satisfy S·B = R + h·A whenever h·A vanishes: for one message in eight or more.
    r = bytes([7]) + bytes(31)
    for share in (b"\x01" + bytes(31) + bytes(32), bindings.crypto_scalarmult_ed25519_base_noclamp(r) + r):
        assert not any(is_signed_by(signer, share, bytes([message])) for message in range(64))


def test_without_the_check_such_a_key_would_sign_anything() -> None:
    neutral = Ed25519PublicKey.from_public_bytes(b"\x01" + bytes(31))
    neutral.verify(b"\x01" + bytes(63), b"whatever")


def test_printing_an_identity_shows_nothing_of_it() -> None:
    shown = f"{ALICE!r} {ALICE} {[ALICE]}"
    assert shown == "Identity(…) Identity(…) [Identity(…)]"

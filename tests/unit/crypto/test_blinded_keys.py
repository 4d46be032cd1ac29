"""crypto/blinded_keys and crypto/record_seal: keys that only their owner and its correspondents can link."""

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from restante.crypto.blinded_keys import BlindedSigner, at_relay, blind_address, in_period
from restante.crypto.identity import Identity, is_signed_by
from restante.crypto.record_seal import seal_record, unseal_record
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RemoteProtocolError
from restante.model.ids import Address, NodeKey
from support.crypto.mixed_order import mixed_order_key
from support.crypto.small_order_points import points_of_small_order
from support.spec.clauses import clause
from support.wire.codec_properties import flipped

OWNER = Identity(bytes(range(32)))
OTHER = Identity(bytes(range(1, 33)))
SECRET = b"\xac" * 32
places = st.one_of(st.integers(0, 2**64 - 1).map(in_period), st.binary(min_size=32, max_size=32).map(NodeKey))


@clause("7.2")
@given(
    place=places,
    secret=st.sampled_from([b"", SECRET]),
    message=st.binary(),
    entropy=st.binary(min_size=32, max_size=32),
)
@settings(max_examples=50)
def test_any_ed25519_library_verifies_what_the_owner_signs(
    place: bytes, secret: bytes, message: bytes, entropy: bytes
) -> None:
    signer = BlindedSigner(OWNER, place=place, access_secret=secret)
    assert signer.public_key == blind_address(OWNER.address, place=place, access_secret=secret)
    signature = signer.sign(message, entropy=entropy)
    Ed25519PublicKey.from_public_bytes(signer.public_key).verify(signature, message)
    assert is_signed_by(signer.public_key, signature, message)
    with pytest.raises(InvalidSignature):
        Ed25519PublicKey.from_public_bytes(signer.public_key).verify(signature, message + b"!")


@clause("7.2")
def test_an_inbox_has_another_key_in_every_bucket_at_every_relay_and_for_every_secret() -> None:
    places = [in_period(0), in_period(1), at_relay(NodeKey(b"n" * 32)), at_relay(NodeKey(b"o" * 32))]
    keys = {
        bytes(blind_address(owner.address, place=place, access_secret=secret))
        for owner in (OWNER, OTHER)
        for place in places
        for secret in (b"", SECRET, b"\xad" * 32)
    }
    assert len(keys) == 2 * 4 * 3
    assert bytes(OWNER.address) not in keys


def test_equal_entropy_for_two_messages_reuses_no_nonce() -> None:
    signer = BlindedSigner(OWNER, place=in_period(1))
    first, second = (signer.sign(message, entropy=bytes(32)) for message in (b"one", b"two"))
    assert first[:32] != second[:32]


def test_equal_messages_with_fresh_entropy_have_different_signatures() -> None:
    signer = BlindedSigner(OWNER, place=in_period(1))
    assert signer.sign(b"one", entropy=bytes(32)) != signer.sign(b"one", entropy=b"\x01" * 32)


def test_keys_of_small_or_mixed_order_are_refused_as_addresses() -> None:
    for raw in [*points_of_small_order(), mixed_order_key(OWNER.address)]:
        with pytest.raises(Malformed, match="prime-order group"):
            blind_address(Address(raw), place=in_period(1))


@pytest.mark.parametrize(("place", "secret"), [(b"seven b", b""), (b"", b""), (in_period(1), b"short")])
def test_inputs_of_another_size_are_refused(place: bytes, secret: bytes) -> None:
    with pytest.raises(Malformed):
        blind_address(OWNER.address, place=place, access_secret=secret)


@pytest.mark.parametrize("number", [-1, 2**64])
def test_a_bucket_outside_64_bits_is_refused(number: int) -> None:
    with pytest.raises(Malformed):
        in_period(number)


def test_entropy_of_another_size_is_refused() -> None:
    with pytest.raises(Malformed, match="entropy"):
        BlindedSigner(OWNER, place=in_period(1)).sign(b"", entropy=b"")


def test_printing_a_signer_reveals_no_key() -> None:
    assert repr(BlindedSigner(OWNER, place=in_period(1))) == "BlindedSigner(…)"


@clause("7.6")
def test_only_those_who_know_the_address_read_a_record() -> None:
    blinded = blind_address(OWNER.address, place=in_period(655))
    sealed = seal_record(b"the bundle", owner=OWNER.address, blinded=blinded, nonce=bytes(12))
    assert unseal_record(sealed, owner=OWNER.address, blinded=blinded) == b"the bundle"
    for address, key in ((OTHER.address, blinded), (OWNER.address, blind_address(OWNER.address, place=in_period(656)))):
        with pytest.raises(RemoteProtocolError) as refused:
            unseal_record(sealed, owner=address, blinded=key)
        assert refused.value.code is Code.AUTHENTICATION_FAILED


def test_a_damaged_or_short_record_is_refused() -> None:
    blinded = blind_address(OWNER.address, place=in_period(655))
    sealed = seal_record(b"x", owner=OWNER.address, blinded=blinded, nonce=bytes(12))
    for bit in range(len(sealed) * 8):
        with pytest.raises(RemoteProtocolError):
            unseal_record(flipped(sealed, bit), owner=OWNER.address, blinded=blinded)
    with pytest.raises(Malformed):
        unseal_record(sealed[:27], owner=OWNER.address, blinded=blinded)

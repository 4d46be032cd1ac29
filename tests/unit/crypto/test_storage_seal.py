"""crypto/storage_seal: what is kept on disk opens with its key, in its place, unchanged."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from restante.crypto.storage_seal import NONCE_BYTES, StorageSeal
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError
from support.wire.codec_properties import flipped

SEAL = StorageSeal(b"k" * 32)
NONCE = bytes(range(12))
SEALED = SEAL.seal(b"dear diary", nonce=NONCE, context=b"row 1")
keys = st.binary(min_size=32, max_size=32)
nonces = st.binary(min_size=12, max_size=12)


def outcome(sealed: bytes, *, seal: StorageSeal = SEAL, context: bytes = b"row 1") -> bytes | Code:
    """What came out, or the code of the refusal; any other exception fails the test."""
    try:
        return seal.unseal(sealed, context=context)
    except RestanteError as refused:
        return refused.code


@given(keys, nonces, st.binary(max_size=300), st.binary(max_size=40))
def test_what_was_closed_opens_again(key: bytes, nonce: bytes, plaintext: bytes, context: bytes) -> None:
    sealed = StorageSeal(key).seal(plaintext, nonce=nonce, context=context)
    assert StorageSeal(key).unseal(sealed, context=context) == plaintext
    assert len(sealed) == len(plaintext) + 1 + NONCE_BYTES + 16


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_a_value_moved_to_another_place_does_not_open(context: bytes, other: bytes) -> None:
    assume(context != other)
    sealed = SEAL.seal(b"dear diary", nonce=NONCE, context=context)
    assert outcome(sealed, context=other) is Code.AUTHENTICATION_FAILED


@given(keys)
def test_another_key_does_not_open_it(key: bytes) -> None:
    assume(key != b"k" * 32)
    assert outcome(SEALED, seal=StorageSeal(key)) is Code.AUTHENTICATION_FAILED


def test_every_single_bit_flip_is_refused() -> None:
    assert {outcome(flipped(SEALED, bit)) for bit in range(8)} == {Code.MALFORMED}, "the version"
    rest = {outcome(flipped(SEALED, bit)) for bit in range(8, len(SEALED) * 8)}
    assert rest == {Code.AUTHENTICATION_FAILED}


def test_every_truncation_and_every_longer_form_is_refused() -> None:
    refused = {Code.MALFORMED, Code.AUTHENTICATION_FAILED}
    assert {outcome(SEALED[:size]) for size in range(len(SEALED))} == refused
    assert {outcome(SEALED + bytes([last])) for last in range(256)} == {Code.AUTHENTICATION_FAILED}


@given(st.binary(max_size=80) | st.binary(max_size=80).map(lambda raw: b"\x01" + raw))
def test_arbitrary_bytes_are_refused_and_raise_nothing_else(raw: bytes) -> None:
    assert outcome(raw) in (Code.MALFORMED, Code.AUTHENTICATION_FAILED)


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_key_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(Malformed, match=f"storage key must have 32 bytes, not {size}"):
        StorageSeal(bytes(size))


@pytest.mark.parametrize("size", [0, 11, 13])
def test_a_nonce_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(Malformed, match=f"nonce must have 12 bytes, not {size}"):
        SEAL.seal(b"x", nonce=bytes(size), context=b"")


def test_printing_a_seal_shows_nothing_of_its_key() -> None:
    shown = f"{SEAL!r} {SEAL}"
    assert "kkkk" not in shown
    assert b"k".hex() * 4 not in shown

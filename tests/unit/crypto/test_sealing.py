"""crypto/sealing: only the recipient opens it, and only unchanged."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from restante.crypto.identity import Identity
from restante.crypto.sealing import SEALING_OVERHEAD_BYTES, seal, unseal
from restante.model.error_codes import Code
from restante.model.errors import RemoteProtocolError
from restante.policy.padding import MAX_PLAINTEXT_BYTES, pad
from support.spec.clauses import clause
from support.wire.codec_properties import flipped

ALICE = Identity(b"a" * 32)
BOB = Identity(b"b" * 32)
SEALED = seal(b"x" * 512, BOB.card)


def outcome(sealed: bytes, reader: Identity = BOB) -> bytes | Code:
    """What came out, or the code of the refusal; any other exception fails the test."""
    try:
        return unseal(sealed, reader)
    except RemoteProtocolError as refused:
        return refused.code


@given(st.binary(max_size=2_000))
@example(b"")
def test_what_was_sealed_comes_out_for_its_recipient_alone(plaintext: bytes) -> None:
    sealed = seal(plaintext, BOB.card)
    assert outcome(sealed) == plaintext
    assert outcome(sealed, ALICE) is Code.AUTHENTICATION_FAILED


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=64))
def test_any_seed_makes_a_recipient_that_can_read(seed: bytes, plaintext: bytes) -> None:
    reader = Identity(seed)
    assert unseal(seal(plaintext, reader.card), reader) == plaintext


def test_the_same_plaintext_never_looks_the_same() -> None:
    assert len({seal(b"again", BOB.card) for _ in range(20)}) == 20


@clause("2.8", "2.9")
@pytest.mark.parametrize("size", [0, 1, 512, 8_192, 253_952])
def test_sealing_adds_1136_bytes_and_nothing_else(size: int) -> None:
    assert len(seal(bytes(size), BOB.card)) == size + 1_136
    assert SEALING_OVERHEAD_BYTES == 1_136


@clause("2.8", "2.9")
def test_the_largest_padded_plaintext_still_fits_256_kib_once_sealed() -> None:
    largest = pad(bytes(MAX_PLAINTEXT_BYTES))
    sealed = seal(largest, BOB.card)
    assert len(sealed) <= 262_144
    assert len(sealed) + 8_192 > 262_144, "one more step of padding would not fit: nothing is given away"
    assert unseal(sealed, BOB) == largest


def test_every_sampled_bit_flip_is_refused() -> None:
    # Each seventh bit of the key exchange, and each bit of what follows it: the ends of the parts are always in.
    bits = {*range(0, 1_120 * 8, 7), *range(1_086 * 8, 1_090 * 8), *range(1_118 * 8, len(SEALED) * 8)}
    assert {outcome(flipped(SEALED, bit)) for bit in bits} == {Code.AUTHENTICATION_FAILED}


def test_every_truncation_and_every_longer_form_is_refused() -> None:
    assert {outcome(SEALED[:size]) for size in range(len(SEALED))} == {Code.AUTHENTICATION_FAILED}
    assert {outcome(SEALED + bytes([last])) for last in range(256)} == {Code.AUTHENTICATION_FAILED}


@given(st.binary(max_size=1_400))
@example(bytes(1_136))
@example(b"\xff" * 1_400)
def test_arbitrary_bytes_are_refused_and_raise_nothing_else(raw: bytes) -> None:
    assert outcome(raw) is Code.AUTHENTICATION_FAILED


@pytest.mark.parametrize("share", [bytes(32), b"\x01" + bytes(31), b"\xff" * 32], ids=["zero", "one", "all ones"])
@pytest.mark.parametrize("at", [0, 1_088])
def test_a_key_share_of_small_order_is_refused_like_any_damage(share: bytes, at: int) -> None:
    assert outcome(SEALED[:at] + share + SEALED[at + 32 :]) is Code.AUTHENTICATION_FAILED


def test_sealed_for_the_right_key_under_another_address_does_not_open() -> None:
    assert outcome(seal(b"x", replace(BOB.card, address=ALICE.address))) is Code.AUTHENTICATION_FAILED

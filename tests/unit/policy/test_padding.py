"""policy/padding: the few sizes a plaintext may take."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from restante.model.error_codes import Code
from restante.model.errors import Malformed, TooLarge
from restante.model.limits import MAX_SEALED_BYTES
from restante.policy.padding import (
    MAX_PADDED_BYTES,
    MAX_PLAINTEXT_BYTES,
    pad,
    padded_size_bytes,
    unpad,
)
from support.spec.clauses import clause


@clause("2.8", "2.9")
def test_the_limits_leave_room_for_sealing_inside_256_kib() -> None:
    assert (MAX_SEALED_BYTES, MAX_PADDED_BYTES, MAX_PLAINTEXT_BYTES) == (262_144, 253_952, 253_951)


@clause("2.9")
@pytest.mark.parametrize(
    ("plaintext_bytes", "padded_bytes"),
    [
        (0, 4_096),
        (4_095, 4_096),
        (4_096, 8_192),
        (8_191, 8_192),
        (8_192, 16_384),
        (16_383, 16_384),
        (16_384, 24_576),
        (253_951, 253_952),
    ],
)
def test_plaintext_is_padded_to_the_next_size(plaintext_bytes: int, padded_bytes: int) -> None:
    assert len(pad(b"x" * plaintext_bytes)) == padded_bytes
    assert padded_size_bytes(plaintext_bytes) == padded_bytes


@clause("2.9")
def test_padding_is_a_marker_byte_and_zeros() -> None:
    assert pad(b"hello") == b"hello\x80" + bytes(4_090)


@clause("2.8")
def test_one_byte_more_than_fits_is_refused_as_too_large() -> None:
    with pytest.raises(TooLarge, match="253952 bytes; at most 253951") as caught:
        pad(bytes(253_952))
    assert caught.value.code is Code.MESSAGE_TOO_LARGE


@clause("2.9")
@given(plaintext=st.binary(max_size=20_000))
@example(b"\x80")
@example(b"\x80\x00\x00")
@example(bytes(4_095))
@example(bytes(253_951))
def test_unpadding_gives_back_what_was_padded(plaintext: bytes) -> None:
    padded = pad(plaintext)
    assert unpad(padded) == plaintext
    assert len(padded) == 4_096 or len(padded) % 8_192 == 0
    assert len(plaintext) < len(padded) <= 253_952


@clause("2.9")
@pytest.mark.parametrize("size", [0, 1, 512, 2_048, 4_095, 4_097, 8_191, 12_288, 253_951, 253_953, 262_144])
def test_bytes_of_no_padded_size_are_refused(size: int) -> None:
    with pytest.raises(Malformed):
        unpad((b"\x80".rjust(size, b"x"))[:size])


@clause("2.9")
@pytest.mark.parametrize("padded", [bytes(4_096), b"x" * 4_096, b"x" * 4_095 + b"\x01"])
def test_padding_without_its_marker_is_refused(padded: bytes) -> None:
    with pytest.raises(Malformed, match="no marker"):
        unpad(padded)


@clause("2.9")
def test_padding_to_a_larger_size_than_needed_is_refused() -> None:
    with pytest.raises(Malformed, match="8192 bytes are not the padded size of 5"):
        unpad(b"hello\x80".ljust(8_192, b"\x00"))


@clause("2.9")
@given(
    st.binary(max_size=600)
    | st.builds(lambda body, size: body.ljust(size, b"\x00"), st.binary(max_size=600), st.sampled_from([4_096, 8_192]))
)
def test_any_bytes_are_refused_or_are_the_one_padding_of_their_plaintext(raw: bytes) -> None:
    try:
        plaintext = unpad(raw)
    except Malformed:
        return
    assert pad(plaintext) == raw

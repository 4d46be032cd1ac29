"""wire/ttl_header: the 13 bytes in front of every plaintext."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.errors import Malformed
from restante.model.kinds import TtlType
from restante.wire.ttl_header import TtlHeader, decode_ttl_header, encode_ttl_header, split
from support.spec.clauses import clause
from support.wire.codec_properties import (
    assert_refuses_every_truncation,
    assert_refuses_one_more_byte,
    assert_sees_every_bit,
    decoded,
)

EXAMPLE = bytes.fromhex("0000018bcfe56800 00278d00 00")

headers = st.builds(
    TtlHeader,
    created_at_ms=st.integers(0, 253_402_300_799_999),
    ttl_s=st.integers(0, 2**32 - 1),
    ttl_type=st.sampled_from(TtlType),
)


@clause("2.7")
@given(headers)
def test_a_header_has_13_bytes_and_survives_the_round_trip(header: TtlHeader) -> None:
    raw = encode_ttl_header(header)
    assert len(raw) == 13
    assert decode_ttl_header(raw) == header


@clause("2.7")
@given(headers, st.binary(max_size=40))
def test_a_plaintext_is_its_header_and_the_rest(header: TtlHeader, rest: bytes) -> None:
    assert split(encode_ttl_header(header) + rest) == (header, rest)


def test_damage_is_seen() -> None:
    assert_refuses_every_truncation(decode_ttl_header, EXAMPLE)
    assert_refuses_every_truncation(split, EXAMPLE)
    assert_refuses_one_more_byte(decode_ttl_header, EXAMPLE)
    assert_sees_every_bit(decode_ttl_header, EXAMPLE)
    assert_sees_every_bit(split, EXAMPLE + b"rest")


@given(st.one_of(st.binary(max_size=30), st.binary(min_size=13, max_size=13)))
def test_arbitrary_bytes_are_refused_or_encode_to_themselves(raw: bytes) -> None:
    header = decoded(decode_ttl_header, raw)
    assert header is None or encode_ttl_header(header) == raw
    decoded(split, raw)


@pytest.mark.parametrize("number", [2, 3, 255])
def test_an_unknown_ttl_type_is_refused(number: int) -> None:
    with pytest.raises(Malformed, match=r"ttl_type must be 0 \(absolute\) or 1 \(relative\), not"):
        decode_ttl_header(EXAMPLE[:-1] + bytes([number]))


def test_a_creation_time_without_a_date_is_refused() -> None:
    with pytest.raises(Malformed, match="created_at must be in"):
        decode_ttl_header(b"\xff" * 8 + EXAMPLE[8:])


@pytest.mark.parametrize("ttl_s", [-1, 2**32])
def test_a_ttl_that_does_not_fit_cannot_be_written(ttl_s: int) -> None:
    with pytest.raises(Malformed, match="ttl_seconds must be in"):
        encode_ttl_header(TtlHeader(created_at_ms=0, ttl_s=ttl_s, ttl_type=TtlType.ABSOLUTE))

"""wire/message_content: the innermost bytes of a message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.errors import Malformed, TooLarge
from restante.model.kinds import Kind, TtlType
from restante.wire.message_content import Content, decode_content, encode_content
from restante.wire.ttl_header import TtlHeader
from support.spec.clauses import clause
from support.wire.codec_properties import assert_sees_every_bit, decoded

HEADER = TtlHeader(created_at_ms=1_700_000_000_000, ttl_s=3_600, ttl_type=TtlType.ABSOLUTE)
contents = st.builds(
    Content,
    header=st.just(HEADER),
    sequence=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(Kind),
    body=st.binary(max_size=100),
)


@clause("2.7", "8.4")
@given(contents)
def test_content_comes_back_as_it_was_and_starts_with_the_ttl_header(content: Content) -> None:
    raw = encode_content(content)
    assert decode_content(raw) == content
    assert raw[:13].hex() == "0000018bcfe5680000000e1000"
    assert int.from_bytes(raw[13:17], "big") == content.sequence


def test_content_has_one_encoding() -> None:
    raw = encode_content(Content(header=HEADER, sequence=7, kind=Kind.TEXT, body=b"hello"))
    assert raw[13:] == b"\x00\x00\x00\x07\x04texthello"
    assert_sees_every_bit(decode_content, raw)
    assert all(decoded(decode_content, raw[:size]) is None for size in range(len(raw) - len(b"hello")))


@pytest.mark.parametrize("sequence", [-1, 2**32])
def test_a_sequence_is_a_u32(sequence: int) -> None:
    with pytest.raises(Malformed, match="sequence must be in 0"):
        encode_content(Content(header=HEADER, sequence=sequence, kind=Kind.TEXT, body=b""))


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_refused_or_read_and_raise_nothing_else(raw: bytes) -> None:
    decoded(decode_content, raw)


def test_content_that_is_too_large_is_refused_on_both_sides() -> None:
    with pytest.raises(TooLarge):
        encode_content(Content(header=HEADER, sequence=0, kind=Kind.TEXT, body=bytes(262_144)))
    with pytest.raises(TooLarge):
        decode_content(bytes(262_145))

"""A chunk's bytes: they come back as they went in, and nothing else is taken for a chunk."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.errors import Malformed, TooLarge
from restante.model.limits import MAX_SEALED_BYTES
from restante.wire.channel_chunk import ChannelChunk, GroupId, Strategy, decode_chunk, encode_chunk
from support.wire.codec_properties import (
    assert_refuses_every_truncation,
    assert_refuses_one_more_byte,
    assert_sees_every_bit,
    decoded,
)

SMALL = ChannelChunk(
    group=GroupId(bytes(range(16))),
    index=2,
    count=5,
    strategy=Strategy.BEST_EFFORT,
    channel="ops",
    chat="-100",
    format="plain",
    text="hé",
    plain="h",
    reply_to="7",
)
ENCODED = bytes.fromhex(
    "0101000102030405060708090a0b0c0d0e0f00020005"
    "000000036f7073000000042d31303000000005706c61696e"
    "000000000000000137000000000000000368c3a90000000168"
)  # fmt: skip

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
chunks = st.builds(
    ChannelChunk,
    group=st.binary(min_size=16, max_size=16).map(GroupId),
    index=st.integers(0, 9),
    count=st.integers(10, 65_535),
    strategy=st.sampled_from(Strategy),
    channel=words,
    chat=words,
    format=words,
    text=words,
    plain=words,
    title=st.none() | words,
    reply_to=st.none() | words,
    thread=st.none() | words,
)


def test_the_bytes_are_those_written_down_by_hand() -> None:
    assert encode_chunk(SMALL) == ENCODED
    assert decode_chunk(ENCODED) == SMALL


@given(chunk=chunks)
def test_a_chunk_comes_back_as_it_went_in(chunk: ChannelChunk) -> None:
    assert decode_chunk(encode_chunk(chunk)) == chunk


@given(raw=st.binary(max_size=200))
def test_whatever_is_decoded_has_this_one_encoding(raw: bytes) -> None:
    chunk = decoded(decode_chunk, raw)
    assert chunk is None or encode_chunk(chunk) == raw


def test_damaged_bytes_are_refused_or_seen() -> None:
    assert_refuses_every_truncation(decode_chunk, ENCODED)
    assert_refuses_one_more_byte(decode_chunk, ENCODED)
    assert_sees_every_bit(decode_chunk, ENCODED)


@pytest.mark.parametrize(
    "wrong",
    [
        {"index": 5},
        {"count": 0},
        {"count": 65_536},
        {"channel": ""},
        {"chat": ""},
        {"chat": "x" * 1_025},
        {"title": ""},
        {"text": ""},
        {"plain": ""},
        {"group": b"short"},
    ],
)
def test_a_chunk_that_makes_no_sense_cannot_be_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        dataclasses.replace(SMALL, **wrong)


def test_a_chunk_larger_than_an_entry_is_refused_both_ways() -> None:
    with pytest.raises(TooLarge):
        encode_chunk(dataclasses.replace(SMALL, text="x" * MAX_SEALED_BYTES))
    with pytest.raises(TooLarge):
        decode_chunk(bytes(MAX_SEALED_BYTES + 1))


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(Malformed):
        encode_chunk(dataclasses.replace(SMALL, text="\ud800"))

"""wire/envelope_parser: the quick look at an envelope sees what the codec sees, for every input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.errors import RestanteError
from restante.model.ids import InboxKey
from restante.wire.envelope import Envelope, decode_envelope, encode_envelope
from restante.wire.envelope_parser import parse_envelope
from support.wire.codec_properties import flipped

HOUR_MS = 3_600_000
ORDINARY = Envelope(inbox_key=InboxKey(b"k" * 32), expires_at_ms=500_000 * HOUR_MS, sealed=b"s" * 300)

envelopes = st.builds(
    Envelope,
    inbox_key=st.binary(min_size=32, max_size=32).map(InboxKey),
    expires_at_ms=st.integers(1, 70_000_000).map(lambda hours: hours * HOUR_MS),
    sealed=st.one_of(
        st.binary(min_size=1, max_size=300), st.sampled_from([127, 128, 16_383, 16_384, 262_144]).map(bytes)
    ),
)


def by_codec(raw: bytes) -> tuple[object, ...]:
    try:
        envelope = decode_envelope(raw)
    except RestanteError as error:
        return type(error), str(error)
    return envelope.inbox_key, envelope.expires_at_ms, envelope.sealed


def by_view(raw: bytes) -> tuple[object, ...]:
    try:
        return tuple(parse_envelope(raw))
    except RestanteError as error:
        return type(error), str(error)


@given(envelopes)
def test_every_envelope_is_seen_as_it_is(envelope: Envelope) -> None:
    raw = encode_envelope(envelope)
    assert by_view(raw) == by_codec(raw) == (envelope.inbox_key, envelope.expires_at_ms, envelope.sealed)


@pytest.mark.parametrize("sealed_bytes", [1, 127, 128, 300, 16_384])
def test_every_flipped_bit_and_every_cut_is_judged_as_the_codec_judges_it(sealed_bytes: int) -> None:
    raw = encode_envelope(
        Envelope(inbox_key=InboxKey(b"k" * 32), expires_at_ms=500_000 * HOUR_MS, sealed=bytes(sealed_bytes))
    )
    for bit in range(min(52, len(raw)) * 8):
        assert by_view(flipped(raw, bit)) == by_codec(flipped(raw, bit)), bit
    for size in (*range(min(52, len(raw))), len(raw) - 1):
        assert by_view(raw[:size]) == by_codec(raw[:size]), size
    assert by_view(raw + b"\0") == by_codec(raw + b"\0")


@pytest.mark.parametrize(
    "length",
    [b"\xac\x02", b"\xac\x82\x00", b"\xac\x82\x80\x00", b"\xac\x00", b"\x80\x00", b"\x00", b"\xff\xff\x7f"],
)
def test_a_length_written_in_another_way_is_judged_as_the_codec_judges_it(length: bytes) -> None:
    raw = encode_envelope(ORDINARY)
    start = raw.index(b"\x22\xac\x02") + 1
    other = raw[:start] + length + raw[start + 2 :]
    assert by_view(other) == by_codec(other)


@given(st.binary(max_size=120), st.integers(0, 60))
def test_arbitrary_bytes_behind_a_true_beginning_are_judged_as_the_codec_judges_them(rest: bytes, kept: int) -> None:
    raw = encode_envelope(ORDINARY)[:kept] + rest
    assert by_view(raw) == by_codec(raw)

"""wire/prekey_bundle and wire/session_message: one encoding each, and nothing but refusals for everything else."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.contact_card import ContactCard
from restante.model.errors import LocalProtocolError, Malformed, TooLarge
from restante.model.ids import Address, MessageId, SessionId
from restante.model.prekey_bundle import OneTimePrekey, Opening, PrekeyBundle
from restante.wire.prekey_bundle import MAX_BUNDLE_BYTES, bundle_to_sign, decode_bundle, encode_bundle
from restante.wire.session_message import (
    MAX_OPENING_BYTES,
    SessionMessage,
    decode_opening,
    decode_session_message,
    encode_opening,
    encode_session_message,
)
from support.spec.clauses import clause
from support.wire.codec_properties import (
    assert_refuses_every_truncation,
    assert_refuses_one_more_byte,
    assert_sees_every_bit,
    decoded,
    flipped,
)

CARD = ContactCard(address=Address(b"a" * 32), sealing_key=b"s" * 1216, agreement_key=b"g" * 32, signature=b"c" * 64)
BUNDLE = PrekeyBundle(
    card=CARD,
    issued_at_ms=1_800_000_000_000,
    prekey_id=7,
    prekey_created_at_ms=1_799_999_999_999,
    prekey=b"p" * 32,
    kem_prekey=b"k" * 1184,
    one_time=(OneTimePrekey(prekey_id=8, key=b"o" * 32), OneTimePrekey(prekey_id=11, key=b"n" * 32)),
    signature=b"z" * 64,
)
OPENING = Opening(card=CARD, ephemeral_key=b"e" * 32, prekey_id=7, kem_ciphertext=b"t" * 1088)
MESSAGE = SessionMessage(
    sender=CARD.address,
    session_id=SessionId(b"i" * 32),
    message_id=MessageId(bytes.fromhex("9f1c5a3e6d0b4c1e8a572f4e0c9b7d11")),
    generation=3,
    ratchet=b"r" * 74,
)
TAG = b"tag of 16 bytes."


def encoded(message: SessionMessage) -> bytes:
    return encode_session_message(message, lambda _covered: TAG)


numbers = st.integers(0, 0xFFFF_FFFF)
openings = st.builds(
    lambda prekey, one_time: replace(OPENING, prekey_id=prekey, one_time_id=one_time), numbers, st.none() | numbers
)
messages = st.builds(
    lambda opening, generation, ratchet: MESSAGE._replace(opening=opening, generation=generation, ratchet=ratchet),
    st.none() | openings,
    st.integers(1, 0xFFFF_FFFF),
    st.binary(min_size=72, max_size=200),
)


@given(st.lists(numbers, max_size=100, unique=True), numbers, st.integers(0, 253_402_300_799_999))
def test_a_bundle_comes_back_as_it_was(ids: list[int], prekey_id: int, at_ms: int) -> None:
    one_time = tuple(OneTimePrekey(prekey_id=each, key=b"o" * 32) for each in sorted(ids))
    bundle = replace(BUNDLE, prekey_id=prekey_id, issued_at_ms=at_ms, prekey_created_at_ms=at_ms, one_time=one_time)
    raw = encode_bundle(bundle)
    assert decode_bundle(raw) == bundle
    assert len(raw) == MAX_BUNDLE_BYTES - (100 - len(ids)) * 36


def test_a_bundle_has_one_encoding() -> None:
    raw = encode_bundle(BUNDLE)
    assert_refuses_every_truncation(decode_bundle, raw)
    assert_refuses_one_more_byte(decode_bundle, raw)
    assert_sees_every_bit(decode_bundle, raw)


def test_a_signature_covers_every_byte_before_it() -> None:
    assert bundle_to_sign(BUNDLE) == b"restante-bundle-v1" + encode_bundle(BUNDLE)[:-64]
    with pytest.raises(LocalProtocolError, match="must be signed"):
        encode_bundle(replace(BUNDLE, signature=b""))


@pytest.mark.parametrize(
    "bent",
    [
        replace(BUNDLE, one_time=BUNDLE.one_time[::-1]),
        replace(BUNDLE, one_time=BUNDLE.one_time[:1] * 2),
        replace(BUNDLE, one_time=tuple(OneTimePrekey(prekey_id=n, key=b"o" * 32) for n in range(101))),
        replace(BUNDLE, issued_at_ms=253_402_300_800_000),
        replace(BUNDLE, prekey_id=2**32),
        replace(BUNDLE, prekey=b"short"),
        replace(BUNDLE, kem_prekey=b"short"),
        replace(BUNDLE, card=replace(CARD, sealing_key=b"short")),
    ],
    ids=["not in order", "an id twice", "101 of them", "after 9999", "no u32", "prekey", "KEM prekey", "sealing key"],
)
def test_a_bundle_that_cannot_be_read_is_not_written(bent: PrekeyBundle) -> None:
    with pytest.raises(Malformed):
        encode_bundle(bent)


def test_one_time_prekeys_out_of_order_are_refused() -> None:
    raw = encode_bundle(BUNDLE)
    first, second = raw[-64 - 72 : -64 - 36], raw[-64 - 36 : -64]
    with pytest.raises(Malformed, match="id of a one-time prekey"):
        decode_bundle(raw[: -64 - 72] + second + first + raw[-64:])


def test_a_bundle_is_refused_for_its_size_before_it_is_looked_into() -> None:
    with pytest.raises(TooLarge, match="the prekey bundle has 6248 bytes"):
        decode_bundle(bytes(MAX_BUNDLE_BYTES + 1))


@given(messages)
def test_a_session_message_comes_back_as_it_was(message: SessionMessage) -> None:
    raw = encoded(message)
    assert decode_session_message(raw) == (message, TAG, raw[:-16])


@clause("8.11")
def test_the_tag_is_made_over_all_other_bytes_of_a_message() -> None:
    covered: list[bytes] = []

    def make_tag(part: bytes) -> bytes:
        covered.append(part)
        return TAG

    raw = encode_session_message(MESSAGE._replace(opening=OPENING), make_tag)
    assert [raw] == [part + TAG for part in covered]


@given(openings)
def test_an_opening_comes_back_as_it_was(opening: Opening) -> None:
    raw = encode_opening(opening)
    assert decode_opening(raw, sender=CARD.address) == opening
    assert len(raw) <= MAX_OPENING_BYTES
    assert decoded(lambda cut: decode_opening(cut, sender=CARD.address), raw[:-1]) is None
    assert decoded(lambda more: decode_opening(more, sender=CARD.address), raw + b"\x00") is None


@pytest.mark.parametrize(
    "opening",
    [None, OPENING, replace(OPENING, one_time_id=5)],
    ids=["following", "first", "with a one-time prekey"],
)
def test_every_bit_of_a_session_message_means_something(opening: Opening | None) -> None:
    raw = encoded(MESSAGE._replace(opening=opening, ratchet=b"r" * 72))
    assert_refuses_every_truncation(decode_session_message, raw)
    bits = [*range(90 * 8), *range(90 * 8, len(raw) * 8, 5)]
    original = decode_session_message(raw)
    assert [bit for bit in bits if decoded(decode_session_message, flipped(raw, bit)) == original] == []


@pytest.mark.parametrize("flags", [2, 4, 6, 8, 9, 255])
def test_flags_that_mean_nothing_are_refused(flags: int) -> None:
    raw = encoded(MESSAGE._replace(opening=OPENING))
    with pytest.raises(Malformed, match=f"1 or 3, not {flags}"):
        decode_session_message(raw[:85] + bytes([flags]) + raw[86:])


def test_an_opening_of_somebody_else_is_refused() -> None:
    other = replace(OPENING, card=replace(CARD, address=Address(b"b" * 32)))
    with pytest.raises(Malformed, match="sender's own"):
        encoded(MESSAGE._replace(opening=other))


@pytest.mark.parametrize(
    ("bent", "reason"),
    [
        (MESSAGE._replace(sender=Address(b"a" * 31)), "address must have 32 bytes"),
        (MESSAGE._replace(session_id=SessionId(b"i" * 33)), "session_id must have 32 bytes"),
        (MESSAGE._replace(message_id=MessageId(bytes(16))), "must be a UUIDv4"),
        (MESSAGE._replace(ratchet=b"r" * 71), "at least 72 bytes, not 71"),
        (MESSAGE._replace(generation=0), "generation"),
    ],
    ids=["sender", "session", "message id", "ratchet bytes", "generation"],
)
def test_a_message_that_nobody_could_read_is_not_written(bent: SessionMessage, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        encoded(bent)


def test_a_message_that_is_too_large_is_refused_on_both_sides() -> None:
    with pytest.raises(TooLarge):
        encoded(MESSAGE._replace(ratchet=bytes(262_144)))
    with pytest.raises(TooLarge):
        decode_session_message(bytes(262_145))


@given(st.binary(max_size=300) | st.binary(max_size=2_800).map(lambda rest: b"\x01" + rest))
def test_arbitrary_bytes_are_refused_or_read_and_raise_nothing_else(raw: bytes) -> None:
    for decode in (decode_bundle, decode_session_message):
        decoded(decode, raw)
    decoded(lambda part: decode_opening(part, sender=CARD.address), raw)

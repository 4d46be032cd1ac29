"""wire/control_messages: what clients say to each other without any application seeing it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.errors import Malformed, TooLarge
from restante.model.ids import MAX_SEQUENCE, PayloadHash, SessionId
from restante.policy.session_recovery import MAX_UNREAD
from restante.wire.control_messages import (
    MAX_CONTROL_BYTES,
    MAX_HASHES,
    AccessSecret,
    CannotReadMessage,
    KeysMessage,
    LostMessage,
    RetransmitRequest,
    decode_control,
    encode_access_secret,
    encode_cannot_read,
    encode_keys_message,
    encode_lost,
    encode_retransmit_request,
)
from support.wire.codec_properties import (
    assert_refuses_every_truncation,
    assert_refuses_one_more_byte,
    assert_sees_every_bit,
    decoded,
)

SESSION = SessionId(bytes(range(32)))
REQUEST = RetransmitRequest(session_id=SESSION, first=7, last=17)
HASH = PayloadHash(bytes(range(32)))
UNREAD = CannotReadMessage((HASH, HASH))

sessions = st.binary(min_size=32, max_size=32).map(SessionId)


@st.composite
def requests(draw: st.DrawFn) -> RetransmitRequest:
    first = draw(st.integers(0, MAX_SEQUENCE))
    last = draw(st.integers(first, min(first + 10, MAX_SEQUENCE)))
    return RetransmitRequest(session_id=draw(sessions), first=first, last=last)


@given(requests())
def test_a_request_comes_back_as_it_was(request: RetransmitRequest) -> None:
    assert decode_control(encode_retransmit_request(request)) == request


@given(st.lists(st.binary(min_size=32, max_size=32).map(PayloadHash), max_size=MAX_HASHES))
def test_a_list_of_unreadable_envelopes_comes_back_as_it_was(hashes: list[PayloadHash]) -> None:
    message = CannotReadMessage(tuple(hashes))
    assert decode_control(encode_cannot_read(message)) == message


@given(st.binary(min_size=32, max_size=32), st.integers(0, 253_402_300_799_999))
def test_an_access_secret_comes_back_as_it_was_stated(secret: bytes, stated_at_ms: int) -> None:
    stated = AccessSecret(secret=secret, stated_at_ms=stated_at_ms)
    assert decode_control(encode_access_secret(stated)) == stated
    assert secret.hex() not in repr(stated)


def test_damage_to_an_access_secret_is_seen() -> None:
    raw = encode_access_secret(AccessSecret(secret=bytes(range(32)), stated_at_ms=1_700_000_000_000))
    assert_refuses_every_truncation(decode_control, raw)
    assert_refuses_one_more_byte(decode_control, raw)
    assert_sees_every_bit(decode_control, raw)
    with pytest.raises(Malformed, match="time of an access secret"):
        decode_control(raw[:1] + b"\xff" * 8 + raw[9:])


def test_the_bytes_of_a_request_of_cannot_read_and_of_lost() -> None:
    assert encode_retransmit_request(REQUEST).hex() == "11" + bytes(range(32)).hex() + "00000007" + "00000011"
    assert encode_cannot_read(UNREAD).hex() == "1202" + bytes(range(32)).hex() * 2
    assert encode_lost().hex() == "13"
    assert decode_control(b"\x13") == LostMessage()


@pytest.mark.parametrize(
    "raw",
    [encode_retransmit_request(REQUEST), encode_cannot_read(UNREAD)],
    ids=["request", "cannot read"],
)
def test_cut_lengthened_or_flipped_bytes_are_refused_or_mean_something_else(raw: bytes) -> None:
    assert_refuses_every_truncation(decode_control, raw)
    assert_refuses_one_more_byte(decode_control, raw)
    assert_sees_every_bit(decode_control, raw)


@pytest.mark.parametrize(
    ("first", "last"),
    [(8, 7), (0, 11), (MAX_SEQUENCE, MAX_SEQUENCE + 1), (-1, 0)],
    ids=["backwards", "eleven too many", "beyond the last number", "below zero"],
)
def test_a_range_that_no_gap_asks_for_is_refused(first: int, last: int) -> None:
    with pytest.raises(Malformed):
        RetransmitRequest(session_id=SESSION, first=first, last=last)


def test_more_hashes_than_are_remembered_are_refused() -> None:
    assert MAX_HASHES == MAX_UNREAD
    with pytest.raises(Malformed, match="number of hashes"):
        CannotReadMessage((HASH,) * (MAX_HASHES + 1))
    with pytest.raises(Malformed, match="number of hashes"):
        decode_control(bytes([0x12, MAX_HASHES + 1]) + bytes(32 * (MAX_HASHES + 1)))


@pytest.mark.parametrize("first_byte", [0x00, 0x01, 0x02, 0x03, 0x04, 0x10, 0x15, 0xFF])
def test_a_type_nobody_knows_is_refused(first_byte: int) -> None:
    with pytest.raises(Malformed, match="unknown type"):
        decode_control(bytes([first_byte]) + bytes(120))


def test_what_is_longer_than_the_longest_is_refused_unread() -> None:
    with pytest.raises(TooLarge):
        decode_control(b"\x14" + bytes(MAX_CONTROL_BYTES))


@given(
    st.binary(max_size=200)
    | st.builds(bytes.__add__, st.sampled_from([b"\x11", b"\x12", b"\x14"]), st.binary(max_size=50))
)
def test_any_bytes_are_refused_or_have_one_encoding(raw: bytes) -> None:
    match decoded(decode_control, raw):
        case RetransmitRequest() as request:
            assert encode_retransmit_request(request) == raw
        case CannotReadMessage() as unread:
            assert encode_cannot_read(unread) == raw
        case KeysMessage() as keys:
            assert encode_keys_message(keys) == raw
        case LostMessage():
            assert encode_lost() == raw
        case other:
            assert other is None

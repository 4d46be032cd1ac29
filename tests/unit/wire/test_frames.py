"""wire/frames/codec and wire/frames/mailbox: what a relay link says, and the reader that takes it apart."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.error_codes import Code
from restante.model.errors import LocalProtocolError, Malformed, TooLarge
from restante.model.ids import BlindedKey, NodeKey, mint_message_id
from restante.wire.acks import Ack, AckType
from restante.wire.frames.codec import (
    Blob,
    Credit,
    Delete,
    Deleted,
    Frame,
    FrameType,
    Hello,
    Ping,
    Pong,
    Put,
    Refused,
    Start,
    Stored,
    Subscribe,
    Subscribed,
    Unknown,
    encode_blobs,
    encode_frame,
    open_to_sign,
)
from restante.wire.merkle import MerklePath, MerkleTree
from support.wire.codec_properties import flipped
from support.wire.frame_reader import FrameReader

HASH = bytes(range(32))
DELIVERY = Ack(
    type=AckType.DELIVERY, reference=HASH[:16], subject=HASH, timestamp_ms=1_700_000_000_500, signature=b"s" * 64
)
MIDDLE = MerklePath(first=1, leaves=4, siblings=(b"l" * 32, b"r" * 32), length=2)
HELLO = Hello(
    lowest_version=1,
    highest_version=2,
    capabilities=1,
    challenge=b"c" * 32,
    node_key=NodeKey(b"n" * 32),
    now_ms=1_700_000_000_000,
)
EXAMPLES: dict[FrameType, Frame] = {
    FrameType.HELLO: HELLO,
    FrameType.SUBSCRIBE: Subscribe(blinded_key=BlindedKey(b"a" * 32), signature=b"s" * 64),
    FrameType.SUBSCRIBED: Subscribed(),
    FrameType.START: Start(version=1, capabilities=1),
    FrameType.PUT: Put(envelope=b"an envelope"),
    FrameType.STORED: Stored(ack=DELIVERY, requests=(5, 6), path=MIDDLE),
    FrameType.REFUSED: Refused(permanent=True, code="E006", retry_after_ms=0, text="too large"),
    FrameType.BLOB: Blob(blob_id=42, stored_at_ms=1_700_000_000_500, envelope=b"an envelope"),
    FrameType.DELETE: Delete(blob_ids=(42, 43)),
    FrameType.DELETED: Deleted(),
    FrameType.CREDIT: Credit(through=42),
    FrameType.PING: Ping(),
    FrameType.PONG: Pong(),
}
OPEN_ENDED = {FrameType.PUT, FrameType.REFUSED, FrameType.BLOB}
LISTS = {FrameType.DELETE}
FIXED = sorted(set(EXAMPLES) - OPEN_ENDED - LISTS - {FrameType.STORED})

ids = st.binary(min_size=32, max_size=32)
signatures = st.binary(min_size=64, max_size=64)
times = st.integers(0, 253_402_300_799_999)
blob_ids = st.integers(0, 2**63 - 1)
printable = st.text(max_size=60).filter(lambda text: text.isprintable() and len(text.encode()) <= 200)
stored = st.builds(
    lambda leaves, first, requests, at_ms, signature: Stored(
        ack=replace(DELIVERY, timestamp_ms=at_ms, signature=signature),
        requests=tuple(requests[: len(leaves) - first % len(leaves)]),
        path=MerkleTree(leaves).path(first % len(leaves), len(requests[: len(leaves) - first % len(leaves)])),
    ),
    st.lists(ids, min_size=1, max_size=9),
    st.integers(0, 8),
    st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5),
    times,
    signatures,
)
frames: st.SearchStrategy[Frame] = st.one_of(
    st.builds(
        Hello,
        lowest_version=st.just(1),
        highest_version=st.integers(1, 255),
        capabilities=st.integers(0, 2**32 - 1),
        challenge=ids,
        node_key=ids.map(NodeKey),
        now_ms=st.integers(0, 253_402_300_799_999),
    ),
    st.builds(Start, version=st.integers(0, 255), capabilities=st.integers(0, 2**32 - 1)),
    st.builds(Credit, through=blob_ids),
    st.builds(Subscribe, blinded_key=ids.map(BlindedKey), signature=signatures),
    st.builds(Put, envelope=st.binary(max_size=100)),
    stored,
    st.builds(
        Refused,
        permanent=st.booleans(),
        code=st.sampled_from(Code).map(str),
        retry_after_ms=st.integers(0, 2**32 - 1),
        text=printable,
    ),
    st.builds(Blob, blob_id=blob_ids, stored_at_ms=times, envelope=st.binary(min_size=1, max_size=100)),
    st.builds(Delete, blob_ids=st.lists(blob_ids, min_size=1, max_size=5).map(tuple)),
    st.sampled_from([Subscribed(), Deleted(), Ping(), Pong()]),
)
requests = st.integers(0, 2**32 - 1)
talks = st.lists(st.tuples(requests, frames), max_size=8)


def raw_frame(number: int, body: bytes, *, request: int = 7) -> bytes:
    return (5 + len(body)).to_bytes(4, "big") + bytes([number]) + request.to_bytes(4, "big") + body


@given(requests, frames)
def test_a_frame_survives_the_round_trip(request_number: int, frame: Frame) -> None:
    reader = FrameReader()
    assert reader.feed(encode_frame(frame, request_number)) == [(request_number, frame)]
    assert reader.partial_bytes == 0


@given(talks, st.data())
def test_frames_are_the_same_however_the_stream_is_cut(talk: list[tuple[int, Frame]], data: st.DataObject) -> None:
    stream = b"".join(encode_frame(frame, request_number) for request_number, frame in talk)
    cuts = data.draw(st.lists(st.integers(0, len(stream))).map(sorted))
    reader = FrameReader()
    heard = [said for start, end in pairwise([0, *cuts, len(stream)]) for said in reader.feed(stream[start:end])]
    assert heard == talk
    assert reader.partial_bytes == 0


@given(talks)
def test_frames_are_the_same_byte_by_byte(talk: list[tuple[int, Frame]]) -> None:
    stream = b"".join(encode_frame(frame, request_number) for request_number, frame in talk)
    reader = FrameReader()
    assert [said for byte in stream for said in reader.feed(bytes([byte]))] == talk


@pytest.mark.parametrize("frame_type", FrameType)
def test_a_cut_frame_is_never_given(frame_type: FrameType) -> None:
    raw = encode_frame(EXAMPLES[frame_type], 7)
    for size in range(len(raw)):
        reader = FrameReader()
        assert reader.feed(raw[:size]) == []
        assert reader.partial_bytes == size


@pytest.mark.parametrize("frame_type", FrameType)
def test_every_flipped_bit_of_a_frame_is_seen(frame_type: FrameType) -> None:
    raw = encode_frame(EXAMPLES[frame_type], 7)
    unseen = []
    for bit in range(len(raw) * 8):
        reader = FrameReader()
        try:
            heard = reader.feed(flipped(raw, bit))
        except (Malformed, TooLarge):
            continue
        if heard == [(7, EXAMPLES[frame_type])]:
            unseen.append(bit)
    assert unseen == []


@pytest.mark.parametrize("frame_type", FIXED)
def test_a_body_of_another_size_is_refused(frame_type: FrameType) -> None:
    body = EXAMPLES[frame_type].body()
    for resized in (*(body[:size] for size in range(len(body))), body + b"\0"):
        with pytest.raises(Malformed, match=f"the body of {frame_type.name} must have {len(body)}"):
            FrameReader().feed(raw_frame(frame_type, resized))


@pytest.mark.parametrize("frame_type", sorted(OPEN_ENDED))
def test_one_more_byte_in_an_open_body_means_something_else(frame_type: FrameType) -> None:
    longer = raw_frame(frame_type, EXAMPLES[frame_type].body() + b"x")
    ((_, frame),) = FrameReader().feed(longer)
    assert type(frame) is type(EXAMPLES[frame_type])
    assert frame != EXAMPLES[frame_type]


whole_frames = st.builds(encode_frame, frames, requests)


@given(st.lists(st.one_of(st.binary(max_size=40), whole_frames)))
def test_arbitrary_bytes_raise_nothing_but_our_own_errors(pieces: list[bytes]) -> None:
    reader = FrameReader()
    for piece in pieces:
        try:
            reader.feed(piece)
        except (Malformed, TooLarge):
            assert reader.partial_bytes == 0
            return
        assert reader.partial_bytes < 4 + 524_293


@given(st.sampled_from(FrameType), st.binary(max_size=130))
def test_arbitrary_bodies_raise_nothing_but_our_own_errors(frame_type: FrameType, body: bytes) -> None:
    try:
        ((_, frame),) = FrameReader().feed(raw_frame(frame_type, body))
    except Malformed:
        return
    assert not isinstance(frame, Unknown)
    assert encode_frame(frame, 7) == raw_frame(frame_type, body)


@pytest.mark.parametrize("number", [0x00, 0x05, 0x13, 0xFF])
def test_a_frame_of_an_unknown_type_is_given_as_such_and_the_stream_goes_on(number: int) -> None:
    reader = FrameReader()
    heard = reader.feed(raw_frame(number, b"some body") + encode_frame(Ping(), 8))
    assert heard == [(7, Unknown(number=number)), (8, Ping())]


@pytest.mark.parametrize("frame_type", sorted(LISTS))
def test_a_list_cut_inside_an_item_is_refused(frame_type: FrameType) -> None:
    body = EXAMPLES[frame_type].body()
    for resized in (body[:-1], body + b"\0", b""):
        with pytest.raises(Malformed, match=f"the body of {frame_type.name} must have"):
            FrameReader().feed(raw_frame(frame_type, resized))


def test_many_blobs_at_once_are_the_same_bytes_as_one_by_one() -> None:
    blobs = [(1, 5, b"one"), (2**63 - 1, 6, b"two")]
    one_by_one = [Blob(blob_id=number, stored_at_ms=at_ms, envelope=raw) for number, at_ms, raw in blobs]
    assert encode_blobs(blobs) == b"".join(encode_frame(blob, 0) for blob in one_by_one)


def test_a_body_too_long_for_its_type_is_refused_before_it_comes() -> None:
    with pytest.raises(Malformed, match=r"the body of PING must have 0\.\.0 bytes"):
        FrameReader().feed(raw_frame(FrameType.PING, bytes(100_000))[:9])


@pytest.mark.parametrize("length", [524_294, 2**31, 2**32 - 1])
def test_a_length_beyond_the_bound_is_refused_from_its_four_bytes(length: int) -> None:
    reader = FrameReader()
    with pytest.raises(TooLarge, match=f"a frame has {length} bytes; at most 524293"):
        reader.feed(length.to_bytes(4, "big"))
    assert reader.partial_bytes == 0


@pytest.mark.parametrize("length", range(5))
def test_a_length_too_short_for_type_and_request_is_refused(length: int) -> None:
    with pytest.raises(Malformed, match=f"the length of a frame must be at least 5, not {length}"):
        FrameReader().feed(length.to_bytes(4, "big"))


def test_a_broken_stream_stays_broken() -> None:
    reader = FrameReader()
    with pytest.raises(Malformed) as first:
        reader.feed(raw_frame(FrameType.PING, b"!"))
    for later in (encode_frame(Ping(), 7), b""):
        with pytest.raises(Malformed) as again:
            reader.feed(later)
        assert again.value is first.value


def test_at_most_one_partial_frame_is_kept() -> None:
    reader = FrameReader()
    put = encode_frame(Put(envelope=bytes(1000)), 1)
    assert len(reader.feed(put * 50 + put[:500])) == 50
    assert reader.partial_bytes == 500


def test_an_oversized_put_reaches_the_node_so_that_it_can_refuse_by_code() -> None:
    largest = Put(envelope=bytes(524_288))
    assert FrameReader().feed(encode_frame(largest, 1)) == [(1, largest)]
    with pytest.raises(TooLarge, match="at most 524288 are allowed"):
        Put(envelope=bytes(524_289))


def test_proof_of_possession_is_bound_to_connection_node_and_inbox() -> None:
    signed = open_to_sign(HELLO, b"t" * 32, BlindedKey(b"a" * 32))
    hello = b"\x01\x02\x00\x00\x00\x01" + b"c" * 32 + b"n" * 32 + (1_700_000_000_000).to_bytes(8, "big")
    assert signed == b"restante-open-v1" + hello + b"t" * 32 + b"a" * 32
    with pytest.raises(Malformed, match="channel must have 32 bytes"):
        open_to_sign(HELLO, b"t" * 31, BlindedKey(b"a" * 32))


def test_stored_takes_no_other_acks_than_delivery() -> None:
    receipt = replace(DELIVERY, type=AckType.RECEIPT, reference=mint_message_id(bytes(16)))
    with pytest.raises(Malformed, match="holds a DELIVERY ack"):
        Stored(ack=receipt, requests=(5, 6), path=MIDDLE)
    body = EXAMPLES[FrameType.STORED].body()
    with pytest.raises(Malformed, match="UUIDv4"):
        FrameReader().feed(raw_frame(FrameType.STORED, b"\x02" + body[1:]))


def test_stored_names_as_many_requests_as_leaves() -> None:
    with pytest.raises(Malformed, match="as many requests as leaves"):
        Stored(ack=DELIVERY, requests=(5,), path=MIDDLE)
    body = EXAMPLES[FrameType.STORED].body()
    for count, wrong in ((0, "shorter than its requests"), (1, "Merkle path"), (3, "Merkle path"), (90, "shorter")):
        with pytest.raises(Malformed, match=wrong):
            FrameReader().feed(raw_frame(FrameType.STORED, body[:121] + count.to_bytes(2, "big") + body[123:]))


def test_stored_cut_anywhere_is_refused() -> None:
    body = EXAMPLES[FrameType.STORED].body()
    for size in range(len(body)):
        with pytest.raises(Malformed):
            FrameReader().feed(raw_frame(FrameType.STORED, body[:size]))
    with pytest.raises(Malformed):
        FrameReader().feed(raw_frame(FrameType.STORED, body + b"\0"))


def test_stored_answers_at_most_1024_puts_at_once() -> None:
    leaves = [number.to_bytes(32, "big") for number in range(1_100)]
    largest = Stored(ack=DELIVERY, requests=tuple(range(1_024)), path=MerkleTree(leaves).path(33, 1_024))
    assert FrameReader().feed(encode_frame(largest, 0)) == [(0, largest)]
    with pytest.raises(Malformed, match=r"number of requests must be in 1\.\.1024"):
        Stored(ack=DELIVERY, requests=tuple(range(1_025)), path=MerkleTree(leaves).path(33, 1_025))


def test_stored_with_an_unsigned_ack_cannot_be_encoded() -> None:
    with pytest.raises(LocalProtocolError, match="must be signed"):
        encode_frame(Stored(ack=replace(DELIVERY, signature=b""), requests=(5, 6), path=MIDDLE), 1)


@pytest.mark.parametrize("permanent", [True, False])
def test_a_refusal_says_whether_it_is_permanent(permanent: bool) -> None:
    refused = Refused(permanent=permanent, code="E004", retry_after_ms=1, text="")
    raw = encode_frame(refused, 7)
    assert raw[9] == int(permanent)
    assert FrameReader().feed(raw) == [(7, refused)]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\x02E004\0\0\0\0full", "permanence of a refusal must be 0 or 1, not 2"),
        (b"\x00e004\0\0\0\0full", "E and three digits"),
        (b"\x00E0\n4\0\0\0\0full", "E and three digits"),
        (b"\x00E00\xff\0\0\0\0full", "ASCII"),
        (b"\x00E004\0\0\0\0\xff", "UTF-8"),
        (b"\x00E004\0\0\0\0\x1b[2Jgone", "printable"),
        (b"\x00E004\0\0\0\0two\nlines", "printable"),
        (b"\x00E004\0\0\0", r"must have 9\.\.209 bytes"),
        (b"\x00E004\0\0\0\0" + b"x" * 201, r"must have 9\.\.209 bytes"),
    ],
)
def test_a_refusal_that_breaks_a_rule_is_refused_itself(body: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        FrameReader().feed(raw_frame(FrameType.REFUSED, body))


def test_the_longest_refusal_text_has_200_bytes() -> None:
    longest = Refused(permanent=False, code="E004", retry_after_ms=0, text="é" * 100)
    assert FrameReader().feed(encode_frame(longest, 1)) == [(1, longest)]
    with pytest.raises(Malformed, match="at most 200 bytes"):
        Refused(permanent=False, code="E004", retry_after_ms=0, text="é" * 101)


@pytest.mark.parametrize(
    ("number", "body", "reason"),
    [
        (FrameType.DELETE, b"\xff" * 8, "blob id must be in"),
        (FrameType.BLOB, b"\xff" * 8 + bytes(8) + b"x", "blob id must be in"),
        (FrameType.BLOB, bytes(8) + b"\xff" * 8 + b"x", "stored_at must be in"),
        (FrameType.BLOB, bytes(16), r"the body of BLOB must have 17\.\.262224 bytes"),
        (FrameType.CREDIT, b"\xff" * 8, "blob id must be in"),
        (FrameType.HELLO, b"\x00\x01" + bytes(76), "the lowest version must be in"),
        (FrameType.HELLO, b"\x02\x01" + bytes(76), "the lowest version must be in"),
    ],
)
def test_numbers_no_store_could_hold_are_refused(number: int, body: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        FrameReader().feed(raw_frame(number, body))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: replace(HELLO, challenge=bytes(31)), "challenge must have 32 bytes, not 31"),
        (lambda: replace(HELLO, node_key=NodeKey(bytes(33))), "node key must have 32 bytes, not 33"),
        (
            lambda: Subscribe(blinded_key=BlindedKey(bytes(31)), signature=bytes(64)),
            "blinded key must have 32",
        ),
        (lambda: Subscribe(blinded_key=BlindedKey(bytes(32)), signature=b""), "signature must have 64 bytes, not 0"),
        (lambda: Refused(permanent=False, code="E004", retry_after_ms=-1, text=""), "retry_after must be in"),
        (lambda: Refused(permanent=False, code="E004", retry_after_ms=2**32, text=""), "retry_after must be in"),
        (lambda: Blob(blob_id=1, stored_at_ms=0, envelope=b""), r"size of an envelope must be in 1\.\.262208"),
        (lambda: Blob(blob_id=1, stored_at_ms=0, envelope=bytes(262_209)), r"must be in 1\.\.262208"),
        (lambda: Blob(blob_id=2**63, stored_at_ms=0, envelope=b"x"), "blob id must be in"),
        (lambda: Delete(blob_ids=(1, 2**63)), "blob id must be in"),
        (lambda: Delete(blob_ids=(-1,)), "blob id must be in"),
        (lambda: Delete(blob_ids=()), "the number of blobs to delete must be in"),
        (lambda: Delete(blob_ids=(1,) * 1_025), "the number of blobs to delete must be in"),
        (lambda: Credit(through=-1), "blob id must be in"),
        (lambda: Start(version=256, capabilities=0), "version must be in"),
        (lambda: Start(version=1, capabilities=2**32), "capabilities must be in"),
    ],
)
def test_a_frame_that_could_not_be_read_cannot_be_made(make: Callable[[], Frame], reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        make()


def test_the_largest_blob_and_the_last_row_number_fit() -> None:
    largest = Blob(blob_id=2**63 - 1, stored_at_ms=253_402_300_799_999, envelope=bytes(262_208))
    assert FrameReader().feed(encode_frame(largest, 2**32 - 1)) == [(2**32 - 1, largest)]


@pytest.mark.parametrize("request_number", [-1, 2**32])
def test_a_request_number_that_does_not_fit_u32_is_refused(request_number: int) -> None:
    with pytest.raises(Malformed, match="request must be in"):
        encode_frame(Ping(), request_number)

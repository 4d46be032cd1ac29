"""wire/frames/mesh and the formats in it: every value survives its bytes, every other byte string is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restante.model.errors import LocalProtocolError, Malformed, TooLarge
from restante.model.ids import BlindedKey, InboxKey
from restante.model.node_descriptor import Endpoint
from restante.wire.descriptors import MAX_DESCRIPTOR_BYTES, decode_descriptor, encode_descriptor
from restante.wire.frames.codec import MAX_FRAME_BYTES, FrameSplitter, Unknown
from restante.wire.frames.mesh import MESH_CLASSES, MeshFrame, MeshFrameType, decode_mesh_body, encode_mesh_frame
from restante.wire.frames.mesh_directory import DirectoryPage, FindNode, Nodes
from restante.wire.frames.mesh_reading import Fetch, FetchEntry, Listed, MeshDelete
from restante.wire.frames.mesh_replication import Have, KeySummary
from restante.wire.prekey_records import MAX_RECORD_BYTES, PrekeyRecord, decode_record, encode_record
from support.mesh.frames import descriptors, example_descriptor, examples, mesh_frames, records
from support.spec.clauses import clause
from support.wire.codec_properties import (
    assert_refuses_every_truncation,
    assert_refuses_one_more_byte,
    assert_sees_every_bit,
    decoded,
    flipped,
)

EXAMPLES = examples()


@given(mesh_frames, st.integers(0, 2**32 - 1))
@settings(max_examples=300)
def test_every_frame_survives_its_bytes(frame: MeshFrame, request: int) -> None:
    raw = encode_mesh_frame(frame, request)
    ((number, answered, body),) = FrameSplitter().feed(raw)
    assert (answered, decode_mesh_body(number, body)) == (request, frame)


@given(st.sampled_from(sorted(MESH_CLASSES)), st.binary(max_size=400))
@settings(max_examples=500)
def test_random_bodies_are_refused_or_mean_what_they_say(number: int, body: bytes) -> None:
    frame = decoded(lambda raw: decode_mesh_body(number, raw), body)
    if frame is not None:
        assert not isinstance(frame, Unknown)
        assert frame.body() == body


@given(mesh_frames, st.data())
@settings(max_examples=300)
def test_a_damaged_body_is_refused_or_means_something_else(frame: MeshFrame, data: st.DataObject) -> None:
    body = frame.body()
    if not body:
        return
    damaged = flipped(body, data.draw(st.integers(0, len(body) * 8 - 1)))
    assert decoded(lambda raw: decode_mesh_body(frame.TYPE, raw), damaged) != frame


@pytest.mark.parametrize("name", MeshFrameType)
def test_the_example_of_each_frame_sees_every_bit(name: MeshFrameType) -> None:
    frame = EXAMPLES[name]
    if name is not MeshFrameType.MESH_DELETED:
        assert_sees_every_bit(lambda raw: decode_mesh_body(name, raw), frame.body())


@clause("7.12")
@pytest.mark.parametrize("name", MeshFrameType)
def test_no_frame_is_larger_than_the_connection_allows(name: MeshFrameType) -> None:
    assert MESH_CLASSES[name].SIZES[-1] + 5 <= MAX_FRAME_BYTES


def test_a_type_that_the_mesh_does_not_have_is_unknown() -> None:
    assert decode_mesh_body(0x5F, b"anything") == Unknown(number=0x5F)


@given(descriptors)
@clause("7.1")
def test_descriptors_survive_their_bytes_and_stay_small(descriptor: object) -> None:
    raw = encode_descriptor(descriptor)  # type: ignore[arg-type]  # a strategy of NodeDescriptor
    assert len(raw) <= MAX_DESCRIPTOR_BYTES
    assert decode_descriptor(raw) == descriptor


def test_a_descriptor_cut_lengthened_or_damaged_is_refused_or_different() -> None:
    raw = encode_descriptor(example_descriptor())
    assert_refuses_every_truncation(decode_descriptor, raw)
    assert_refuses_one_more_byte(decode_descriptor, raw)
    assert_sees_every_bit(decode_descriptor, raw)


@clause("7.1")
def test_a_descriptor_that_names_an_ipv4_address_as_ipv6_is_refused() -> None:
    """All such addresses begin alike: they would count as one network."""
    example = example_descriptor()
    ipv6 = example.endpoints[1]
    mapped = Endpoint(bytes(10) + b"\xff\xff" + bytes([192, 0, 2, 1]), ipv6.port)
    with pytest.raises(Malformed, match="IPv4 address written as IPv6"):
        decode_descriptor(encode_descriptor(example).replace(ipv6.ip, mapped.ip))
    assert mapped.unmapped() == Endpoint(bytes([192, 0, 2, 1]), ipv6.port)
    assert ipv6.unmapped() == ipv6


def test_a_descriptor_over_512_bytes_is_too_large() -> None:
    with pytest.raises(TooLarge):
        decode_descriptor(bytes(513))


@given(records)
@clause("7.6")
def test_records_survive_their_bytes(record: PrekeyRecord) -> None:
    assert decode_record(encode_record(record)) == record


def test_a_record_over_8_kib_is_too_large() -> None:
    with pytest.raises(TooLarge):
        decode_record(bytes(MAX_RECORD_BYTES + 1))
    with pytest.raises(TooLarge):
        PrekeyRecord(blinded=BlindedKey(bytes(32)), period=1, issued_at_ms=1, sealed=bytes(8_088))


def test_what_is_not_signed_is_not_encoded() -> None:
    with pytest.raises(LocalProtocolError):
        MeshDelete(blinded=BlindedKey(bytes(32)), bucket=1, hashes=(bytes(32),)).body()
    with pytest.raises(LocalProtocolError):
        Fetch(entries=(FetchEntry(blinded=BlindedKey(bytes(32)), bucket=1, after=0),)).body()


@clause("7.12")
def test_every_list_has_a_bound() -> None:
    entry = [FetchEntry(blinded=BlindedKey(bytes(32)), bucket=n, after=0, signature=bytes(64)) for n in range(65)]
    summary = KeySummary(inbox_key=InboxKey(bytes(32)), count=1, xor=bytes(32))
    raw = encode_descriptor(example_descriptor())
    Fetch(entries=tuple(entry[:64]))
    Listed(inbox_key=InboxKey(bytes(32)), last=1, hashes=(bytes(32),) * 1024)
    for build in (
        lambda: Fetch(entries=tuple(entry)),
        lambda: Listed(inbox_key=InboxKey(bytes(32)), last=1, hashes=(bytes(32),) * 1025),
        lambda: Have(low=bytes(32), high=bytes(32), summaries=(summary,) * 257),
        lambda: Nodes(time_ms=1, descriptors=(raw,) * 21),
        lambda: DirectoryPage(next_cursor=1, is_last=True, digest=bytes(32), descriptors=(raw,) * 257),
        lambda: FindNode(target=bytes(32), want=21),
    ):
        with pytest.raises(Malformed):
            build()


def test_a_request_names_each_key_once() -> None:
    entry = FetchEntry(blinded=BlindedKey(bytes(32)), bucket=1, after=0, signature=bytes(64))
    with pytest.raises(Malformed, match="once"):
        Fetch(entries=(entry, entry))

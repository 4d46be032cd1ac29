"""One example of every mesh frame, with the values of tests/vectors/derive_mesh.py, and strategies for random ones."""

from dataclasses import replace

from hypothesis import strategies as st

from restante.core.mesh_proofs.descriptors import admit_to_family, sign_descriptor
from restante.core.mesh_proofs.reading import answer_for, sign_done
from restante.core.mesh_proofs.receipts import sign_receipts_of_commit
from restante.crypto.identity import Identity
from restante.model.ids import BlindedKey, InboxKey, NodeKey, PayloadHash
from restante.model.node_descriptor import Endpoint, FamilyCertificate, NodeDescriptor, Role
from restante.wire.descriptors import encode_descriptor
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.frames.mesh import MeshFrame, MeshFrameType
from restante.wire.frames.mesh_directory import (
    Authenticate,
    DescriptorTaken,
    DirectoryPage,
    FindNode,
    Nodes,
    PublishDescriptor,
    SyncDirectory,
)
from restante.wire.frames.mesh_reading import (
    Fetch,
    FetchDone,
    FetchEntry,
    KeyAnswer,
    Listed,
    MeshDelete,
    MeshDeleted,
    MeshSubscribe,
)
from restante.wire.frames.mesh_replication import Block, Have, HaveDone, HaveList, KeySummary, Want, WantDone
from restante.wire.frames.mesh_storage import (
    GetRecord,
    MeshPut,
    MeshRoom,
    MeshStored,
    NotResponsible,
    PutRecord,
    Record,
    WrongBucket,
)
from restante.wire.merkle import address_hash, stored_leaf
from restante.wire.prekey_records import PrekeyRecord, encode_record
from support.mesh.known_keys import KnownIdentity

NODE = KnownIdentity("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7")
OPERATOR = KnownIdentity("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
NOW_MS = 1_700_000_000_000
BLINDED, KEY = BlindedKey(b"\xb1" * 32), InboxKey(b"\x1b" * 32)
BUCKET, PERIOD = 472_222, 655
HASHES = tuple(PayloadHash(bytes([first]) * 32) for first in (0x11, 0x22, 0x33))
SIGNATURE = b"\x5e" * 64


def example_descriptor(node: Identity = NODE) -> NodeDescriptor:
    unsigned = NodeDescriptor(
        node_key=node.node_key,
        onion_key=b"\x07" * 32,
        endpoints=(Endpoint(bytes([127, 0, 1, 1]), 7700), Endpoint(b"\x20\x01" + bytes(13) + b"\x01", 7700)),
        roles=Role.STORAGE | Role.HOP,
        issued_at_ms=NOW_MS,
        expires_at_ms=NOW_MS + 7_200_000,
        certificate=admit_to_family(OPERATOR, node.node_key),
    )
    return sign_descriptor(unsigned, node)


def examples() -> dict[MeshFrameType, MeshFrame]:
    described = encode_descriptor(example_descriptor())
    record = encode_record(
        PrekeyRecord(blinded=BLINDED, period=PERIOD, issued_at_ms=NOW_MS, sealed=b"sealed", signature=SIGNATURE)
    )
    entry = FetchEntry(blinded=BLINDED, bucket=BUCKET, after=5, signature=SIGNATURE)
    inner = address_hash(KEY, NOW_MS)
    leaves = [stored_leaf(inner, hash_sealed_bytes(sealed)) for sealed in (b"first", b"sealed", b"third")]
    receipt = sign_receipts_of_commit(NODE, leaves, now_ms=NOW_MS)[1]
    answer = answer_for(KEY, HASHES, after=5, last=8, is_complete=True)
    frames: list[MeshFrame] = [
        Authenticate(node_key=NODE.node_key, signature=SIGNATURE),
        FindNode(target=KEY, want=20),
        Nodes(time_ms=NOW_MS, descriptors=(described,)),
        SyncDirectory(cursor=9, digest=KEY),
        DirectoryPage(next_cursor=10, is_last=True, digest=KEY, descriptors=(described,)),
        PublishDescriptor(descriptor=described),
        DescriptorTaken(time_ms=NOW_MS, observed=Endpoint(bytes([127, 0, 1, 1]), 7700)),
        MeshRoom(node_bytes=1_000_000, key_bytes=2**64 - 1),
        MeshPut(blinded=BLINDED, bucket=BUCKET, envelope=b"an envelope"),
        MeshStored(receipt=receipt),
        WrongBucket(time_ms=NOW_MS),
        NotResponsible(time_ms=NOW_MS, descriptors=(described,)),
        PutRecord(record=record),
        GetRecord(key=KEY),
        Record(record=record),
        Fetch(entries=(entry,)),
        MeshSubscribe(entries=(entry,)),
        Listed(inbox_key=KEY, last=8, hashes=HASHES),
        sign_done(NODE, [answer], now_ms=NOW_MS),
        MeshDelete(blinded=BLINDED, bucket=BUCKET, hashes=HASHES, signature=SIGNATURE),
        MeshDeleted(),
        Have(
            low=bytes(32),
            high=b"\xff" * 32,
            summaries=(KeySummary(inbox_key=KEY, count=3, xor=bytes([0x11 ^ 0x22 ^ 0x33]) * 32),),
        ),
        HaveList(inbox_key=KEY, is_last=True, hashes=HASHES),
        HaveDone(through=KEY),
        Want(inbox_key=KEY, hashes=HASHES),
        Block(blinded=BLINDED, bucket=BUCKET, envelope=b"an envelope"),
        WantDone(missing=HASHES[:1]),
    ]
    return {frame.TYPE: frame for frame in frames}


ids = st.binary(min_size=32, max_size=32)
signatures = st.binary(min_size=64, max_size=64)
times = st.integers(0, 253_402_300_799_999)
u64 = st.integers(0, 2**64 - 1)
numbers = st.integers(0, 2**63 - 1)
hash_lists = st.lists(ids, min_size=1, max_size=5).map(tuple)
endpoints = st.builds(
    Endpoint, st.one_of(st.binary(min_size=4, max_size=4), st.binary(min_size=16, max_size=16)), st.integers(1, 65535)
)
descriptors = st.builds(
    lambda issued, ttl, **fields: NodeDescriptor(issued_at_ms=issued, expires_at_ms=issued + ttl, **fields),
    issued=st.integers(0, 10**13),
    ttl=st.integers(0, 10**7),
    node_key=ids.map(NodeKey),
    onion_key=ids,
    endpoints=st.lists(endpoints, max_size=8).map(tuple),
    roles=st.integers(0, 7).map(Role),
    certificate=st.none() | st.builds(FamilyCertificate, ids, signatures),
    signature=signatures,
)
raw_descriptors = st.lists(descriptors.map(encode_descriptor), max_size=4).map(tuple)
records = st.builds(
    PrekeyRecord,
    blinded=ids.map(BlindedKey),
    period=st.integers(0, 2**32 - 1),
    issued_at_ms=times,
    sealed=st.binary(min_size=1, max_size=200),
    signature=signatures,
)
entries = st.lists(
    st.builds(FetchEntry, blinded=ids.map(BlindedKey), bucket=u64, after=numbers, signature=signatures),
    min_size=1,
    max_size=4,
    unique_by=lambda each: (each.blinded, each.bucket),
).map(tuple)
answers = st.builds(
    KeyAnswer,
    inbox_key=ids.map(InboxKey),
    after=numbers,
    last=numbers,
    count=st.integers(0, 65536),
    root=ids,
    is_complete=st.booleans(),
)
receipts = st.builds(
    lambda leaves, at_ms, which: sign_receipts_of_commit(NODE, leaves, now_ms=at_ms)[which % len(leaves)],
    st.lists(ids, min_size=1, max_size=9),
    times,
    st.integers(0, 8),
)
envelopes = st.binary(min_size=1, max_size=100)
mesh_frames: st.SearchStrategy[MeshFrame] = st.one_of(
    st.builds(Authenticate, node_key=ids.map(NodeKey), signature=signatures),
    st.builds(FindNode, target=ids, want=st.integers(1, 20)),
    st.builds(Nodes, time_ms=times, descriptors=raw_descriptors),
    st.builds(SyncDirectory, cursor=u64, digest=ids),
    st.builds(DirectoryPage, next_cursor=u64, is_last=st.booleans(), digest=ids, descriptors=raw_descriptors),
    st.builds(PublishDescriptor, descriptor=descriptors.map(encode_descriptor)),
    st.builds(DescriptorTaken, time_ms=times, observed=endpoints),
    st.builds(MeshPut, blinded=ids.map(BlindedKey), bucket=u64, envelope=envelopes),
    st.builds(MeshRoom, node_bytes=u64, key_bytes=u64),
    st.builds(MeshStored, receipt=receipts),
    st.builds(WrongBucket, time_ms=times),
    st.builds(NotResponsible, time_ms=times, descriptors=raw_descriptors),
    st.builds(PutRecord, record=records.map(encode_record)),
    st.builds(GetRecord, key=ids),
    st.builds(Record, record=st.just(b"") | records.map(encode_record)),
    st.builds(Fetch, entries=entries),
    st.builds(MeshSubscribe, entries=entries),
    st.builds(Listed, inbox_key=ids.map(InboxKey), last=numbers, hashes=hash_lists),
    st.builds(
        FetchDone,
        answers=st.lists(answers, min_size=1, max_size=4).map(tuple),
        time_ms=times,
        signature=signatures,
    ),
    st.builds(MeshDelete, blinded=ids.map(BlindedKey), bucket=u64, hashes=hash_lists, signature=signatures),
    st.just(MeshDeleted()),
    st.builds(
        Have,
        low=ids,
        high=ids,
        summaries=st.lists(
            st.builds(KeySummary, inbox_key=ids.map(InboxKey), count=st.integers(0, 2**32 - 1), xor=ids), max_size=4
        ).map(tuple),
    ),
    st.builds(HaveList, inbox_key=ids.map(InboxKey), is_last=st.booleans(), hashes=hash_lists),
    st.builds(HaveDone, through=ids),
    st.builds(Want, inbox_key=ids.map(InboxKey), hashes=hash_lists),
    st.builds(Block, blinded=ids.map(BlindedKey), bucket=u64, envelope=envelopes),
    st.builds(WantDone, missing=st.lists(ids, max_size=5).map(tuple)),
)


def renewed(descriptor: NodeDescriptor, node: Identity, *, issued_at_ms: int) -> NodeDescriptor:
    """The same node's descriptor, issued at another time."""
    unsigned = replace(descriptor, issued_at_ms=issued_at_ms, expires_at_ms=issued_at_ms + 7_200_000, signature=b"")
    return sign_descriptor(unsigned, node)

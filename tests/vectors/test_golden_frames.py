"""frame.json. Every frame has request number 7."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from restante.core.mesh_proofs.receipts import SignedCommits, leaf_of
from restante.model.ids import BlindedKey, InboxKey, NodeKey
from restante.wire.acks import decode_ack
from restante.wire.envelope import Envelope
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
    encode_frame,
    open_to_sign,
)
from restante.wire.merkle import MerklePath
from support.spec.clauses import clause
from support.wire.frame_reader import FrameReader
from support.wire.golden_vectors import cases, load

VECTORS: dict[str, dict[str, Any]] = {vector["name"]: vector for vector in load("frame")}


def raw(name: str, field: str) -> bytes:
    return bytes.fromhex(VECTORS[name][field])


HELLO = Hello(
    lowest_version=VECTORS["hello"]["lowest_version"],
    highest_version=VECTORS["hello"]["highest_version"],
    capabilities=VECTORS["hello"]["capabilities"],
    challenge=raw("hello", "challenge"),
    node_key=NodeKey(raw("hello", "node_key")),
    now_ms=VECTORS["hello"]["now_ms"],
)
OPEN = Subscribe(blinded_key=BlindedKey(raw("subscribe", "blinded_key")), signature=raw("subscribe", "signature"))


def stored() -> Stored:
    vector = VECTORS["stored"]
    path = MerklePath(
        first=vector["index"], leaves=vector["count"], siblings=tuple(map(bytes.fromhex, vector["siblings"])), length=2
    )
    return Stored(ack=decode_ack(raw("stored", "ack")), requests=tuple(vector["requests"]), path=path)


def frames_by_name() -> dict[str, Frame]:
    """Made when a test asks: a broken codec fails its own test, not the collection of all."""
    return {
        "hello": HELLO,
        "subscribe": OPEN,
        "subscribed": Subscribed(),
        "start": Start(version=VECTORS["start"]["version"], capabilities=VECTORS["start"]["capabilities"]),
        "put": Put(envelope=raw("put", "envelope")),
        "stored": stored(),
        "refused": Refused(
            permanent=VECTORS["refused"]["permanent"],
            code=VECTORS["refused"]["code"],
            retry_after_ms=VECTORS["refused"]["retry_after_ms"],
            text=VECTORS["refused"]["text"],
        ),
        "blob": Blob(
            blob_id=VECTORS["blob"]["blob_id"],
            stored_at_ms=VECTORS["blob"]["stored_at_ms"],
            envelope=raw("blob", "envelope"),
        ),
        "delete": Delete(blob_ids=tuple(VECTORS["delete"]["blob_ids"])),
        "deleted": Deleted(),
        "credit": Credit(through=VECTORS["credit"]["through"]),
        "ping": Ping(),
        "pong": Pong(),
    }


def test_there_is_a_vector_for_every_type_of_frame() -> None:
    assert {name.upper() for name in VECTORS} == {each.name for each in FrameType}


@pytest.mark.parametrize("vector", cases("frame"))
def test_frames_keep_their_bytes(vector: dict[str, Any]) -> None:
    frame = frames_by_name()[vector["name"]]
    assert encode_frame(frame, 7).hex() == vector["hex"]
    assert FrameReader().feed(bytes.fromhex(vector["hex"])) == [(7, frame)]


def test_the_proof_of_possession_keeps_its_signature() -> None:
    to_sign = open_to_sign(HELLO, raw("subscribe", "channel"), OPEN.blinded_key)
    Ed25519PublicKey.from_public_bytes(OPEN.blinded_key).verify(OPEN.signature, to_sign)


@clause("7.8", "10.2")
def test_the_receipts_of_two_neighbours_keep_their_leaves_and_their_signature() -> None:
    vector, frame = VECTORS["stored"], stored()
    key = InboxKey(raw("stored", "inbox_key"))
    leaves = [
        leaf_of(Envelope(inbox_key=key, expires_at_ms=vector["expires_at_ms"], sealed=bytes.fromhex(sealed)))
        for sealed in vector["sealed"]
    ]
    receipts = SignedCommits(NodeKey(raw("stored", "signer"))).receipts_of_run(frame.ack, frame.path, leaves)
    assert receipts is not None
    assert [(each.path.first, each.path.siblings[0]) for each in receipts] == [
        (1, frame.path.siblings[0]),
        (2, frame.path.siblings[1]),
    ]

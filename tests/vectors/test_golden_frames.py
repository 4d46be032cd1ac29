"""frame.json. Every frame has request number 7."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from golden import cases, load
from restante.model.ids import Address, NodeKey
from restante.wire.acks import decode_ack
from restante.wire.frames import (
    Blob,
    Delete,
    Deleted,
    Frame,
    FrameReader,
    FrameType,
    Hello,
    Open,
    Opened,
    Ping,
    Pong,
    Put,
    Refused,
    Stored,
    encode_frame,
    open_to_sign,
)

VECTORS: dict[str, dict[str, Any]] = {vector["name"]: vector for vector in load("frame")}


def raw(name: str, field: str) -> bytes:
    return bytes.fromhex(VECTORS[name][field])


HELLO = Hello(challenge=raw("hello", "challenge"), node_key=NodeKey(raw("hello", "node_key")))
OPEN = Open(address=Address(raw("open", "address")), signature=raw("open", "signature"))


def frames_by_name() -> dict[str, Frame]:
    """Made when a test asks: a broken codec fails its own test, not the collection of all."""
    return {
        "hello": HELLO,
        "open": OPEN,
        "opened": Opened(),
        "put": Put(envelope=raw("put", "envelope")),
        "stored": Stored(ack=decode_ack(raw("stored", "ack"))),
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
        "delete": Delete(blob_id=VECTORS["delete"]["blob_id"]),
        "deleted": Deleted(),
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
    Ed25519PublicKey.from_public_bytes(OPEN.address).verify(OPEN.signature, open_to_sign(HELLO, OPEN.address))

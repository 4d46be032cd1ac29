"""envelope.json and letter.json."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from clauses import clause
from golden import cases, load
from restante.model.ids import Address, InboxKey, MessageId, SessionId
from restante.model.kinds import Kind
from restante.wire.envelope import Envelope, decode_envelope, encode_envelope, payload_hash
from restante.wire.letter import (
    Letter,
    decode_letter,
    decode_plaintext,
    encode_letter,
    encode_plaintext,
    letter_to_sign,
)
from restante.wire.ttl_header import decode_ttl_header


@clause("0")
@pytest.mark.parametrize("vector", cases("envelope"))
def test_envelopes_keep_their_bytes(vector: dict[str, Any]) -> None:
    envelope = Envelope(
        inbox_key=InboxKey(bytes.fromhex(vector["inbox_key"])),
        expires_at_ms=vector["expires_at_ms"],
        sealed=bytes.fromhex(vector["sealed"]),
    )
    assert encode_envelope(envelope).hex() == vector["hex"]
    assert decode_envelope(bytes.fromhex(vector["hex"])) == envelope
    assert payload_hash(envelope.sealed).hex() == vector["payload_hash"]


def letter_of(vector: dict[str, Any]) -> Letter:
    return Letter(
        message_id=MessageId(bytes.fromhex(vector["message_id"])),
        sender=Address(bytes.fromhex(vector["sender"])),
        session_id=SessionId(bytes.fromhex(vector["session_id"])),
        sequence=vector["sequence"],
        kind=Kind(vector["kind"]),
        body=bytes.fromhex(vector["body"]),
        signature=bytes.fromhex(vector["signature"]),
    )


@pytest.mark.parametrize("vector", cases("letter"))
def test_letters_keep_their_bytes_and_their_signatures(vector: dict[str, Any]) -> None:
    letter = letter_of(vector)
    assert encode_letter(letter).hex() == vector["hex"]
    assert decode_letter(bytes.fromhex(vector["hex"])) == letter
    recipient = Address(bytes.fromhex(vector["recipient"]))
    Ed25519PublicKey.from_public_bytes(letter.sender).verify(letter.signature, letter_to_sign(letter, recipient))


@clause("2.7")
def test_a_plaintext_is_the_ttl_header_and_then_the_letter() -> None:
    vector = load("letter")[0]
    header = decode_ttl_header(bytes.fromhex(load("ttl_header")[0]["hex"]))
    assert encode_plaintext(header, letter_of(vector)).hex() == vector["plaintext"]
    assert decode_plaintext(bytes.fromhex(vector["plaintext"])) == (header, letter_of(vector))

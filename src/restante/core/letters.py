"""Writing a letter for one recipient and opening one that arrived: sign, pad, seal, and back (SPEC 2.7-2.9, 8.5).

The first, sessionless form: sealed by hybrid HPKE to the recipient's long-term key and signed inside. It does not yet
give forward secrecy; the ratchet takes its place (README, "What is not there yet").
"""

import hashlib
from dataclasses import dataclass, replace

from restante.crypto.identity import Identity, is_signed_by
from restante.crypto.sealing import seal, unseal
from restante.model.cards import ContactCard
from restante.model.codes import Code
from restante.model.errors import Malformed, RemoteProtocolError
from restante.model.ids import Address, MessageId, PayloadHash, SessionId
from restante.model.kinds import KIND_RULES, Kind
from restante.policy.padding import pad, unpad
from restante.policy.quota import storage_expiry_ms
from restante.wire.envelope import Envelope, decode_envelope, encode_envelope, payload_hash
from restante.wire.inbox_keys import relay_inbox_key
from restante.wire.letter import Letter, decode_plaintext, encode_plaintext, letter_to_sign
from restante.wire.ttl_header import TtlHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message as its writer means it, before any key has touched it."""

    message_id: MessageId
    session_id: SessionId
    sequence: int
    kind: Kind
    body: bytes
    created_at_ms: int
    ttl_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A letter that opened and whose writer is proven."""

    header: TtlHeader
    letter: Letter
    payload_hash: PayloadHash
    envelope_bytes: int


def write(draft: Draft, *, writer: Identity, reader: ContactCard) -> bytes:
    """The padded plaintext: TTL header and signed letter."""
    unsigned = Letter(
        message_id=draft.message_id,
        sender=writer.address,
        session_id=draft.session_id,
        sequence=draft.sequence,
        kind=draft.kind,
        body=draft.body,
    )
    signed = replace(unsigned, signature=writer.sign(letter_to_sign(unsigned, reader.address)))
    header = TtlHeader(created_at_ms=draft.created_at_ms, ttl_s=draft.ttl_s, ttl_type=KIND_RULES[draft.kind].ttl_type)
    return pad(encode_plaintext(header, signed))


def enclose(plaintext: bytes, *, kind: Kind, reader: ContactCard, expires_at_ms: int, now_ms: int) -> bytes:
    """The envelope a relay is given."""
    return encode_envelope(
        Envelope(
            inbox_key=relay_inbox_key(reader.address),
            expires_at_ms=storage_expiry_ms(
                ttl_type=KIND_RULES[kind].ttl_type, expires_at_ms=expires_at_ms, now_ms=now_ms
            ),
            sealed=seal(plaintext, reader),
        )
    )


def open_envelope(raw: bytes, *, reader: Identity) -> Opened:
    """The letter inside; refused when it is for somebody else, damaged, or not by the writer it names."""
    envelope = decode_envelope(raw)
    if envelope.inbox_key != relay_inbox_key(reader.address):
        raise Malformed("the envelope is for another inbox")
    header, letter = decode_plaintext(unpad(unseal(envelope.sealed, reader)))
    if not is_signed_by(letter.sender, letter.signature, letter_to_sign(letter, reader.address)):
        raise RemoteProtocolError("the letter is not signed by the sender it names", code=Code.AUTHENTICATION_FAILED)
    return Opened(header=header, letter=letter, payload_hash=payload_hash(envelope.sealed), envelope_bytes=len(raw))


def dedup_key(sender: Address, session: SessionId, message: MessageId) -> bytes:
    """What makes an arrival the same message as another (SPEC 9.1)."""
    return hashlib.sha256(sender + session + message).digest()

"""What the recipient finds when the envelope is unsealed: the TTL header and a signed letter.

A letter is built unsigned, signed over `letter_to_sign`, completed with `dataclasses.replace` and only then encoded.
Like an envelope it has one encoding and no other. Who signed it, and whether truly, is checked elsewhere.
"""

from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from restante.model.errors import Malformed, TooLarge
from restante.model.ids import (
    MAX_SEQUENCE,
    Address,
    MessageId,
    SessionId,
    address,
    message_id,
    session_id,
)
from restante.model.kinds import Kind, parse_kind
from restante.model.limits import MAX_SEALED_BYTES
from restante.wire import envelope_pb2
from restante.wire.fields import UNSIGNED, check_number, check_signature, signature_to_encode
from restante.wire.ttl_header import TTL_HEADER_BYTES, TtlHeader, encode_ttl_header, split

MAX_PLAINTEXT_BYTES: Final = MAX_SEALED_BYTES  # padding and sealing only add: nothing longer can arrive (SPEC 2.8)
MAX_LETTER_BYTES: Final = MAX_PLAINTEXT_BYTES - TTL_HEADER_BYTES
_LETTER_DOMAIN: Final = b"restante-letter-v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    message_id: MessageId
    sender: Address
    session_id: SessionId
    sequence: int
    kind: Kind
    body: bytes
    signature: bytes = UNSIGNED

    def __post_init__(self) -> None:
        message_id(self.message_id)
        address(self.sender)
        session_id(self.session_id)
        check_number(self.sequence, "sequence", high=MAX_SEQUENCE)
        check_signature(self.signature)


def letter_to_sign(letter: Letter, recipient: Address) -> bytes:
    """What the signature of a letter covers; `recipient` is in it, so that it cannot be passed on to another."""
    return _LETTER_DOMAIN + address(recipient) + _encode(letter, UNSIGNED)


def encode_letter(letter: Letter) -> bytes:
    raw = _encode(letter, signature_to_encode(letter.signature, "a letter"))
    if len(raw) > MAX_LETTER_BYTES:
        raise TooLarge("the letter", size_bytes=len(raw), limit_bytes=MAX_LETTER_BYTES)
    return raw


def decode_letter(raw: bytes) -> Letter:
    if len(raw) > MAX_LETTER_BYTES:
        raise TooLarge("the letter", size_bytes=len(raw), limit_bytes=MAX_LETTER_BYTES)
    try:
        message = envelope_pb2.Letter.FromString(raw)
    except DecodeError:
        raise Malformed("not a letter: the bytes are no protobuf message of this form") from None
    kind = parse_kind(message.kind)
    if kind is None:
        raise Malformed("the letter is of a kind that is not known here")
    letter = Letter(
        message_id=MessageId(message.message_id),
        sender=Address(message.sender),
        session_id=SessionId(message.session_id),
        sequence=message.sequence,
        kind=kind,
        body=message.body,
        signature=message.signature,
    )
    if letter.signature == UNSIGNED:
        raise Malformed("the letter is not signed")
    if _encode(letter, letter.signature) != raw:
        raise Malformed("the letter has unknown fields or is not in its one canonical encoding")
    return letter


def encode_plaintext(header: TtlHeader, letter: Letter) -> bytes:
    """What is padded and then sealed."""
    return encode_ttl_header(header) + encode_letter(letter)


def decode_plaintext(raw: bytes) -> tuple[TtlHeader, Letter]:
    """What was unsealed, its padding already taken off."""
    header, rest = split(raw)
    return header, decode_letter(rest)


def _encode(letter: Letter, signature: bytes) -> bytes:
    return envelope_pb2.Letter(
        message_id=letter.message_id,
        sender=letter.sender,
        session_id=letter.session_id,
        sequence=letter.sequence,
        kind=letter.kind,
        body=letter.body,
        signature=signature,
    ).SerializeToString(deterministic=True)

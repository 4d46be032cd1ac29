"""Encode and decode a session message: sender, session, message id, generation and ratchet bytes, then the sender tag.

All of it is inside the sealed bytes. The header is readable before decryption, because SPEC 9.1 needs sender, session
and message id for the first verdict, and SPEC 8.7 the generation of a session that can't be read. No node sees it
(SPEC 8.5). Kind, sequence and text are inside the ratchet bytes. An opening is present until the initiator was
answered. The tag covers all bytes before it (SPEC 8.11).
"""

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from restante.model.contact_card import ContactCard
from restante.model.errors import Malformed, TooLarge
from restante.model.ids import (
    Address,
    MessageId,
    SessionId,
    address,
    exactly,
    message_id,
    session_id,
)
from restante.model.limits import MAX_SEALED_BYTES
from restante.model.prekey_bundle import Opening
from restante.wire.field_checks import MAX_U32, SIGNATURE_BYTES, check_number
from restante.wire.prekey_bundle import SEALING_KEY_BYTES, X25519_BYTES

SESSION_MESSAGE_VERSION: Final = 1
MAX_SESSION_MESSAGE_BYTES: Final = MAX_SEALED_BYTES  # SPEC 2.8: padding and sealing only add bytes
MIN_RATCHET_BYTES: Final = 72  # header 40, random bytes 16, authentication tag 16
SENDER_TAG_BYTES: Final = 16
KEM_CIPHERTEXT_BYTES: Final = 1088

_HAS_OPENING: Final = 1
_HAS_ONE_TIME: Final = 2
_NO_OPENING: Final = b"\x00"
_HEAD: Final = struct.Struct(">B32s32s16sI")
_FLAGS_BYTES: Final = 1
_OPENING: Final = struct.Struct(
    f">{SEALING_KEY_BYTES}s{X25519_BYTES}s{SIGNATURE_BYTES}s{X25519_BYTES}sI{KEM_CIPHERTEXT_BYTES}s"
)
_ONE_TIME_ID: Final = struct.Struct(">I")

MIN_SESSION_MESSAGE_BYTES: Final = _HEAD.size + _FLAGS_BYTES + MIN_RATCHET_BYTES + SENDER_TAG_BYTES
MAX_OPENING_BYTES: Final = _FLAGS_BYTES + _OPENING.size + _ONE_TIME_ID.size


class SessionMessage(NamedTuple):
    """A session message. It is a tuple because one is made for every arrival; encoder and decoder check its parts."""

    sender: Address
    session_id: SessionId
    message_id: MessageId
    generation: int
    ratchet: bytes
    opening: Opening | None = None


class TaggedMessage(NamedTuple):
    """A decoded session message, with its sender tag and the bytes that the tag covers."""

    message: SessionMessage
    tag: bytes
    covered: bytes


def encode_session_message(message: SessionMessage, make_tag: Callable[[bytes], bytes]) -> bytes:
    """Encode the message and append the tag that `make_tag` returns for its bytes."""
    _check_ratchet(message.ratchet)
    check_number(message.generation, "generation", low=1, high=MAX_U32)
    if message.opening is not None and message.opening.card.address != message.sender:
        raise Malformed("the opening of a session must be the sender's own")
    head = _HEAD.pack(
        SESSION_MESSAGE_VERSION,
        address(message.sender),
        session_id(message.session_id),
        message_id(message.message_id),
        message.generation,
    )
    covered = head + (_NO_OPENING if message.opening is None else encode_opening(message.opening)) + message.ratchet
    raw = covered + exactly(make_tag(covered), SENDER_TAG_BYTES, "sender tag")
    if len(raw) > MAX_SESSION_MESSAGE_BYTES:
        raise TooLarge("the message", size_bytes=len(raw), limit_bytes=MAX_SESSION_MESSAGE_BYTES)
    return raw


def decode_session_message(raw: bytes) -> TaggedMessage:
    """Decode a message. Whether its tag is valid is for the caller to check."""
    if len(raw) > MAX_SESSION_MESSAGE_BYTES:
        raise TooLarge("the message", size_bytes=len(raw), limit_bytes=MAX_SESSION_MESSAGE_BYTES)
    if len(raw) < MIN_SESSION_MESSAGE_BYTES:
        raise Malformed(f"a session message has at least {MIN_SESSION_MESSAGE_BYTES} bytes, not {len(raw)}")
    version, sender, session, message, generation = _HEAD.unpack_from(raw)
    if version != SESSION_MESSAGE_VERSION:
        raise Malformed(f"only version {SESSION_MESSAGE_VERSION} of a session message is known, not {version}")
    flags = raw[_HEAD.size]
    end = _HEAD.size + (_opening_bytes(flags) if flags else _FLAGS_BYTES)
    opening = decode_opening(raw[_HEAD.size : end], sender=Address(sender)) if flags else None
    ratchet = raw[end:-SENDER_TAG_BYTES]
    _check_ratchet(ratchet)
    check_number(generation, "generation", low=1, high=MAX_U32)
    decoded = SessionMessage(sender, session, message_id(message), generation, ratchet, opening)
    return TaggedMessage(decoded, raw[-SENDER_TAG_BYTES:], raw[:-SENDER_TAG_BYTES])


def encode_opening(opening: Opening) -> bytes:
    """Encode an opening, for messages and for the initiator's own store. It omits the address, which is the
    sender's."""
    card, flags = opening.card, _HAS_OPENING
    check_number(opening.prekey_id, "prekey id", high=MAX_U32)
    raw = _OPENING.pack(
        exactly(card.sealing_key, SEALING_KEY_BYTES, "sealing key"),
        exactly(card.agreement_key, X25519_BYTES, "agreement key"),
        exactly(card.signature, SIGNATURE_BYTES, "signature of the card"),
        exactly(opening.ephemeral_key, X25519_BYTES, "ephemeral key"),
        opening.prekey_id,
        exactly(opening.kem_ciphertext, KEM_CIPHERTEXT_BYTES, "KEM ciphertext"),
    )
    if opening.one_time_id is not None:
        check_number(opening.one_time_id, "id of the one-time prekey", high=MAX_U32)
        flags, raw = flags | _HAS_ONE_TIME, raw + _ONE_TIME_ID.pack(opening.one_time_id)
    return bytes([flags]) + raw


def decode_opening(raw: bytes, *, sender: Address) -> Opening:
    if not raw:
        raise Malformed("the opening is missing")
    flags = raw[0]
    exactly(raw, _opening_bytes(flags), "opening of a session")
    sealing, agreement, signature, ephemeral, prekey_id, ciphertext = _OPENING.unpack_from(raw, _FLAGS_BYTES)
    rest = raw[_FLAGS_BYTES + _OPENING.size :]
    return Opening(
        card=ContactCard(address=sender, sealing_key=sealing, agreement_key=agreement, signature=signature),
        ephemeral_key=ephemeral,
        prekey_id=prekey_id,
        kem_ciphertext=ciphertext,
        one_time_id=_ONE_TIME_ID.unpack_from(rest)[0] if flags & _HAS_ONE_TIME else None,
    )


def _check_ratchet(ratchet: bytes) -> None:
    if len(ratchet) < MIN_RATCHET_BYTES:
        raise Malformed(f"a ratchet message has at least {MIN_RATCHET_BYTES} bytes, not {len(ratchet)}")


def _opening_bytes(flags: int) -> int:
    if not flags & _HAS_OPENING or flags > _HAS_OPENING | _HAS_ONE_TIME:
        raise Malformed(f"the flags of an opening must be 1 or 3, not {flags}")
    return _FLAGS_BYTES + _OPENING.size + (_ONE_TIME_ID.size if flags & _HAS_ONE_TIME else 0)

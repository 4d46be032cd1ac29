"""Encrypt and decrypt session messages, and accept a session with its first message (SPEC 8.2-8.5).

Each function returns the new state beside its result. The host stores both in one transaction, or neither.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from restante.crypto.handshake import Agreed, respond
from restante.crypto.identity import Identity
from restante.crypto.prekeys import PrekeyStore, without_one_time
from restante.crypto.ratchet import RatchetState, decrypt, encrypt
from restante.crypto.sealing import unseal
from restante.model.error_codes import Code
from restante.model.errors import RemoteProtocolError, RestanteError
from restante.model.ids import Address, MessageId, PayloadHash, SessionId
from restante.model.prekey_bundle import Opening
from restante.policy.padding import pad, unpad
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.envelope_parser import parse_envelope
from restante.wire.session_message import SessionMessage, decode_session_message, encode_session_message

UNSEALED_TOGETHER: Final = 16
"""Each step is done for this many envelopes before the next step, which was measured to be faster than one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A session that a peer opened, after its first message. `prekeys` lacks the one that was used."""

    agreed: Agreed
    prekeys: PrekeyStore
    plaintext: bytes = field(repr=False)


class UnsealedMessage(NamedTuple):
    """What is known of an envelope before decryption (SPEC 9.1). It is a tuple because one is made per envelope."""

    message: SessionMessage
    payload_hash: PayloadHash
    envelope_bytes: int
    tag: bytes
    tagged: bytes
    """The bytes that the sender tag covers."""


class _Viewed(NamedTuple):
    """The parts of an envelope for us that are readable before unsealing."""

    sealed: bytes
    payload_hash: PayloadHash
    envelope_bytes: int


def unseal_envelope(raw: bytes, *, recipient: Identity) -> UnsealedMessage:
    """Unseal an envelope; the message inside is still encrypted. Raise if it is damaged or for another recipient."""
    [opened] = unseal_envelopes([raw], recipient=recipient)
    if isinstance(opened, RestanteError):
        raise opened
    return opened


def unseal_envelopes(envelopes: Sequence[bytes], *, recipient: Identity) -> list[UnsealedMessage | RestanteError]:
    """Unseal several envelopes, in order. A refused one gives its error in the list."""
    arrivals: list[UnsealedMessage | RestanteError] = []
    for start in range(0, len(envelopes), UNSEALED_TOGETHER):
        viewed = [_view(raw) for raw in envelopes[start : start + UNSEALED_TOGETHER]]
        padded = [_unsealed(one, recipient) for one in viewed]
        arrivals += map(_arrival, viewed, padded)
    return arrivals


def _view(raw: bytes) -> _Viewed | RestanteError:
    try:
        _, _, sealed = parse_envelope(raw)
    except RestanteError as problem:
        return problem
    return _Viewed(sealed, hash_sealed_bytes(sealed), len(raw))


def _unsealed(viewed: _Viewed | RestanteError, recipient: Identity) -> bytes | RestanteError:
    if isinstance(viewed, RestanteError):
        return viewed
    try:
        return unseal(viewed.sealed, recipient)
    except RestanteError as problem:
        return problem


def _arrival(viewed: _Viewed | RestanteError, padded: bytes | RestanteError) -> UnsealedMessage | RestanteError:
    if isinstance(viewed, RestanteError):
        return viewed
    if isinstance(padded, RestanteError):
        return padded
    try:
        message, tag, covered = decode_session_message(unpad(padded))
    except RestanteError as problem:
        return problem
    return UnsealedMessage(message, viewed.payload_hash, viewed.envelope_bytes, tag, covered)


def encrypt_message(
    ratchet: RatchetState,
    plaintext: bytes,
    *,
    sender: Address,
    session_id: SessionId,
    message_id: MessageId,
    generation: int,
    opening: Opening | None,
    make_tag: Callable[[bytes], bytes],
    entropy: bytes,
) -> tuple[RatchetState, bytes]:
    """Encrypt, tag and pad the next message. `opening` is the session's, if we are its initiator.

    Padding is outside the ratchet, so that a first message, which is longer, has one of the usual sizes, too.
    """
    after, sealed = encrypt(ratchet, plaintext, message_id, entropy=entropy)
    message = SessionMessage(
        sender=sender,
        session_id=session_id,
        message_id=message_id,
        generation=generation,
        ratchet=sealed,
        opening=None if ratchet.is_answered else opening,
    )
    return after, pad(encode_session_message(message, make_tag))


def decrypt_message(ratchet: RatchetState, message: SessionMessage, *, now_ms: int) -> tuple[RatchetState, bytes]:
    """Decrypt a message of the session that `ratchet` belongs to."""
    return decrypt(ratchet, message.ratchet, message.message_id, now_ms=now_ms)


def accept_session(message: SessionMessage, *, recipient: Identity, prekeys: PrekeyStore, now_ms: int) -> Accepted:
    """Accept a session with its first message. If it raises, no prekey is used up."""
    if message.opening is None:
        raise RemoteProtocolError("the message belongs to an unknown session", code=Code.SESSION_INVALID)
    agreed = respond(recipient, message.opening, generation=message.generation, prekeys=prekeys, now_ms=now_ms)
    if agreed.session_id != message.session_id:
        raise RemoteProtocolError(
            "the opening does not match the session id of its message", code=Code.AUTHENTICATION_FAILED
        )
    ratchet, plaintext = decrypt_message(agreed.ratchet, message, now_ms=now_ms)
    spent = message.opening.one_time_id
    return Accepted(
        agreed=replace(agreed, ratchet=ratchet),
        prekeys=prekeys if spent is None else without_one_time(prekeys, spent),
        plaintext=plaintext,
    )

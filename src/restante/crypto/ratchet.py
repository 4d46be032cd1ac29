"""The Double Ratchet by Signal's specification: one key per message, renewed by every round trip (SPEC 8.2).

Every function takes a state and returns a new one. So a refused message changes nothing, and a state that was not
written to disk is not used. A message here is header, random bytes and ciphertext. It must be sealed once more for its
recipient (SPEC 8.5), because the header shows counters. `context` binds the messages to both sides.

The sending half of a ratchet turn is done by the next `encrypt`. Until then neither the new ratchet key nor the old one
exists. A message key is derived from the chain and from fresh random bytes that travel with the message: a state
restored from a backup repeats a chain key, but encrypts no two plaintexts under one message key (SPEC 8.12).
"""

import struct
from collections.abc import Mapping
from itertools import islice
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from restante.crypto.key_derivation import KEY_BYTES, chain_step, message_key, root_step
from restante.model.error_codes import Code
from restante.model.errors import LocalProtocolError, Malformed, RemoteProtocolError
from restante.model.ids import exactly

MAX_SKIPPED_KEYS: Final = 1_000  # SPEC 8.2; also the largest jump from the last message (SPEC 9.4)
SKIPPED_KEY_LIFE_MS: Final = 30 * 86_400_000  # SPEC 8.2
MAX_COUNT: Final = 0xFFFF_FFFF

RANDOM_BYTES: Final = 16  # SPEC 8.12
ENCRYPT_ENTROPY_BYTES: Final = RANDOM_BYTES + KEY_BYTES
"""The entropy that `encrypt` needs: the random part of the message key, and a ratchet key in case one is due."""

_HEADER: Final = struct.Struct(">32sII")
_HEADER_AND_RANDOM: Final = struct.Struct(f">32sII{RANDOM_BYTES}s")
_MESSAGE_NAME_BYTES: Final = 36  # ratchet key and number: the name of a skipped key
RATCHET_OVERHEAD_BYTES: Final = _HEADER_AND_RANDOM.size + 16
_NONCE: Final = bytes(12)  # constant, because each key encrypts one message
NONE_YET: Final = b""
"""Stands for a key that does not exist yet."""


class MessageKeyGone(RemoteProtocolError):
    """The key of this message was used or deleted before: a replay, or a message that arrived too late (SPEC 9.1)."""

    def __init__(self) -> None:
        super().__init__("the key of this message was used before or has been deleted", code=Code.AUTHENTICATION_FAILED)


class GapTooLarge(RemoteProtocolError):
    """More messages are missing before this one than keys may be stored for. The session must be reset (SPEC 9.4)."""

    def __init__(self, gap: int) -> None:
        super().__init__(
            f"{gap} messages are missing before this one; at most {MAX_SKIPPED_KEYS} may be", code=Code.SESSION_INVALID
        )


class SkippedKey(NamedTuple):
    """What the chain gives for a message that has not come yet. Its key also needs the message's random bytes."""

    seed: bytes
    stored_at_ms: int


class RatchetState(NamedTuple):
    """The state of one side of a session. It is a tuple because one is made per message, three times faster than a
    dataclass.

    If a turn is due before the next message, `sending_key` and `own_public` are `NONE_YET` and `own_key` is None.
    `receiving_key` is `NONE_YET` until the first message was received.
    """

    context: bytes
    root_key: bytes
    own_key: X25519PrivateKey | None
    own_public: bytes
    their_public: bytes
    sending_key: bytes
    sent: int
    sent_before: int
    receiving_key: bytes
    received: int
    skipped: Mapping[bytes, SkippedKey]

    def __repr__(self) -> str:
        return "RatchetState(…)"  # printing a state must not reveal its keys

    @property
    def is_answered(self) -> bool:
        """Return whether the peer has sent anything. Until then the initiator repeats the opening."""
        return self.receiving_key != NONE_YET


def start_as_initiator(context: bytes, secret: bytes, *, prekey: bytes, private: bytes) -> RatchetState:
    """Return the initiator's state, from the agreed secret and the responder's signed prekey."""
    own = X25519PrivateKey.from_private_bytes(exactly(private, KEY_BYTES, "ratchet key"))
    root_key, sending_key = root_step(exactly(secret, KEY_BYTES, "agreed secret"), _agree(own, prekey))
    own_public = own.public_key().public_bytes_raw()
    return RatchetState(context, root_key, own, own_public, prekey, sending_key, 0, 0, NONE_YET, 0, {})


def start_as_responder(context: bytes, secret: bytes, *, prekey: X25519PrivateKey) -> RatchetState:
    """Return the responder's state. It must receive before it can send."""
    exactly(secret, KEY_BYTES, "agreed secret")
    own_public = prekey.public_key().public_bytes_raw()
    return RatchetState(context, secret, prekey, own_public, NONE_YET, NONE_YET, 0, 0, NONE_YET, 0, {})


def encrypt(
    state: RatchetState, plaintext: bytes, associated_data: bytes, *, entropy: bytes
) -> tuple[RatchetState, bytes]:
    """Encrypt the next message. The new state must be on disk before the message is sent."""
    if len(entropy) != ENCRYPT_ENTROPY_BYTES:
        raise Malformed(f"encrypting takes {ENCRYPT_ENTROPY_BYTES} random bytes, not {len(entropy)}")
    if not state.sending_key:
        state = _turn_to_send(state, entropy[RANDOM_BYTES:])
    context, root_key, own, own_public, their, sending_key, sent, before, receiving_key, received, skipped = state
    if sent >= MAX_COUNT:
        raise LocalProtocolError("a chain has no more numbers: the session must be reset", code=Code.SESSION_INVALID)
    seed, next_key = chain_step(sending_key)
    header = _HEADER.pack(own_public, sent, before)
    random = entropy[:RANDOM_BYTES]
    sealed = AESGCM(message_key(seed, random)).encrypt(_NONCE, plaintext, context + header + associated_data)
    after = RatchetState(
        context, root_key, own, own_public, their, next_key, sent + 1, before, receiving_key, received, skipped
    )
    return after, header + random + sealed


def decrypt(state: RatchetState, message: bytes, associated_data: bytes, *, now_ms: int) -> tuple[RatchetState, bytes]:
    """Decrypt a message. If it raises, the caller goes on with the old state."""
    if len(message) < RATCHET_OVERHEAD_BYTES:
        raise Malformed(f"a ratchet message has at least {RATCHET_OVERHEAD_BYTES} bytes, not {len(message)}")
    their, number, before, random = _HEADER_AND_RANDOM.unpack_from(message)
    bound = state.context + message[: _HEADER.size] + associated_data
    sealed = message[_HEADER_AND_RANDOM.size :]
    if state.skipped:
        state = delete_expired_keys(state, now_ms=now_ms)
        kept = state.skipped.get(message[:_MESSAGE_NAME_BYTES])
        if kept is not None:
            plaintext = _open(kept.seed, random, sealed, bound)
            return _without_key(state, message[:_MESSAGE_NAME_BYTES]), plaintext
    if number != state.received or their != state.their_public or not state.receiving_key:
        state = _at(state, their, number, before, now_ms=now_ms)
    context, root_key, own, own_public, _, sending_key, sent, sent_before, receiving_key, _, skipped = state
    seed, next_key = chain_step(receiving_key)
    plaintext = _open(seed, random, sealed, bound)
    after = RatchetState(
        context, root_key, own, own_public, their, sending_key, sent, sent_before, next_key, number + 1, skipped
    )
    return after, plaintext


def delete_expired_keys(state: RatchetState, *, now_ms: int) -> RatchetState:
    """Delete expired skipped keys. They are stored in order of age, so that the oldest come first."""
    if not state.skipped or now_ms - next(iter(state.skipped.values())).stored_at_ms < SKIPPED_KEY_LIFE_MS:
        return state
    fresh = {name: kept for name, kept in state.skipped.items() if now_ms - kept.stored_at_ms < SKIPPED_KEY_LIFE_MS}
    return state._replace(skipped=fresh)


def _at(state: RatchetState, their: bytes, number: int, before: int, *, now_ms: int) -> RatchetState:
    """Return the state whose receiving chain is at this message, with the keys of skipped messages stored."""
    has_chain = state.receiving_key != NONE_YET
    if has_chain and their == state.their_public:
        if number == state.received:
            return state
        if number < state.received:
            raise MessageKeyGone
        _check_gap(number - state.received)
        return _jump(state, number, now_ms=now_ms)
    if state.own_key is None:
        raise _refused()  # the peer turns only after a message of ours, and we sent none since its last turn
    # Count the whole distance: SPEC 9.4 limits it across ratchet turns.
    _check_gap(number + (max(0, before - state.received) if has_chain else 0))
    root_key, receiving_key = root_step(state.root_key, _agree(state.own_key, their))
    if has_chain and before > state.received:
        state = _jump(state, before, now_ms=now_ms)
    turned = state._replace(
        root_key=root_key,
        own_key=None,
        own_public=NONE_YET,
        their_public=their,
        sending_key=NONE_YET,
        receiving_key=receiving_key,
        received=0,
    )
    return _jump(turned, number, now_ms=now_ms) if number else turned


def _jump(state: RatchetState, number: int, *, now_ms: int) -> RatchetState:
    chain_key = state.receiving_key
    skipped = dict(state.skipped)
    for missing in range(state.received, number):
        seed, chain_key = chain_step(chain_key)
        skipped[state.their_public + missing.to_bytes(4, "big")] = SkippedKey(seed, now_ms)
    surplus = len(skipped) - MAX_SKIPPED_KEYS
    if surplus > 0:
        skipped = dict(islice(skipped.items(), surplus, None))
    return state._replace(receiving_key=chain_key, received=number, skipped=skipped)


def _check_gap(gap: int) -> None:
    """Check the gap before any key is derived, so that a message from far ahead costs no more than another."""
    if gap > MAX_SKIPPED_KEYS:
        raise GapTooLarge(gap)


def _turn_to_send(state: RatchetState, private: bytes) -> RatchetState:
    if not state.their_public:
        raise LocalProtocolError("the responder of a session must receive before it can send")
    own = X25519PrivateKey.from_private_bytes(private)
    root_key, sending_key = root_step(state.root_key, _agree(own, state.their_public))
    return state._replace(
        root_key=root_key,
        own_key=own,
        own_public=own.public_key().public_bytes_raw(),
        sending_key=sending_key,
        sent=0,
        sent_before=state.sent,
    )


def _without_key(state: RatchetState, name: bytes) -> RatchetState:
    rest = dict(state.skipped)
    del rest[name]
    return state._replace(skipped=rest)


def _agree(own: X25519PrivateKey, their: bytes) -> bytes:
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(their))
    except ValueError:  # not 32 bytes, or of small order
        raise _refused() from None


def _open(seed: bytes, random: bytes, sealed: bytes, bound: bytes) -> bytes:
    try:
        return AESGCM(message_key(seed, random)).decrypt(_NONCE, sealed, bound)
    except InvalidTag:
        raise _refused() from None


def _refused() -> RemoteProtocolError:
    return RemoteProtocolError("the message cannot be decrypted in this session", code=Code.AUTHENTICATION_FAILED)

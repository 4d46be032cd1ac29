"""The handshake of a session, while the responder is offline (SPEC 8.1, 8.3), modelled on Signal's PQXDH.

Four X25519 agreements (three if no one-time prekey is left) and one ML-KEM-768 secret are the input of one HKDF. The
result is secret as long as one of the two kinds is unbroken. The transcript is not signed: the initiator is
authenticated by taking part in the first agreement. The transcript contains every key and both sides. Its hash is the
session id and part of the ratchet's context.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Final

from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from restante.crypto.identity import Identity, verify_card
from restante.crypto.key_derivation import KEY_BYTES, hkdf
from restante.crypto.prekeys import PrekeyStore, one_time_prekey, signed_prekey
from restante.crypto.ratchet import RatchetState, start_as_initiator, start_as_responder
from restante.model.contact_card import ContactCard
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RemoteProtocolError
from restante.model.ids import Address, SessionId, exactly
from restante.model.prekey_bundle import OneTimePrekey, Opening, PrekeyBundle

HANDSHAKE_ENTROPY_BYTES: Final = 2 * KEY_BYTES
"""The entropy that `initiate` needs: an ephemeral key and the first ratchet key."""
KEM_CIPHERTEXT_BYTES: Final = 1088

_TRANSCRIPT_DOMAIN: Final = b"restante-handshake-v1"
_SESSION_DOMAIN: Final = b"restante-session-id-v1"
_SECRET_LABEL: Final = b"restante-handshake-secret-v1"
_CONTEXT_DOMAIN: Final = b"restante-ratchet-v1"
_CURVE_PREFIX: Final = b"\xff" * 32  # as in PQXDH: separates the input from any encoded curve point
_ABSENT: Final = b"\x00"
_PRESENT: Final = b"\x01"


@dataclass(frozen=True, slots=True, kw_only=True)
class Encapsulation:
    """A new ML-KEM secret and the ciphertext that transports it."""

    secret: bytes = field(repr=False)
    ciphertext: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """The result of a handshake, on either side."""

    session_id: SessionId
    generation: int
    peer: ContactCard
    opening: Opening
    ratchet: RatchetState

    @property
    def has_one_time_prekey(self) -> bool:
        """Return whether a one-time prekey was used. Without one, the first message is protected only by the signed
        prekey."""
        return self.opening.one_time_id is not None


def encapsulate(bundle: PrekeyBundle) -> Encapsulation:
    """Encapsulate a new ML-KEM secret. The library draws the randomness and offers no way to pass it in."""
    secret, ciphertext = MLKEM768PublicKey.from_public_bytes(bundle.kem_prekey).encapsulate()
    return Encapsulation(secret=secret, ciphertext=ciphertext)


def initiate(
    sender: Identity,
    bundle: PrekeyBundle,
    *,
    one_time: OneTimePrekey | None,
    encapsulation: Encapsulation,
    entropy: bytes,
    generation: int,
) -> Agreed:
    """Open a session with the owner of a verified bundle."""
    exactly(entropy, HANDSHAKE_ENTROPY_BYTES, "entropy for a handshake")
    ephemeral = X25519PrivateKey.from_private_bytes(entropy[:KEY_BYTES])
    opening = Opening(
        card=sender.card,
        ephemeral_key=ephemeral.public_key().public_bytes_raw(),
        prekey_id=bundle.prekey_id,
        kem_ciphertext=encapsulation.ciphertext,
        one_time_id=None if one_time is None else one_time.prekey_id,
    )
    agreements = [
        (sender.agreement_key, bundle.prekey),
        (ephemeral, bundle.card.agreement_key),
        (ephemeral, bundle.prekey),
    ]
    if one_time is not None:
        agreements.append((ephemeral, one_time.key))
    transcript = _transcript(
        opening,
        bundle.card,
        prekey=bundle.prekey,
        kem_prekey=bundle.kem_prekey,
        one_time_key=None if one_time is None else one_time.key,
        generation=generation,
    )
    session = _session_id(transcript)
    ratchet = start_as_initiator(
        _context(sender.address, bundle.card.address, session),
        _secret(agreements, encapsulation.secret, transcript),
        prekey=bundle.prekey,
        private=entropy[KEY_BYTES:],
    )
    return Agreed(session_id=session, generation=generation, peer=bundle.card, opening=opening, ratchet=ratchet)


def respond(recipient: Identity, opening: Opening, *, generation: int, prekeys: PrekeyStore, now_ms: int) -> Agreed:
    """Compute the responder's side of the session. No prekey is used up before the first message was decrypted."""
    card = verify_card(opening.card)
    signed = signed_prekey(prekeys, opening.prekey_id, now_ms=now_ms)
    one_time = None if opening.one_time_id is None else one_time_prekey(prekeys, opening.one_time_id)
    prekey = X25519PrivateKey.from_private_bytes(signed.private)
    kem = MLKEM768PrivateKey.from_seed_bytes(signed.kem_seed)
    agreements = [
        (prekey, card.agreement_key),
        (recipient.agreement_key, opening.ephemeral_key),
        (prekey, opening.ephemeral_key),
    ]
    if one_time is not None:
        agreements.append((one_time, opening.ephemeral_key))
    transcript = _transcript(
        opening,
        recipient.card,
        prekey=prekey.public_key().public_bytes_raw(),
        kem_prekey=kem.public_key().public_bytes_raw(),
        one_time_key=None if one_time is None else one_time.public_key().public_bytes_raw(),
        generation=generation,
    )
    kem_secret = kem.decapsulate(exactly(opening.kem_ciphertext, KEM_CIPHERTEXT_BYTES, "KEM ciphertext"))
    session = _session_id(transcript)
    ratchet = start_as_responder(
        _context(card.address, recipient.address, session), _secret(agreements, kem_secret, transcript), prekey=prekey
    )
    return Agreed(session_id=session, generation=generation, peer=card, opening=opening, ratchet=ratchet)


def _secret(agreements: list[tuple[X25519PrivateKey, bytes]], kem_secret: bytes, transcript: bytes) -> bytes:
    try:
        shared = [own.exchange(X25519PublicKey.from_public_bytes(theirs)) for own, theirs in agreements]
    except ValueError:
        raise RemoteProtocolError(
            "the handshake contains a key of small order", code=Code.AUTHENTICATION_FAILED
        ) from None
    secret = _CURVE_PREFIX + b"".join(shared) + kem_secret
    return hkdf(secret, salt=bytes(KEY_BYTES), info=_SECRET_LABEL + transcript, size=KEY_BYTES)


def _transcript(
    opening: Opening,
    responder: ContactCard,
    *,
    prekey: bytes,
    kem_prekey: bytes,
    one_time_key: bytes | None,
    generation: int,
) -> bytes:
    """Return the hash of everything both sides saw. Every part has a fixed size or is marked as absent."""
    if opening.one_time_id is None or one_time_key is None:
        one_time = _ABSENT
    else:
        one_time = _PRESENT + opening.one_time_id.to_bytes(4, "big") + one_time_key
    parts = (
        _TRANSCRIPT_DOMAIN,
        generation.to_bytes(4, "big"),
        *_card_parts(opening.card),
        *_card_parts(responder),
        opening.ephemeral_key,
        opening.prekey_id.to_bytes(4, "big"),
        prekey,
        kem_prekey,
        opening.kem_ciphertext,
        one_time,
    )
    return hashlib.sha256(b"".join(parts)).digest()


def _card_parts(card: ContactCard) -> tuple[bytes, bytes, bytes]:
    return card.address, card.agreement_key, card.sealing_key


def _session_id(transcript: bytes) -> SessionId:
    return SessionId(hashlib.sha256(_SESSION_DOMAIN + transcript).digest())


def _context(initiator: Address, responder: Address, session: SessionId) -> bytes:
    """Return the associated data of all messages of the session, the same in both directions."""
    if initiator == responder:
        raise Malformed("initiator and responder of a session must be different addresses")
    return _CONTEXT_DOMAIN + initiator + responder + session

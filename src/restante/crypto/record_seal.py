"""Encrypt prekey records, so that only those who know the owner's address can read them (SPEC 7.6).

Nodes store a record under its blinded key and verify its signature, but can't read it.
"""

from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from restante.crypto.key_derivation import hkdf
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RemoteProtocolError
from restante.model.ids import Address, BlindedKey, address, exactly

RECORD_NONCE_BYTES: Final = 12
RECORD_OVERHEAD_BYTES: Final = RECORD_NONCE_BYTES + 16
_INFO: Final = b"restante-record-v1"


def record_key(owner: Address, blinded: BlindedKey) -> bytes:
    """Return the key of the record that is signed by this blinded key."""
    return hkdf(address(owner), salt=blinded, info=_INFO, size=32)


def seal_record(bundle: bytes, *, owner: Address, blinded: BlindedKey, nonce: bytes) -> bytes:
    """Return nonce and ciphertext. `nonce` is 12 fresh random bytes."""
    exactly(nonce, RECORD_NONCE_BYTES, "nonce")
    return nonce + AESGCM(record_key(owner, blinded)).encrypt(nonce, bundle, blinded)


def unseal_record(sealed: bytes, *, owner: Address, blinded: BlindedKey) -> bytes:
    if len(sealed) < RECORD_OVERHEAD_BYTES:
        raise Malformed(f"a sealed record has at least {RECORD_OVERHEAD_BYTES} bytes, not {len(sealed)}")
    nonce, body = sealed[:RECORD_NONCE_BYTES], sealed[RECORD_NONCE_BYTES:]
    try:
        return AESGCM(record_key(owner, blinded)).decrypt(nonce, body, blinded)
    except InvalidTag:
        raise RemoteProtocolError(
            "the prekey record can't be decrypted with this address", code=Code.AUTHENTICATION_FAILED
        ) from None

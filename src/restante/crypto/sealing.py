"""Seal a message for one recipient with hybrid HPKE (ML-KEM-768 + X25519), RFC 9180 single shot.

Only the recipient learns the sender; the session inside authenticates it. The library draws the ephemeral key, because
its HPKE offers no way to pass one in (docs/decisions/0005).
"""

from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, MLKEM768X25519PublicKey, Suite

from restante.crypto.identity import MLKEM_PUBLIC_BYTES, Identity
from restante.model.contact_card import ContactCard
from restante.model.error_codes import Code
from restante.model.errors import RemoteProtocolError

_SUITE: Final = Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
_INFO: Final = b"restante-sealed-v1"
SEALING_OVERHEAD_BYTES: Final = 1088 + 32 + 16
"""ML-KEM-768 ciphertext, X25519 share and AEAD tag."""
REMEMBERED_KEYS: Final = 256


def seal(plaintext: bytes, recipient: ContactCard) -> bytes:
    """Seal `plaintext` so that only the recipient can unseal it."""
    return _SUITE.encrypt(plaintext, _public_key(recipient.sealing_key), info=_INFO + recipient.address)


def unseal(sealed: bytes, recipient: Identity) -> bytes:
    """Unseal `sealed`. Raise if it was sealed for another recipient or changed."""
    try:
        return _SUITE.decrypt(sealed, recipient.sealing_key, info=_INFO + recipient.address)
    except (InvalidTag, ValueError):
        raise RemoteProtocolError(
            "the sealed bytes cannot be unsealed with this identity", code=Code.AUTHENTICATION_FAILED
        ) from None


@lru_cache(maxsize=REMEMBERED_KEYS)
def _public_key(sealing_key: bytes) -> MLKEM768X25519PublicKey:
    """Parse a sealing key, cached: parsing is a fifth of the cost of sealing, and most mail goes to few recipients."""
    return MLKEM768X25519PublicKey(
        MLKEM768PublicKey.from_public_bytes(sealing_key[:MLKEM_PUBLIC_BYTES]),
        X25519PublicKey.from_public_bytes(sealing_key[MLKEM_PUBLIC_BYTES:]),
    )

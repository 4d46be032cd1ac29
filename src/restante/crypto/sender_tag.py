"""Sender tags: an HMAC by which a recipient recognises bytes of a contact before any session is used (SPEC 8.11).

The key comes from the two identity agreement keys alone. It needs no session, so it survives the loss of all of them.
Both sides can compute it: the tag tells contacts from outsiders and proves nothing to a third party.
"""

import hmac
from functools import lru_cache
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

from restante.crypto.identity import Identity
from restante.crypto.key_derivation import KEY_BYTES, hkdf
from restante.model.contact_card import ContactCard
from restante.model.error_codes import Code
from restante.model.errors import RemoteProtocolError

SENDER_TAG_BYTES: Final = 16  # SPEC 8.11
CACHED_KEYS: Final = 4_096
"""Keys of contacts held in memory. Deriving one takes an X25519 exchange; using it takes an HMAC."""

_LABEL: Final = b"restante-sender-tag-v1"


class SenderTags:
    """The tag keys of one identity with its contacts."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._key = lru_cache(maxsize=CACHED_KEYS)(self._derive)

    def make(self, message: bytes, *, recipient: ContactCard) -> bytes:
        """Return the tag for a message of this identity to `recipient`."""
        key = self._key(recipient.agreement_key, self._identity.address + recipient.address)
        return hmac.digest(key, message, "sha256")[:SENDER_TAG_BYTES]

    def is_valid(self, tag: bytes, message: bytes, *, sender: ContactCard) -> bool:
        """Return whether `sender` made this tag for this identity, in constant time."""
        key = self._key(sender.agreement_key, sender.address + self._identity.address)
        return hmac.compare_digest(tag, hmac.digest(key, message, "sha256")[:SENDER_TAG_BYTES])

    def _derive(self, agreement_key: bytes, direction: bytes) -> bytes:
        try:
            shared = self._identity.agreement_key.exchange(X25519PublicKey.from_public_bytes(agreement_key))
        except ValueError:
            text = "the contact card holds an agreement key that can't be used"
            raise RemoteProtocolError(text, code=Code.AUTHENTICATION_FAILED) from None
        return hkdf(shared, salt=b"", info=_LABEL + direction, size=KEY_BYTES)

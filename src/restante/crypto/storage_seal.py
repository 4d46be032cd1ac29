"""Seal values on the local disk under the storage key (SPEC 8.6)."""

from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError
from restante.model.ids import exactly

NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_VERSION: Final = b"\x01"


class StorageSeal:
    """Seals and opens values under one key. `context` binds a value to its row, so that rows cannot be swapped."""

    __slots__ = ("_aead",)

    def __init__(self, key: bytes) -> None:
        self._aead = AESGCM(exactly(key, 32, "storage key"))

    def seal(self, plaintext: bytes, *, nonce: bytes, context: bytes) -> bytes:
        exactly(nonce, NONCE_BYTES, "nonce")
        return _VERSION + nonce + self._aead.encrypt(nonce, plaintext, _VERSION + context)

    def unseal(self, sealed: bytes, *, context: bytes) -> bytes:
        if len(sealed) < 1 + NONCE_BYTES + _TAG_BYTES or sealed[:1] != _VERSION:
            raise Malformed("not a sealed value of this version")
        nonce, body = sealed[1 : 1 + NONCE_BYTES], sealed[1 + NONCE_BYTES :]
        try:
            return self._aead.decrypt(nonce, body, _VERSION + context)
        except InvalidTag:
            raise RestanteError(
                "a stored value cannot be unsealed: wrong storage key, or the file was changed",
                code=Code.AUTHENTICATION_FAILED,
            ) from None

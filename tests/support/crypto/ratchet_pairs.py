"""Two sides of a ratchet session, and the same two sides as `DoubleRatchet` from PyPI sees them.

The oracle is given our key derivations and our AEAD by other means than ours: the standard library's HMAC, the
library's HKDF. All else (when to turn, which keys to skip, what a header says) is its own.
"""

import asyncio
import hmac
import random
import struct
from collections.abc import Coroutine
from typing import Any, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from doubleratchet import AuthenticationFailedException, DoubleRatchet, EncryptedMessage, Header
from doubleratchet import aead as oracle_aead
from doubleratchet import kdf as oracle_kdf
from doubleratchet.recommended.diffie_hellman_ratchet_curve25519 import DiffieHellmanRatchet

from restante.crypto.ratchet import (
    ENCRYPT_ENTROPY_BYTES,
    RatchetState,
    decrypt,
    encrypt,
    start_as_initiator,
    start_as_responder,
)

CONTEXT = b"both identities and the transcript"
SECRET = bytes(range(32))
PREKEY = X25519PrivateKey.from_private_bytes(b"p" * 32)
PREKEY_PUBLIC = PREKEY.public_key().public_bytes_raw()
NOW_MS = 1_800_000_000_000
Answer = TypeVar("Answer")


class Side:
    """One of our states with its dice. `receive` and `send` move on only when they succeed."""

    def __init__(self, state: RatchetState, seed: int) -> None:
        self.state = state
        self._dice = random.Random(seed)  # noqa: S311 - reproducible on purpose

    def send(self, plaintext: bytes, associated_data: bytes = b"") -> bytes:
        entropy = self._dice.randbytes(ENCRYPT_ENTROPY_BYTES)
        self.state, message = encrypt(self.state, plaintext, associated_data, entropy=entropy)
        return message

    def receive(self, message: bytes, associated_data: bytes = b"", *, now_ms: int = NOW_MS) -> bytes:
        self.state, plaintext = decrypt(self.state, message, associated_data, now_ms=now_ms)
        return plaintext


def initiator(seed: int = 1) -> Side:
    return Side(start_as_initiator(CONTEXT, SECRET, prekey=PREKEY_PUBLIC, private=bytes([seed]) * 32), seed)


def responder(seed: int = 2) -> Side:
    return Side(start_as_responder(CONTEXT, SECRET, prekey=PREKEY), seed)


def pair() -> tuple[Side, Side]:
    """A session whose first message was received and answered."""
    alice, bob = initiator(), responder()
    assert bob.receive(alice.send(b"first")) == b"first"
    assert alice.receive(bob.send(b"answer")) == b"answer"
    return alice, bob


def finish(work: Coroutine[Any, Any, Answer]) -> Answer:
    """The oracle's coroutines never wait for anything."""
    return asyncio.run(work)


class RootKdf(oracle_kdf.KDF):
    @staticmethod
    async def derive(key: bytes, data: bytes, length: int) -> bytes:
        return HKDF(hashes.SHA256(), length, key, b"restante-ratchet-root-v1").derive(data)


class ChainKdf(oracle_kdf.KDF):
    @staticmethod
    async def derive(key: bytes, data: bytes, length: int) -> bytes:
        assert (data, length) == (b"", 64)
        return hmac.digest(key, b"\x02", "sha256") + hmac.digest(key, b"\x01", "sha256")


class Aead(oracle_aead.AEAD):
    @staticmethod
    async def encrypt(plaintext: bytes, key: bytes, associated_data: bytes) -> bytes:
        random = hmac.digest(key, b"random bytes for tests", "sha256")[:16]
        return random + AESGCM(hmac.digest(key, random, "sha256")).encrypt(bytes(12), plaintext, associated_data)

    @staticmethod
    async def decrypt(ciphertext: bytes, key: bytes, associated_data: bytes) -> bytes:
        try:
            message_key = hmac.digest(key, ciphertext[:16], "sha256")
            return AESGCM(message_key).decrypt(bytes(12), ciphertext[16:], associated_data)
        except InvalidTag:
            raise AuthenticationFailedException from None


class _Oracle(DoubleRatchet):
    @staticmethod
    def _build_associated_data(associated_data: bytes, header: Header) -> bytes:
        return CONTEXT + _header(header) + associated_data


_SETTINGS: dict[str, Any] = {
    "diffie_hellman_ratchet_class": DiffieHellmanRatchet,
    "root_chain_kdf": RootKdf,
    "message_chain_kdf": ChainKdf,
    "message_chain_constant": b"",
    "dos_protection_threshold": 1000,
    "max_num_skipped_message_keys": 1000,
    "aead": Aead,
}


class OracleSide:
    """One side as the oracle plays it, with our bytes on the outside."""

    def __init__(self, *, initiates: bool) -> None:
        self._initiates = initiates
        self._ratchet: DoubleRatchet | None = None

    def send(self, plaintext: bytes, associated_data: bytes = b"") -> bytes:
        if self._ratchet is None:
            assert self._initiates
            self._ratchet, message = finish(
                _Oracle.encrypt_initial_message(
                    **_SETTINGS,
                    shared_secret=SECRET,
                    recipient_ratchet_pub=PREKEY_PUBLIC,
                    message=plaintext,
                    associated_data=associated_data,
                )
            )
        else:
            message = finish(self._ratchet.encrypt_message(plaintext, associated_data))
        return _header(message.header) + message.ciphertext

    def receive(self, raw: bytes, associated_data: bytes = b"") -> bytes:
        public, number, before = struct.unpack_from(">32sII", raw)
        message = EncryptedMessage(Header(public, before, number), raw[40:])
        if self._ratchet is None:
            self._ratchet, plaintext = finish(
                _Oracle.decrypt_initial_message(
                    **_SETTINGS,
                    shared_secret=SECRET,
                    own_ratchet_priv=PREKEY.private_bytes_raw(),
                    message=message,
                    associated_data=associated_data,
                )
            )
            return plaintext
        return finish(self._ratchet.decrypt_message(message, associated_data))


def _header(header: Header) -> bytes:
    return header.ratchet_pub + struct.pack(">II", header.sending_chain_length, header.previous_sending_chain_length)

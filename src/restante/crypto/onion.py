"""Onion layers of a circuit: the handshake with one hop, and the encryption of cells under its keys (SPEC 11.1).

The handshake has the shape of ntor v3, made hybrid: X25519 with the hop's onion key and with an ephemeral key of the
hop, and an ML-KEM-768 key of the client. The hop proves that it holds its onion key by a MAC over the transcript.
Recorded traffic stays closed to a later quantum computer; the authentication is classical.

Each hop has one AES-256-GCM key per direction. The nonce is a counter that is never sent, so a cell that was altered,
repeated, left out or reordered fails to decrypt. Associated data are direction, cell class and the hop's number.
"""

import hashlib
import hmac
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from restante.crypto.key_derivation import KEY_BYTES, hkdf
from restante.model.error_codes import Code
from restante.model.errors import LocalProtocolError, Malformed, RemoteProtocolError
from restante.model.ids import NodeId, exactly

LAYER_BYTES: Final = 16
"""What one layer adds to a cell: the authentication tag."""
CLIENT_ENTROPY_BYTES: Final = 96  # an X25519 key and the seed of an ML-KEM-768 key
HOP_ENTROPY_BYTES: Final = 32  # an X25519 key
CREATE_BYTES: Final = 1_280
CREATED_BYTES: Final = 1_152
MAX_CELLS: Final = 2**48
"""Cells under one key; a circuit lives for minutes and never comes near."""

_DOMAIN: Final = b"restante-onion-v1"
_CREATE: Final = struct.Struct(">32s32s32s1184s")  # node id, onion key, ephemeral key, KEM key
_CREATED: Final = struct.Struct(">32s1088s32s")  # ephemeral key, KEM ciphertext, MAC
_FORWARD: Final = 0
_BACKWARD: Final = 1


@dataclass(frozen=True, slots=True)
class ClientHandshake:
    """What the client keeps until the hop answers. `hop` counts from 1 at the guard."""

    hop: int
    request: bytes
    ephemeral: X25519PrivateKey = field(repr=False)
    kem: MLKEM768PrivateKey = field(repr=False)


class Layer:
    """The keys of one hop, at either end. Counters move only when a cell was encrypted or decrypted."""

    __slots__ = ("_aead", "_associated", "_counters", "hop")

    def __init__(self, forward_key: bytes, backward_key: bytes, *, hop: int) -> None:
        self.hop = hop
        self._aead = (AESGCM(forward_key), AESGCM(backward_key))
        self._associated = _associated(hop)
        self._counters = [0, 0]

    def __repr__(self) -> str:
        return f"Layer(hop={self.hop})"  # printing a layer must not reveal its keys

    def encrypt_forward(self, plaintext: bytes, cell_class: int) -> bytes:
        """Add this hop's layer to a cell that the client sends."""
        return self._encrypt(_FORWARD, plaintext, cell_class)

    def decrypt_forward(self, ciphertext: bytes, cell_class: int) -> bytes:
        """Remove this hop's layer from a cell of the client."""
        return self._decrypt(_FORWARD, ciphertext, cell_class)

    def encrypt_backward(self, plaintext: bytes, cell_class: int) -> bytes:
        """Add this hop's layer to a cell on its way to the client."""
        return self._encrypt(_BACKWARD, plaintext, cell_class)

    def decrypt_backward(self, ciphertext: bytes, cell_class: int) -> bytes:
        """Remove this hop's layer from a cell that the client received."""
        return self._decrypt(_BACKWARD, ciphertext, cell_class)

    def _encrypt(self, direction: int, plaintext: bytes, cell_class: int) -> bytes:
        nonce = self._nonce(direction)
        sealed = self._aead[direction].encrypt(nonce, plaintext, self._associated[direction][cell_class])
        self._counters[direction] += 1
        return sealed

    def _decrypt(self, direction: int, ciphertext: bytes, cell_class: int) -> bytes:
        nonce = self._nonce(direction)
        try:
            plaintext = self._aead[direction].decrypt(nonce, ciphertext, self._associated[direction][cell_class])
        except InvalidTag:
            raise RemoteProtocolError("a cell does not decrypt", code=Code.AUTHENTICATION_FAILED) from None
        self._counters[direction] += 1
        return plaintext

    def _nonce(self, direction: int) -> bytes:
        counter = self._counters[direction]
        if counter >= MAX_CELLS:
            raise LocalProtocolError("a circuit has no more cells")
        return counter.to_bytes(12, "big")


@cache
def _associated(hop: int) -> tuple[tuple[bytes, ...], ...]:
    """Return the associated data by direction and class: the same for every cell, made once."""
    return tuple(tuple(bytes((direction, each, hop)) for each in range(2)) for direction in (_FORWARD, _BACKWARD))


def onion_public_key(private: bytes) -> bytes:
    """Return the public half of a node's onion key."""
    return X25519PrivateKey.from_private_bytes(exactly(private, KEY_BYTES, "onion key")).public_key().public_bytes_raw()


def start_handshake(node_id: NodeId, onion_key: bytes, *, hop: int, entropy: bytes) -> ClientHandshake:
    """Begin a handshake with the node whose descriptor names this onion key."""
    exactly(entropy, CLIENT_ENTROPY_BYTES, "entropy for a circuit handshake")
    ephemeral = X25519PrivateKey.from_private_bytes(entropy[:KEY_BYTES])
    kem = MLKEM768PrivateKey.from_seed_bytes(entropy[KEY_BYTES:])
    request = _CREATE.pack(
        exactly(node_id, KEY_BYTES, "node id"),
        exactly(onion_key, KEY_BYTES, "onion key"),
        ephemeral.public_key().public_bytes_raw(),
        kem.public_key().public_bytes_raw(),
    )
    return ClientHandshake(hop, request, ephemeral, kem)


def answer_handshake(
    request: bytes, *, node_id: NodeId, onion_keys: Mapping[bytes, bytes], hop: int, entropy: bytes
) -> tuple[Layer, bytes]:
    """Answer a client's request as the hop; return its layer and the answer.

    `onion_keys` are the node's valid onion keys, public to private: the current one and the one before it.
    """
    exactly(entropy, HOP_ENTROPY_BYTES, "entropy for a circuit handshake")
    named, onion_key, theirs, kem_key = _CREATE.unpack(exactly(request, CREATE_BYTES, "circuit request"))
    private = onion_keys.get(onion_key)
    if named != node_id or private is None:
        raise RemoteProtocolError("the circuit request is for another node or onion key", code=Code.MALFORMED)
    ephemeral = X25519PrivateKey.from_private_bytes(entropy)
    try:
        kem_secret, ciphertext = MLKEM768PublicKey.from_public_bytes(kem_key).encapsulate()
    except ValueError:
        raise Malformed("the circuit request holds an invalid ML-KEM key") from None
    ours = ephemeral.public_key().public_bytes_raw()
    shared = _agree(ephemeral, theirs) + _agree(X25519PrivateKey.from_private_bytes(private), theirs) + kem_secret
    mac, layer = _derive(shared, request, ours + ciphertext, hop)
    return layer, _CREATED.pack(ours, ciphertext, mac)


def finish_handshake(started: ClientHandshake, answer: bytes) -> Layer:
    """Return the layer of a hop that proved its onion key; raise if it did not."""
    theirs, ciphertext, mac = _CREATED.unpack(exactly(answer, CREATED_BYTES, "circuit answer"))
    onion_key = started.request[KEY_BYTES : 2 * KEY_BYTES]
    kem_secret = started.kem.decapsulate(ciphertext)
    shared = _agree(started.ephemeral, theirs) + _agree(started.ephemeral, onion_key) + kem_secret
    expected, layer = _derive(shared, started.request, theirs + ciphertext, started.hop)
    if not hmac.compare_digest(mac, expected):
        raise RemoteProtocolError("the hop did not prove its onion key", code=Code.AUTHENTICATION_FAILED)
    return layer


def _derive(shared: bytes, request: bytes, answer: bytes, hop: int) -> tuple[bytes, Layer]:
    transcript = hashlib.sha256(_DOMAIN + bytes((hop,)) + request + answer).digest()
    keys = hkdf(shared, salt=transcript, info=_DOMAIN, size=3 * KEY_BYTES)
    mac = hmac.digest(keys[:KEY_BYTES], transcript, "sha256")
    return mac, Layer(keys[KEY_BYTES : 2 * KEY_BYTES], keys[2 * KEY_BYTES :], hop=hop)


def _agree(own: X25519PrivateKey, theirs: bytes) -> bytes:
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(theirs))
    except ValueError:
        raise RemoteProtocolError("the handshake holds an unusable key", code=Code.AUTHENTICATION_FAILED) from None

"""Identities: one 32-byte seed, from which all long-term keys are derived (SPEC 8.1).

The address is the Ed25519 public key. The sealing key is a hybrid of ML-KEM-768 and X25519, the agreement key an X25519
key for handshakes. The address signs both, so that a contact card's keys cannot be replaced in transit.
"""

from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import MLKEM768X25519PrivateKey
from nacl import bindings
from nacl.exceptions import BadSignatureError

from restante.crypto.key_derivation import hkdf
from restante.model.contact_card import ContactCard
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RemoteProtocolError
from restante.model.ids import ADDRESS_BYTES, Address, NodeKey, address, exactly

SEED_BYTES: Final = 32
MLKEM_PUBLIC_BYTES: Final = 1184
X25519_PUBLIC_BYTES: Final = 32
_CARD_DOMAIN: Final = b"restante-card-v2"
_ANY_KEY: Final = X25519PrivateKey.from_private_bytes(bytes(X25519_PUBLIC_BYTES))


class Identity:
    """The secret keys. They sign and unseal, and never leave this object."""

    __slots__ = ("_agreement", "_sealing", "_secret", "_signing", "access_secret", "card", "storage_key", "tag_secret")

    def __init__(self, seed: bytes) -> None:
        exactly(seed, SEED_BYTES, "identity seed")
        signing_seed = _derive(seed, b"sign", 32)
        self._signing = Ed25519PrivateKey.from_private_bytes(signing_seed)
        _, self._secret = bindings.crypto_sign_seed_keypair(signing_seed)
        mlkem = MLKEM768PrivateKey.from_seed_bytes(_derive(seed, b"mlkem", 64))
        x25519 = X25519PrivateKey.from_private_bytes(_derive(seed, b"x25519", 32))
        self._sealing = MLKEM768X25519PrivateKey(mlkem, x25519)
        self._agreement = X25519PrivateKey.from_private_bytes(_derive(seed, b"agreement", 32))
        self.storage_key = _derive(seed, b"storage", 32)
        self.tag_secret = _derive(seed, b"tags", 32)
        self.access_secret = _derive(seed, b"access", 32)
        sealing_key = mlkem.public_key().public_bytes_raw() + x25519.public_key().public_bytes_raw()
        agreement_key = self._agreement.public_key().public_bytes_raw()
        self.card = ContactCard(
            address=address(self._signing.public_key().public_bytes_raw()),
            sealing_key=sealing_key,
            agreement_key=agreement_key,
            signature=self.sign(_CARD_DOMAIN + sealing_key + agreement_key),
        )

    def __repr__(self) -> str:
        return "Identity(…)"  # printing an identity must not reveal its keys

    @property
    def address(self) -> Address:
        return self.card.address

    @property
    def node_key(self) -> NodeKey:
        """Return the signing key of a node, which identifies it."""
        return NodeKey(bytes(self.card.address))

    @property
    def sealing_key(self) -> MLKEM768X25519PrivateKey:
        return self._sealing

    @property
    def agreement_key(self) -> X25519PrivateKey:
        """Return the X25519 identity key of handshakes."""
        return self._agreement

    @property
    def signing_key(self) -> Ed25519PrivateKey:
        """Return the key for a node's certificate. Only TLS uses it, with its own prefix."""
        return self._signing

    def sign(self, message: bytes) -> bytes:
        """Return the Ed25519 signature. By libsodium: it takes half as long as OpenSSL and gives the same bytes."""
        return bytes(bindings.crypto_sign(message, self._secret)[: bindings.crypto_sign_BYTES])


def is_signed_by(signer: bytes, signature: bytes, message: bytes) -> bool:
    """Return whether the holder of the Ed25519 key `signer` signed `message`.

    By libsodium: it takes half as long as OpenSSL, and it never accepts a key of small order, under which one signature
    is valid for many messages.
    """
    if len(signer) != ADDRESS_BYTES or len(signature) != bindings.crypto_sign_BYTES:
        return False
    try:
        bindings.crypto_sign_open(signature + message, bytes(signer))
    except BadSignatureError:
        return False
    return True


def verify_card(card: ContactCard) -> ContactCard:
    """Return the card. Raise if its signature is wrong or one of its keys is unusable."""
    # Check the sizes first: the signed bytes do not contain the boundary between the keys.
    exactly(card.sealing_key, MLKEM_PUBLIC_BYTES + X25519_PUBLIC_BYTES, "sealing key")
    exactly(card.agreement_key, X25519_PUBLIC_BYTES, "agreement key")
    if not is_signed_by(card.address, card.signature, _CARD_DOMAIN + card.sealing_key + card.agreement_key):
        raise RemoteProtocolError("the contact card is not signed by its own address", code=Code.AUTHENTICATION_FAILED)
    if not is_blindable(card.address):
        raise Malformed("the contact card's address is not a point of the prime-order group; it can't receive mail")
    # A card may be correctly signed and contain an invalid key. Sealing would then fail later, for example for an ack.
    if not is_mlkem_key(card.sealing_key[:MLKEM_PUBLIC_BYTES]) or not is_x25519_key(
        card.sealing_key[MLKEM_PUBLIC_BYTES:]
    ):
        raise Malformed("the contact card contains an invalid sealing key")
    if not is_x25519_key(card.agreement_key):
        raise Malformed("the contact card contains an invalid agreement key")
    return card


def is_blindable(address: Address) -> bool:
    """Return whether the address is a point of the prime-order group. A key of mixed order can have valid signatures,
    but no inbox: it can't be blinded (SPEC 7.2)."""
    return len(address) == ADDRESS_BYTES and bool(bindings.crypto_core_ed25519_is_valid_point(bytes(address)))


def is_mlkem_key(raw: bytes) -> bool:
    """Return whether these bytes are an ML-KEM-768 public key."""
    try:
        MLKEM768PublicKey.from_public_bytes(raw)
    except ValueError:
        return False
    return True


def is_x25519_key(raw: bytes) -> bool:
    """Return whether this X25519 key can be used. A key of small order fails with every other key, so one test
    suffices."""
    try:
        _ANY_KEY.exchange(X25519PublicKey.from_public_bytes(raw))
    except ValueError:
        return False
    return True


def _derive(seed: bytes, purpose: bytes, size: int) -> bytes:
    return hkdf(seed, salt=b"", info=b"restante-identity-v1:" + purpose, size=size)

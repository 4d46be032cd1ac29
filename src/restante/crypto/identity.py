"""Who somebody is: one 32-byte seed, from which every long-term key is derived (SPEC 8.1, first part).

The address is the Ed25519 public key. The sealing key is a hybrid of ML-KEM-768 and X25519, signed by the address
so that a contact card cannot be given another key on its way.
"""

from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import MLKEM768X25519PrivateKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from restante.model.codes import Code
from restante.model.errors import Malformed, RemoteProtocolError
from restante.model.ids import Address, NodeKey, address, exactly

SEED_BYTES: Final = 32
MLKEM_PUBLIC_BYTES: Final = 1184
X25519_PUBLIC_BYTES: Final = 32
_CARD_DOMAIN: Final = b"restante-card-v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactCard:
    """What others need to write to somebody: address, sealing key, and the address's signature over that key."""

    address: Address
    sealing_key: bytes
    signature: bytes


class Identity:
    """The secret side. It signs and unseals; its keys never leave it."""

    __slots__ = ("_sealing", "_signing", "card", "storage_key", "tag_secret")

    def __init__(self, seed: bytes) -> None:
        exactly(seed, SEED_BYTES, "identity seed")
        self._signing = Ed25519PrivateKey.from_private_bytes(_derive(seed, b"sign", 32))
        mlkem = MLKEM768PrivateKey.from_seed_bytes(_derive(seed, b"mlkem", 64))
        x25519 = X25519PrivateKey.from_private_bytes(_derive(seed, b"x25519", 32))
        self._sealing = MLKEM768X25519PrivateKey(mlkem, x25519)
        self.storage_key = _derive(seed, b"storage", 32)
        self.tag_secret = _derive(seed, b"tags", 32)
        sealing_key = mlkem.public_key().public_bytes_raw() + x25519.public_key().public_bytes_raw()
        self.card = ContactCard(
            address=address(self._signing.public_key().public_bytes_raw()),
            sealing_key=sealing_key,
            signature=self._signing.sign(_CARD_DOMAIN + sealing_key),
        )

    def __repr__(self) -> str:
        return "Identity(…)"  # an identity must be safe to print

    @property
    def address(self) -> Address:
        return self.card.address

    @property
    def node_key(self) -> NodeKey:
        """A node is known by its own signing key, which is no person's address."""
        return NodeKey(bytes(self.card.address))

    @property
    def sealing_key(self) -> MLKEM768X25519PrivateKey:
        return self._sealing

    @property
    def signing_key(self) -> Ed25519PrivateKey:
        """For a node's certificate alone: TLS signs by itself, with a prefix of its own."""
        return self._signing

    def sign(self, message: bytes) -> bytes:
        return self._signing.sign(message)


def is_signed_by(signer: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the holder of the Ed25519 key `signer` signed exactly `message`."""
    try:
        Ed25519PublicKey.from_public_bytes(signer).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def checked_card(card: ContactCard) -> ContactCard:
    """The card itself when its signature holds and its key can be sealed for; otherwise a refusal."""
    if not is_signed_by(card.address, card.signature, _CARD_DOMAIN + card.sealing_key):
        raise RemoteProtocolError("the contact card is not signed by its own address", code=Code.AUTHENTICATION_FAILED)
    if not _is_usable(card.sealing_key):
        raise Malformed("the contact card holds a sealing key that nothing can be sealed for")
    return card


def _is_usable(sealing_key: bytes) -> bool:
    """Anybody can sign bytes that are no key; found out only when sealing, they would stop whoever owes a receipt."""
    try:
        MLKEM768PublicKey.from_public_bytes(sealing_key[:MLKEM_PUBLIC_BYTES])
        share = X25519PublicKey.from_public_bytes(sealing_key[MLKEM_PUBLIC_BYTES:])
        # A share of small order gives no secret, whatever the other side's key: any key finds it out.
        X25519PrivateKey.from_private_bytes(bytes(X25519_PUBLIC_BYTES)).exchange(share)
    except ValueError:
        return False
    return True


def _derive(seed: bytes, purpose: bytes, size: int) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=size, salt=None, info=b"restante-identity-v1:" + purpose).derive(seed)

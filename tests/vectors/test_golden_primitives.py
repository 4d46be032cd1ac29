"""The primitives that crypto stands on, each against the vectors of its own standard."""

import hashlib
import hmac
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from restante.crypto.identity import Identity, is_signed_by
from restante.crypto.key_derivation import chain_step, hkdf
from restante.crypto.sealing import seal
from support.wire.golden_vectors import cases


def unhex(text: str) -> bytes:
    return bytes.fromhex(text)


def test_hkdf_sha_256_of_rfc_5869() -> None:
    made = hkdf(b"\x0b" * 22, salt=bytes(range(13)), info=unhex("f0f1f2f3f4f5f6f7f8f9"), size=42)
    assert made.hex() == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    without = hkdf(b"\x0b" * 22, salt=b"", info=b"", size=42)
    assert without.hex() == "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"


def test_hmac_sha_256_of_rfc_4231_and_the_chain_made_of_it() -> None:
    made = hmac.digest(b"\x0b" * 20, b"Hi There", "sha256")
    assert made.hex() == "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    # The same HMAC, held by the line above to the RFC, gives both outputs of a chain step.
    key = b"\x0b" * 20 + bytes(12)
    assert chain_step(key) == (hmac.digest(key, b"\x01", "sha256"), hmac.digest(key, b"\x02", "sha256"))


def test_x25519_of_rfc_7748() -> None:
    alice = X25519PrivateKey.from_private_bytes(
        unhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    )
    bob = X25519PrivateKey.from_private_bytes(unhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"))
    assert alice.public_key().public_bytes_raw().hex() == (
        "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    )
    shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert alice.exchange(bob.public_key()).hex() == bob.exchange(alice.public_key()).hex() == shared


@pytest.mark.parametrize(
    ("secret", "public", "message", "signature"),
    [
        (
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            (
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
                "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
            ),
        ),
        (
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            (
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
                "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
            ),
        ),
    ],
    ids=["test 1", "test 2"],
)
def test_ed25519_of_rfc_8032(secret: str, public: str, message: str, signature: str) -> None:
    key = Ed25519PrivateKey.from_private_bytes(unhex(secret))
    assert key.public_key().public_bytes_raw().hex() == public
    assert key.sign(unhex(message)).hex() == signature
    assert is_signed_by(unhex(public), unhex(signature), unhex(message))


def test_aes_256_gcm_of_the_specification_of_gcm() -> None:
    key = unhex("feffe9928665731c6d6a8f9467308308") * 2
    plaintext = unhex(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
        "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
    )
    bound = unhex("feedfacedeadbeeffeedfacedeadbeefabaddad2")
    sealed = AESGCM(key).encrypt(unhex("cafebabefacedbaddecaf888"), plaintext, bound)
    assert sealed.hex() == (
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
        "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
        "76fc6ece0f4e1768cddf8853bb2d551b"
    )


def test_scrypt_of_rfc_7914() -> None:
    made = Scrypt(salt=b"SodiumChloride", length=64, n=16_384, r=8, p=1).derive(b"pleaseletmein")
    assert made.hex() == (
        "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
        "d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887"
    )


@pytest.mark.parametrize("vector", cases("mlkem768"))
def test_ml_kem_768_of_fips_203(vector: dict[str, Any]) -> None:
    key = MLKEM768PrivateKey.from_seed_bytes(unhex(vector["seed"]))
    assert key.public_key().public_bytes_raw().hex() == vector["public"]
    assert key.decapsulate(unhex(vector["ciphertext"])).hex() == vector["secret"]
    secret, ciphertext = key.public_key().encapsulate()
    assert key.decapsulate(ciphertext) == secret


def test_what_is_sealed_opens_by_the_letter_of_rfc_9180_alone() -> None:
    """No vectors are published for our suite that we could find: so its steps are done here one by one.

    The KEM is 0x647a, X-Wing: SHA3-256 over both secrets, the X25519 share, the X25519 key and six characters.
    """
    bob = Identity(b"b" * 32)
    sealed = seal(b"by the book", bob.card)
    mlkem = MLKEM768PrivateKey.from_seed_bytes(_derived(b"mlkem", 64))
    x25519 = X25519PrivateKey.from_private_bytes(_derived(b"x25519", 32))
    share, body = sealed[1088:1120], sealed[1120:]
    kem_secret = hashlib.sha3_256(
        mlkem.decapsulate(sealed[:1088])
        + x25519.exchange(X25519PublicKey.from_public_bytes(share))
        + share
        + x25519.public_key().public_bytes_raw()
        + rb"\.//^"
        + b"\\"
    ).digest()
    suite = b"HPKE" + unhex("647a00010002")

    def extract(salt: bytes, label: bytes, secret: bytes) -> bytes:
        return hmac.digest(salt, b"HPKE-v1" + suite + label + secret, "sha256")

    def expand(key: bytes, label: bytes, info: bytes, size: int) -> bytes:
        labelled = size.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
        return HKDFExpand(hashes.SHA256(), size, labelled).derive(key)

    info = b"restante-sealed-v1" + bob.address
    context = b"\x00" + extract(b"", b"psk_id_hash", b"") + extract(b"", b"info_hash", info)
    secret = extract(kem_secret, b"secret", b"")
    key, nonce = expand(secret, b"key", context, 32), expand(secret, b"base_nonce", context, 12)
    assert AESGCM(key).decrypt(nonce, body, b"") == b"by the book"


def _derived(purpose: bytes, size: int) -> bytes:
    return hkdf(b"b" * 32, salt=b"", info=b"restante-identity-v1:" + purpose, size=size)

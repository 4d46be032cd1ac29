"""Derives tests/vectors/session.json from docs/protocol/sessions.md with the primitives alone: no line of Restante's.

    python tests/vectors/derive_session.py < tests/vectors/session.json

prints the file again. Only the ciphertext of the KEM is taken from what is read: encapsulating is random, all else
follows from it.
"""

import hashlib
import hmac
import json
import struct
import sys

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

ALICE_SEED, BOB_SEED = bytes(range(32)), bytes(range(32, 64))
PREKEY_ID, ONE_TIME_ID, CREATED_AT_MS = 7, 9, 1_800_000_000_000
PREKEY, KEM_SEED, ONE_TIME = b"\x51" * 32, b"\x52" * 64, b"\x53" * 32
EPHEMERAL, RATCHET_KEY, RANDOM = b"\x61" * 32, b"\x62" * 32, b"\x63" * 16
GENERATION = 3
MESSAGE_ID = bytes.fromhex("9f1c5a3e6d0b4c1e8a572f4e0c9b7d11")
TEXT = b"first"


def hkdf(secret: bytes, salt: bytes, info: bytes, size: int) -> bytes:
    return HKDF(hashes.SHA256(), size, salt, info).derive(secret)


def mac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def public(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agree(private: bytes, other: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(other))


def state(flags: int, context: bytes, root_key: bytes, counts: tuple[int, int, int, int]) -> bytes:
    return bytes([1, flags, len(context)]) + context + root_key + struct.pack(">IIIH", *counts)


class Person:
    def __init__(self, seed: bytes) -> None:
        def derived(purpose: str, size: int) -> bytes:
            return hkdf(seed, b"", b"restante-identity-v1:" + purpose.encode(), size)

        signing = Ed25519PrivateKey.from_private_bytes(derived("sign", 32))
        mlkem = MLKEM768PrivateKey.from_seed_bytes(derived("mlkem", 64)).public_key().public_bytes_raw()
        self.agreement = derived("agreement", 32)
        self.address = signing.public_key().public_bytes_raw()
        self.sealing_key = mlkem + public(derived("x25519", 32))
        self.agreement_key = public(self.agreement)
        self.signature = signing.sign(b"restante-card-v2" + self.sealing_key + self.agreement_key)


def derive(ciphertext: bytes) -> dict[str, str]:
    alice, bob = Person(ALICE_SEED), Person(BOB_SEED)
    kem = MLKEM768PrivateKey.from_seed_bytes(KEM_SEED)
    transcript = hashlib.sha256(
        b"restante-handshake-v1" + struct.pack(">I", GENERATION)
        + alice.address + alice.agreement_key + alice.sealing_key
        + bob.address + bob.agreement_key + bob.sealing_key
        + public(EPHEMERAL)
        + struct.pack(">I", PREKEY_ID) + public(PREKEY) + kem.public_key().public_bytes_raw()
        + ciphertext
        + b"\x01" + struct.pack(">I", ONE_TIME_ID) + public(ONE_TIME)
    ).digest()  # fmt: skip
    session_id = hashlib.sha256(b"restante-session-id-v1" + transcript).digest()
    agreed = (
        agree(alice.agreement, public(PREKEY))
        + agree(EPHEMERAL, bob.agreement_key)
        + agree(EPHEMERAL, public(PREKEY))
        + agree(EPHEMERAL, public(ONE_TIME))
    )
    kem_secret = kem.decapsulate(ciphertext)
    secret = hkdf(b"\xff" * 32 + agreed + kem_secret, bytes(32), b"restante-handshake-secret-v1" + transcript, 32)

    context = b"restante-ratchet-v1" + alice.address + bob.address + session_id
    both = hkdf(agree(RATCHET_KEY, public(PREKEY)), secret, b"restante-ratchet-root-v1", 64)
    root_key, chain_key = both[:32], both[32:]
    header = public(RATCHET_KEY) + struct.pack(">II", 0, 0)
    message_key = mac(mac(chain_key, b"\x01"), RANDOM)
    ratchet = header + RANDOM + AESGCM(message_key).encrypt(bytes(12), TEXT, context + header + MESSAGE_ID)
    opening = (
        b"\x03" + alice.sealing_key + alice.agreement_key + alice.signature
        + public(EPHEMERAL) + struct.pack(">I", PREKEY_ID) + ciphertext
        + struct.pack(">I", ONE_TIME_ID)
    )  # fmt: skip
    covered = b"\x01" + alice.address + session_id + MESSAGE_ID + struct.pack(">I", GENERATION) + opening + ratchet
    direction = alice.address + bob.address
    tag_key = hkdf(agree(alice.agreement, bob.agreement_key), b"", b"restante-sender-tag-v1" + direction, 32)
    message = covered + mac(tag_key, covered)[:16]

    next_chain = mac(chain_key, b"\x02")
    alice_state = state(7, context, root_key, (1, 0, 0, 0)) + RATCHET_KEY + public(PREKEY) + next_chain
    bob_state = state(10, context, root_key, (0, 0, 1, 0)) + public(RATCHET_KEY) + next_chain
    # As if Bob had got the second message first: the key of the first is kept.
    skipped = public(RATCHET_KEY) + struct.pack(">H", 1)
    skipped += struct.pack(">I", 0) + mac(chain_key, b"\x01") + struct.pack(">Q", CREATED_AT_MS)
    bob_state_with_a_gap = (
        state(10, context, root_key, (0, 0, 2, 1))
        + public(RATCHET_KEY) + mac(next_chain, b"\x02") + skipped
    )  # fmt: skip
    prekeys = struct.pack(">BIBH", 1, 10, 1, 1) + struct.pack(">IQBQ", PREKEY_ID, CREATED_AT_MS, 0, 0)
    prekeys += PREKEY + KEM_SEED + struct.pack(">I", ONE_TIME_ID) + ONE_TIME
    made = {
        "transcript": transcript,
        "session_id": session_id,
        "kem_ciphertext": ciphertext,
        "kem_secret": kem_secret,
        "secret": secret,
        "message": message,
        "alice_state": alice_state,
        "bob_state": bob_state,
        "bob_state_with_a_gap": bob_state_with_a_gap,
        "prekeys": prekeys,
    }
    return {name: value.hex() for name, value in made.items()}


if __name__ == "__main__":
    known = sys.stdin.read()
    kem_ciphertext = (
        bytes.fromhex(json.loads(known)["kem_ciphertext"])
        if known
        else MLKEM768PrivateKey.from_seed_bytes(KEM_SEED).public_key().encapsulate()[1]
    )
    sys.stdout.write(json.dumps(derive(kem_ciphertext), indent=2) + "\n")

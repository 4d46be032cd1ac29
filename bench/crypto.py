"""What a conversation costs: our ratchet against `vodozemac` (Rust) and `DoubleRatchet` (Python), 1 KiB messages.

One core; every contender draws its randomness as it does in use. States stay in memory: what a disk costs is the
outbox's benchmark. The pieces below show where the time goes.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bench.crypto_baselines import TEXT, open_peers
from bench.measure import judge, ratio_line, take_turns, warn_if_restless
from restante.core.session_messages import Accepted, accept_session, encrypt_message
from restante.core.signed_bundles import sign_bundle, verify_bundle
from restante.crypto.handshake import HANDSHAKE_ENTROPY_BYTES, Agreed, encapsulate, initiate
from restante.crypto.identity import Identity
from restante.crypto.key_derivation import chain_step, root_step
from restante.crypto.prekeys import PrekeyStore, choose_one_time, prekeys_due, renew_due
from restante.crypto.ratchet import ENCRYPT_ENTROPY_BYTES, RatchetState, decrypt, encrypt
from restante.crypto.ratchet_codec import decode_ratchet, encode_ratchet
from restante.crypto.sealing import seal, unseal
from restante.crypto.sender_tag import SenderTags
from restante.model.ids import mint_message_id
from restante.policy.padding import SMALL_SIZES_BYTES, unpad
from restante.wire.session_message import decode_session_message

ROUNDS: Final = 21
ONE_WAY: Final = 2_000  # messages in one round
PING_PONG: Final = 400
SLOWER: Final = 20  # so many times fewer for a peer that would take the whole minute
PIECES: Final = 100
BOUND: Final = b"i" * 16
NOW_MS: Final = 1_800_000_000_000
RESTLESS: Final = 1.5

ALICE: Final = Identity(b"a" * 32)
BOB: Final = Identity(b"b" * 32)
ALICES_TAGS: Final = SenderTags(ALICE)
BOBS_TAGS: Final = SenderTags(BOB)


class Ours:
    """Both ends of a session, opened by a whole handshake."""

    def __init__(self) -> None:
        empty = PrekeyStore()
        due = prekeys_due(empty, now_ms=NOW_MS)
        self._prekeys = renew_due(empty, entropy=os.urandom(due.entropy_bytes), now_ms=NOW_MS)
        self._bundle = sign_bundle(self._prekeys, BOB, now_ms=NOW_MS)
        agreed = self.open_session()
        self.alice, first = self._write(agreed)
        self.bob = self._accept(first).agreed.ratchet
        self.ping_pong(2)

    def one_way(self, messages: int) -> int:
        alice, bob = self.alice, self.bob
        for _ in range(messages):
            alice, message = encrypt(alice, TEXT, BOUND, entropy=os.urandom(ENCRYPT_ENTROPY_BYTES))
            bob, text = decrypt(bob, message, BOUND, now_ms=NOW_MS)
            assert text == TEXT
        self.alice, self.bob = alice, bob
        return messages

    def ping_pong(self, messages: int) -> int:
        alice, bob = self.alice, self.bob
        for _ in range(messages // 2):
            alice, message = encrypt(alice, TEXT, BOUND, entropy=os.urandom(ENCRYPT_ENTROPY_BYTES))
            bob, text = decrypt(bob, message, BOUND, now_ms=NOW_MS)
            assert text == TEXT
            bob, message = encrypt(bob, TEXT, BOUND, entropy=os.urandom(ENCRYPT_ENTROPY_BYTES))
            alice, text = decrypt(alice, message, BOUND, now_ms=NOW_MS)
            assert text == TEXT
        self.alice, self.bob = alice, bob
        return messages

    def open_session(self) -> Agreed:
        """Check the bundle and do the writer's half of the handshake."""
        bundle = verify_bundle(self._bundle, owner=BOB.address, now_ms=NOW_MS)
        return initiate(
            ALICE,
            bundle,
            one_time=choose_one_time(bundle, 7),
            encapsulation=encapsulate(bundle),
            entropy=os.urandom(HANDSHAKE_ENTROPY_BYTES),
            generation=1,
        )

    def whole_handshake(self) -> None:
        self._accept(self._write(self.open_session())[1])

    def _write(self, agreed: Agreed) -> tuple[RatchetState, bytes]:
        return encrypt_message(
            agreed.ratchet,
            TEXT,
            sender=ALICE.address,
            session_id=agreed.session_id,
            message_id=mint_message_id(os.urandom(16)),
            generation=agreed.generation,
            opening=agreed.opening,
            make_tag=lambda covered: ALICES_TAGS.make(covered, recipient=BOB.card),
            entropy=os.urandom(ENCRYPT_ENTROPY_BYTES),
        )

    def _accept(self, raw: bytes) -> Accepted:
        return accept_session(
            decode_session_message(unpad(raw)).message, recipient=BOB, prekeys=self._prekeys, now_ms=NOW_MS
        )


def main() -> None:
    print("ratchet, 1 KiB, one core, encrypt + decrypt, medians of rounds that take turns")
    print(f"  load average before: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
    compare()
    show_pieces()


def compare() -> None:
    ours = Ours()
    peers = dict(open_peers())
    contenders: dict[str, Callable[[], int]] = {
        "one way": partial(ours.one_way, ONE_WAY),
        "ping-pong": partial(ours.ping_pong, PING_PONG),
    }
    for name, peer in peers.items():
        fewer = SLOWER if name == "DoubleRatchet" else 1
        contenders[f"{name}, one way"] = partial(peer.one_way, ONE_WAY // fewer)
        contenders[f"{name}, ping-pong"] = partial(peer.ping_pong, PING_PONG // fewer)
    take_turns(contenders, rounds=2)
    rates = take_turns(contenders, rounds=ROUNDS)
    warn_if_restless(rates, limit=RESTLESS)
    for way, bar in (("one way", 1.5), ("ping-pong", 0.8)):
        if "vodozemac" in peers:
            judge(rates[way], rates[f"vodozemac, {way}"], bar=bar)
        if "DoubleRatchet" in peers:
            print(ratio_line(rates[way], rates[f"DoubleRatchet, {way}"]))


def show_pieces() -> None:
    """What the messages above are made of, and what surrounds them on the way."""
    ours, key, nonce = Ours(), os.urandom(32), os.urandom(12)
    ours.one_way(1)  # or else the first piece would measure a turn
    entropy = os.urandom(ENCRYPT_ENTROPY_BYTES)
    own, other = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key().public_bytes_raw()
    _, message = encrypt(ours.alice, TEXT, BOUND, entropy=entropy)
    box, sealed, state = AESGCM(key).encrypt(nonce, TEXT, BOUND), seal(TEXT, BOB.card), encode_ratchet(ours.bob)
    covered = os.urandom(SMALL_SIZES_BYTES[0])
    tag = ALICES_TAGS.make(covered, recipient=BOB.card)
    pieces: dict[str, Callable[[], object]] = {
        "encrypt, same chain": lambda: encrypt(ours.alice, TEXT, BOUND, entropy=entropy),
        "decrypt, same chain": lambda: decrypt(ours.bob, message, BOUND, now_ms=NOW_MS),
        "  chain step, 2 HMAC": lambda: chain_step(key),
        "  AES-256-GCM, key and 1 KiB": lambda: AESGCM(key).encrypt(nonce, TEXT, BOUND),
        "  the same, opening": lambda: AESGCM(key).decrypt(nonce, box, BOUND),
        "  randomness": lambda: os.urandom(ENCRYPT_ENTROPY_BYTES),
        "a turn: new X25519 key": lambda: X25519PrivateKey.from_private_bytes(key),
        "a turn: X25519 agreement, twice": lambda: own.exchange(X25519PublicKey.from_public_bytes(other)),
        "a turn: root step, twice": lambda: root_step(key, key),
        "state to bytes": lambda: encode_ratchet(ours.bob),
        "state from bytes": lambda: decode_ratchet(state),
        "sender tag, 4 KiB: make": lambda: ALICES_TAGS.make(covered, recipient=BOB.card),
        "sender tag, 4 KiB: check": lambda: BOBS_TAGS.is_valid(tag, covered, sender=ALICE.card),
        "seal for the recipient": lambda: seal(TEXT, BOB.card),
        "unseal": lambda: unseal(sealed, BOB),
        "handshake, first message, both ends": ours.whole_handshake,
    }
    rates = take_turns({name: partial(_repeat, work) for name, work in pieces.items()}, rounds=ROUNDS)
    print(" pieces")
    for name, rate in rates.items():
        print(f"  {name:<38} {1e6 / rate.per_second:>9,.1f} µs")


def _repeat(work: Callable[[], object]) -> int:
    for _ in range(PIECES):
        work()
    return PIECES


if __name__ == "__main__":
    main()

"""The private prekeys: which exist, which are due for renewal, which were used (SPEC 8.1).

A signed prekey is an X25519 key and an ML-KEM-768 key generated together; every handshake uses it. One-time prekeys are
X25519 only. Ages are computed with the local clock.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from restante.crypto.identity import is_mlkem_key, is_x25519_key
from restante.model.contact_card import ContactCard
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RemoteProtocolError
from restante.model.ids import exactly
from restante.model.prekey_bundle import OneTimePrekey, PrekeyBundle

DAY_MS: Final = 86_400_000
ROTATION_MS: Final = 7 * DAY_MS  # SPEC 8.1
RETENTION_MS: Final = 30 * DAY_MS  # SPEC 8.1: counted from when a prekey was replaced
BUNDLE_LIFE_MS: Final = ROTATION_MS + RETENTION_MS
"""The oldest prekey that a sender uses. Its owner may have deleted older ones."""
ONE_TIME_PREKEYS: Final = 100  # SPEC 8.1
REFILL_BELOW: Final = 50
"""New one-time prekeys are made when fewer are left. Each refill publishes the bundle again."""

PRIVATE_BYTES: Final = 32
KEM_SEED_BYTES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedPrekey:
    prekey_id: int
    created_at_ms: int
    replaced_at_ms: int | None = None
    private: bytes = field(repr=False)
    kem_seed: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrekeyStore:
    """Signed prekeys from the oldest to the current one, and the unused one-time prekeys by id."""

    next_id: int = 1
    signed: tuple[SignedPrekey, ...] = ()
    one_time: Mapping[int, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrekeysDue:
    """What `renew_due` would do now; `entropy_bytes` is how much entropy it needs."""

    rotate: bool
    one_time: int
    expired: int

    @property
    def anything(self) -> bool:
        return self.rotate or self.one_time > 0 or self.expired > 0

    @property
    def entropy_bytes(self) -> int:
        return self.rotate * (PRIVATE_BYTES + KEM_SEED_BYTES) + self.one_time * PRIVATE_BYTES


class PrekeyGone(RemoteProtocolError):
    """A handshake names a prekey that was used, is too old or never existed. The initiator must open another
    session."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the handshake names a {what} that this client no longer has", code=Code.SESSION_INVALID)


def prekeys_due(store: PrekeyStore, *, now_ms: int) -> PrekeysDue:
    missing = ONE_TIME_PREKEYS - len(store.one_time)
    return PrekeysDue(
        rotate=not store.signed or now_ms >= store.signed[-1].created_at_ms + ROTATION_MS,
        one_time=missing if len(store.one_time) < REFILL_BELOW else 0,
        expired=sum(not _is_kept(prekey, now_ms=now_ms) for prekey in store.signed),
    )


def renew_due(store: PrekeyStore, *, entropy: bytes, now_ms: int) -> PrekeyStore:
    """Return the store with everything renewed that is due. If anything was, publish the bundle again."""
    due = prekeys_due(store, now_ms=now_ms)
    pieces = _pieces(exactly(entropy, due.entropy_bytes, "entropy for prekeys"))
    next_id, signed = store.next_id, tuple(prekey for prekey in store.signed if _is_kept(prekey, now_ms=now_ms))
    if due.rotate:
        replaced = tuple(
            prekey if prekey.replaced_at_ms is not None else replace(prekey, replaced_at_ms=now_ms) for prekey in signed
        )
        fresh = SignedPrekey(
            prekey_id=next_id, created_at_ms=now_ms, private=next(pieces), kem_seed=next(pieces) + next(pieces)
        )
        next_id, signed = next_id + 1, (*replaced, fresh)
    one_time = {**store.one_time, **{next_id + count: next(pieces) for count in range(due.one_time)}}
    return PrekeyStore(next_id=next_id + due.one_time, signed=signed, one_time=one_time)


def without_one_time(store: PrekeyStore, prekey_id: int) -> PrekeyStore:
    """Return the store without a used one-time prekey. Call it only after the first message was decrypted."""
    return replace(store, one_time={other: key for other, key in store.one_time.items() if other != prekey_id})


def signed_prekey(store: PrekeyStore, prekey_id: int, *, now_ms: int) -> SignedPrekey:
    for prekey in store.signed:
        if prekey.prekey_id == prekey_id and _is_kept(prekey, now_ms=now_ms):
            return prekey
    raise PrekeyGone("signed prekey")


def one_time_prekey(store: PrekeyStore, prekey_id: int) -> X25519PrivateKey:
    private = store.one_time.get(prekey_id)
    if private is None:
        raise PrekeyGone("one-time prekey")
    return X25519PrivateKey.from_private_bytes(private)


def public_bundle(store: PrekeyStore, card: ContactCard, *, now_ms: int) -> PrekeyBundle:
    """Return the unsigned bundle to publish."""
    if not store.signed:
        raise Malformed("the prekey store is empty; call renew_due() first")
    newest = store.signed[-1]
    return PrekeyBundle(
        card=card,
        issued_at_ms=now_ms,
        prekey_id=newest.prekey_id,
        prekey_created_at_ms=newest.created_at_ms,
        prekey=_public(newest.private),
        kem_prekey=MLKEM768PrivateKey.from_seed_bytes(newest.kem_seed).public_key().public_bytes_raw(),
        one_time=tuple(
            OneTimePrekey(prekey_id=prekey_id, key=_public(private))
            for prekey_id, private in sorted(store.one_time.items())
        ),
    )


def usable_bundle(bundle: PrekeyBundle, *, now_ms: int) -> PrekeyBundle:
    """Return the bundle if it is fresh and its keys are valid. core/signed_bundles verifies the signature."""
    if now_ms >= bundle.prekey_created_at_ms + BUNDLE_LIFE_MS:
        days = BUNDLE_LIFE_MS // DAY_MS
        raise RemoteProtocolError(
            f"the prekeys of this contact are older than {days} days", code=Code.RECIPIENT_NOT_FOUND
        )
    if not is_x25519_key(bundle.prekey) or not is_mlkem_key(bundle.kem_prekey):
        raise Malformed("the bundle contains an invalid prekey")
    return bundle


def choose_one_time(bundle: PrekeyBundle, dice: int) -> OneTimePrekey | None:
    """Return one of the one-time prekeys by a random number, or None if there is none.

    The choice is random because several senders read the same bundle. If two use the same prekey, the second must
    repeat its handshake.
    """
    return bundle.one_time[dice % len(bundle.one_time)] if bundle.one_time else None


def _is_kept(prekey: SignedPrekey, *, now_ms: int) -> bool:
    return prekey.replaced_at_ms is None or now_ms < prekey.replaced_at_ms + RETENTION_MS


def _public(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def _pieces(entropy: bytes) -> Iterator[bytes]:
    return (entropy[start : start + PRIVATE_BYTES] for start in range(0, len(entropy), PRIVATE_BYTES))

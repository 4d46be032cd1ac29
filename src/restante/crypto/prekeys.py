"""The secret half of prekeys: which there are, which are due, which are spent (SPEC 8.1).

A signed prekey is an X25519 key and an ML-KEM-768 key made together; it is the last resort of a handshake. One-time
prekeys are X25519 only. Everything is judged by this side's own clock; where the store is kept, and who is given the
public half, is not known here.
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
RETENTION_MS: Final = 30 * DAY_MS  # SPEC 8.1: counted from when a prekey was replaced, for mail that waits that long
BUNDLE_LIFE_MS: Final = ROTATION_MS + RETENTION_MS
"""An older prekey may be gone even if its owner did everything on time: nothing is written to it."""
ONE_TIME_PREKEYS: Final = 100  # SPEC 8.1
REFILL_BELOW: Final = 50
"""Making new ones means publishing again; half the stock is time enough."""

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
    """Signed prekeys from the oldest to the one in use, and the one-time prekeys nobody has used yet, by id."""

    next_id: int = 1
    signed: tuple[SignedPrekey, ...] = ()
    one_time: Mapping[int, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrekeysDue:
    """What `renewed` would do now: `entropy_bytes` is what it must be given for it."""

    rotate: bool
    one_time: int
    forget: int

    @property
    def anything(self) -> bool:
        return self.rotate or self.one_time > 0 or self.forget > 0

    @property
    def entropy_bytes(self) -> int:
        return self.rotate * (PRIVATE_BYTES + KEM_SEED_BYTES) + self.one_time * PRIVATE_BYTES


class PrekeyGone(RemoteProtocolError):
    """A handshake names a prekey that was spent, is too old or never was; the session must be opened anew."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the handshake names a {what} that is not kept here", code=Code.SESSION_INVALID)


def prekeys_due(store: PrekeyStore, *, now_ms: int) -> PrekeysDue:
    missing = ONE_TIME_PREKEYS - len(store.one_time)
    return PrekeysDue(
        rotate=not store.signed or now_ms >= store.signed[-1].created_at_ms + ROTATION_MS,
        one_time=missing if len(store.one_time) < REFILL_BELOW else 0,
        forget=sum(not _is_kept(prekey, now_ms=now_ms) for prekey in store.signed),
    )


def renewed(store: PrekeyStore, *, entropy: bytes, now_ms: int) -> PrekeyStore:
    """The store with everything done that is due. If anything was, the bundle must be published again."""
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
    """After the first message under it opened, and not before."""
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
    """What is to be signed and published."""
    if not store.signed:
        raise Malformed("there are no prekeys yet; make them first")
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
    """The bundle itself when something can be written to it now. Its signature is checked elsewhere."""
    if now_ms >= bundle.prekey_created_at_ms + BUNDLE_LIFE_MS:
        days = BUNDLE_LIFE_MS // DAY_MS
        raise RemoteProtocolError(f"the prekey is older than {days} days", code=Code.RECIPIENT_NOT_FOUND)
    if not is_x25519_key(bundle.prekey) or not is_mlkem_key(bundle.kem_prekey):
        raise Malformed("the bundle holds a prekey that nothing can be agreed with")
    return bundle


def chosen_one_time(bundle: PrekeyBundle, dice: int) -> OneTimePrekey | None:
    """Any of the one-time prekeys, by a random number; None when they are used up.

    At random, because a bundle in the mesh is read by many: two who take the same one cost the second a new handshake.
    """
    return bundle.one_time[dice % len(bundle.one_time)] if bundle.one_time else None


def _is_kept(prekey: SignedPrekey, *, now_ms: int) -> bool:
    return prekey.replaced_at_ms is None or now_ms < prekey.replaced_at_ms + RETENTION_MS


def _public(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def _pieces(entropy: bytes) -> Iterator[bytes]:
    return (entropy[start : start + PRIVATE_BYTES] for start in range(0, len(entropy), PRIVATE_BYTES))

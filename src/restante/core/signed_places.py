"""Places signed by the identity whose mail they store, so that a contact file on its way can't be given another relay.

A changed place would not break secrecy, but it would let its author withhold mail and see who fetches it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from restante.crypto.identity import Identity, is_signed_by
from restante.model.error_codes import Code
from restante.model.errors import RemoteProtocolError
from restante.model.ids import Address
from restante.model.places import Place
from restante.policy.completion import DAY_MS
from restante.wire.places import places_to_sign


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedPlaces:
    """An ordered list of places, when their owner issued it, and the owner's signature over both."""

    places: tuple[Place, ...]
    issued_at_ms: int
    signature: bytes


def sign_places(places: Sequence[Place], owner: Identity, *, now_ms: int) -> SignedPlaces:
    """Sign where the mail of `owner` is stored."""
    signature = owner.sign(places_to_sign(places, issued_at_ms=now_ms))
    return SignedPlaces(places=tuple(places), issued_at_ms=now_ms, signature=signature)


def is_newer(stated_at_ms: int, *, than_ms: int, now_ms: int) -> bool:
    """Return whether what a contact states now replaces what it stated before: places, or a prekey bundle.

    One more than a day ahead of our clock stands only against others that are, or it would block all later ones.
    """
    return stated_at_ms > than_ms or than_ms > now_ms + DAY_MS >= stated_at_ms


def verify_places(signed: SignedPlaces, *, owner: Address) -> SignedPlaces:
    """Return `signed` if `owner` signed exactly these places; raise `RemoteProtocolError` otherwise."""
    covered = places_to_sign(signed.places, issued_at_ms=signed.issued_at_ms)
    if not is_signed_by(owner, signed.signature, covered):
        raise RemoteProtocolError(
            "the places where mail is stored are not signed by their owner", code=Code.AUTHENTICATION_FAILED
        )
    return signed

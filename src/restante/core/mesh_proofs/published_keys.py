"""What a prekey record contains once it is decrypted: signed places and the base bundle (SPEC 3.14, 7.6, 8.8).
Contacts tell each other the same inside the session.

Layout: u16 length of the places, the places as their owner signed them, that signature 64, the encoded bundle.
"""

import struct
from typing import Final, NamedTuple

from restante.core.signed_places import SignedPlaces, verify_places
from restante.model.errors import Malformed
from restante.model.ids import Address
from restante.wire.field_checks import SIGNATURE_BYTES
from restante.wire.places import decode_places, places_to_sign

_HEAD: Final = struct.Struct(">H")


class PublishedKeys(NamedTuple):
    """The bundle is kept as signed; it is verified when the contact is added or a session is opened."""

    places: SignedPlaces
    bundle: bytes


def encode_published(published: PublishedKeys) -> bytes:
    places = published.places
    covered = places_to_sign(places.places, issued_at_ms=places.issued_at_ms)
    return _HEAD.pack(len(covered)) + covered + places.signature + published.bundle


def decode_published(raw: bytes, *, owner: Address) -> PublishedKeys:
    """Return what `owner` published. Raise if its places are not signed by it."""
    if len(raw) < _HEAD.size:
        raise Malformed("the content of a prekey record is too short")
    (size,) = _HEAD.unpack_from(raw)
    end = _HEAD.size + size
    places, issued_at_ms = decode_places(raw[_HEAD.size : end])
    signature, bundle = raw[end : end + SIGNATURE_BYTES], raw[end + SIGNATURE_BYTES :]
    signed = SignedPlaces(places=places, issued_at_ms=issued_at_ms, signature=signature)
    return PublishedKeys(verify_places(signed, owner=owner), bundle)

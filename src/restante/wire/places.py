"""The bytes that an identity signs to state where its mail is stored (SPEC 3.14, 8.8).

Domain, time of issue, number of places, then each place: type, node key, port, host. The signature of a contact file's
places covers exactly these bytes.
"""

import struct
from collections.abc import Sequence
from typing import Final

from restante.model.errors import Malformed
from restante.model.ids import node_key
from restante.model.places import Place
from restante.wire.field_checks import check_number, check_time

MAX_PLACES: Final = 8
MAX_HOST_BYTES: Final = 255  # a DNS name has at most 253
MAX_PORT: Final = 65_535
_DOMAIN: Final = b"restante-places-v1"
_RELAY: Final = 1
_HEAD: Final = struct.Struct(">QB")
_PLACE: Final = struct.Struct(">B32sHB")


def places_to_sign(places: Sequence[Place], *, issued_at_ms: int) -> bytes:
    """Return what the signature of these places covers. Raises `Malformed` or `OutOfRange` for unusable places."""
    check_time(issued_at_ms, "issued_at of the places")
    check_number(len(places), "number of places", low=1, high=MAX_PLACES)
    parts = [_DOMAIN, _HEAD.pack(issued_at_ms, len(places))]
    for place in places:
        host = place.host.encode()
        if not host or len(host) > MAX_HOST_BYTES:
            raise Malformed(f"the host of a place has 1 to {MAX_HOST_BYTES} bytes, not {len(host)}")
        check_number(place.port, "port of a place", low=1, high=MAX_PORT)
        parts += [_PLACE.pack(_RELAY, node_key(place.node_key), place.port, len(host)), host]
    return b"".join(parts)

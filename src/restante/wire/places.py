"""The bytes that an identity signs to state where its mail is stored (SPEC 3.14, 8.8).

Domain, time of issue, number of places, then each place: type, node key, port, host. The mesh has no key, port or host:
those are zero. The signature of a contact file's places covers exactly these bytes.
"""

import struct
from collections.abc import Sequence
from typing import Final

from restante.model.errors import Malformed
from restante.model.ids import NODE_KEY_BYTES, NodeKey, node_key
from restante.model.places import MeshPlace, Place, RelayPlace
from restante.wire.field_checks import check_number, check_time

MAX_PLACES: Final = 8
MAX_HOST_BYTES: Final = 255  # a DNS name has at most 253
MAX_PORT: Final = 65_535
_DOMAIN: Final = b"restante-places-v1"
_RELAY: Final = 1
_MESH: Final = 2
_HEAD: Final = struct.Struct(">QB")
_PLACE: Final = struct.Struct(">B32sHB")
MAX_PLACES_BYTES: Final = len(_DOMAIN) + _HEAD.size + MAX_PLACES * (_PLACE.size + MAX_HOST_BYTES)
_MESH_PLACE: Final = _PLACE.pack(_MESH, bytes(NODE_KEY_BYTES), 0, 0)


def places_to_sign(places: Sequence[Place], *, issued_at_ms: int) -> bytes:
    """Return what the signature of these places covers. Raises `Malformed` or `OutOfRange` for unusable places."""
    check_time(issued_at_ms, "issued_at of the places")
    check_number(len(places), "number of places", low=1, high=MAX_PLACES)
    parts = [_DOMAIN, _HEAD.pack(issued_at_ms, len(places))]
    for place in places:
        if isinstance(place, MeshPlace):
            parts.append(_MESH_PLACE)
            continue
        host = place.host.encode()
        if not host or len(host) > MAX_HOST_BYTES:
            raise Malformed(f"the host of a place has 1 to {MAX_HOST_BYTES} bytes, not {len(host)}")
        check_number(place.port, "port of a place", low=1, high=MAX_PORT)
        parts += [_PLACE.pack(_RELAY, node_key(place.node_key), place.port, len(host)), host]
    return b"".join(parts)


def decode_places(raw: bytes) -> tuple[tuple[Place, ...], int]:
    """Return the places of `places_to_sign`, and when they were issued. Only bytes that it makes are accepted."""
    try:
        issued_at_ms, count = _HEAD.unpack_from(raw, len(_DOMAIN))
        at = len(_DOMAIN) + _HEAD.size
        places: list[Place] = []
        for _ in range(min(count, MAX_PLACES)):
            kind, key, port, size = _PLACE.unpack_from(raw, at)
            at += _PLACE.size
            if kind == _MESH:
                places.append(MeshPlace())
            else:
                places.append(RelayPlace(node_key=NodeKey(key), host=raw[at : at + size].decode(), port=port))
            at += size
    except (struct.error, UnicodeDecodeError):
        raise Malformed("these are no places: the bytes end too early or a host is not UTF-8") from None
    if places_to_sign(places, issued_at_ms=issued_at_ms) != raw:
        raise Malformed("these are no places in their one encoding")
    return tuple(places), issued_at_ms

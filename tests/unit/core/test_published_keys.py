"""core/mesh_proofs/published_keys and wire/places: what a prekey record contains."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.mesh_proofs.published_keys import PublishedKeys, decode_published, encode_published
from restante.core.signed_places import sign_places
from restante.crypto.identity import Identity
from restante.model.errors import RestanteError
from restante.model.ids import NodeKey
from restante.model.places import MeshPlace, Place, RelayPlace
from restante.wire.places import decode_places, places_to_sign
from support.spec.clauses import clause

BOB, MALLORY = Identity(b"b" * 32), Identity(b"m" * 32)
relays = st.builds(
    RelayPlace,
    node_key=st.binary(min_size=32, max_size=32).map(NodeKey),
    host=st.text("abcdefghij.-:", min_size=1, max_size=40),
    port=st.integers(1, 65_535),
)
places = st.lists(st.one_of(st.just(MeshPlace()), relays), min_size=1, max_size=8)


@given(places, st.integers(0, 2**40))
def test_places_come_back_as_they_were_signed(listed: list[Place], issued_at_ms: int) -> None:
    raw = places_to_sign(listed, issued_at_ms=issued_at_ms)
    assert decode_places(raw) == (tuple(listed), issued_at_ms)


@given(places, st.data())
def test_no_other_bytes_are_places(listed: list[Place], data: st.DataObject) -> None:
    raw = places_to_sign(listed, issued_at_ms=1)
    with pytest.raises(RestanteError):
        decode_places(raw[: data.draw(st.integers(0, len(raw) - 1))])
    with pytest.raises(RestanteError):
        decode_places(raw + b"\0")


@clause("7.6")
def test_published_places_are_believed_only_when_their_owner_signed_them() -> None:
    signed = sign_places([MeshPlace()], BOB, now_ms=1_000)
    raw = encode_published(PublishedKeys(signed, b"bundle"))
    assert decode_published(raw, owner=BOB.address) == PublishedKeys(signed, b"bundle")
    with pytest.raises(RestanteError):
        decode_published(raw, owner=MALLORY.address)
    for size in range(len(raw) - len(b"bundle")):
        with pytest.raises(RestanteError):
            decode_published(raw[:size], owner=BOB.address)

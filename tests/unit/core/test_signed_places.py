"""core/signed_places: where mail is stored is signed by the identity it belongs to."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.signed_places import SignedPlaces, sign_places, verify_places
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RemoteProtocolError
from restante.model.ids import NodeKey
from restante.model.places import RelayPlace
from restante.wire.places import MAX_PLACES, places_to_sign
from support.spec.clauses import clause

BOB, MALLORY = Identity(b"b" * 32), Identity(b"m" * 32)
NOW_MS = 1_800_000_000_000
RELAY = RelayPlace(node_key=NodeKey(b"n" * 32), host="relay.example", port=7431)
OTHER = replace(RELAY, host="other.example")

PLACES = st.builds(
    RelayPlace,
    node_key=st.binary(min_size=32, max_size=32).map(NodeKey),
    host=st.text(min_size=1, max_size=60),
    port=st.integers(1, 65_535),
)


@clause("3.14")
def test_places_are_believed_when_their_owner_signed_exactly_them() -> None:
    signed = sign_places((RELAY, OTHER), BOB, now_ms=NOW_MS)
    assert verify_places(signed, owner=BOB.address) == signed
    changed: list[SignedPlaces] = [
        replace(signed, places=(OTHER, RELAY)),
        replace(signed, places=(RELAY,)),
        replace(signed, places=(replace(RELAY, port=7432), OTHER)),
        replace(signed, issued_at_ms=NOW_MS + 1),
        sign_places((RELAY, OTHER), MALLORY, now_ms=NOW_MS),
    ]
    for each in changed:
        with pytest.raises(RemoteProtocolError) as refused:
            verify_places(each, owner=BOB.address)
        assert refused.value.code is Code.AUTHENTICATION_FAILED


@given(st.lists(PLACES, min_size=1, max_size=3), st.lists(PLACES, min_size=1, max_size=3))
def test_two_lists_of_places_have_the_same_bytes_only_if_they_are_equal(
    one: list[RelayPlace], other: list[RelayPlace]
) -> None:
    same = places_to_sign(one, issued_at_ms=NOW_MS) == places_to_sign(other, issued_at_ms=NOW_MS)
    assert same == (one == other)


@pytest.mark.parametrize(
    "places",
    [(), (RELAY,) * (MAX_PLACES + 1), (replace(RELAY, port=0),), (replace(RELAY, host="h" * 256),)],
    ids=["none", "too many", "no port", "a long host"],
)
def test_a_list_that_cannot_be_used_is_not_signed(places: tuple[RelayPlace, ...]) -> None:
    with pytest.raises(Malformed):
        sign_places(places, BOB, now_ms=NOW_MS)

"""Places to listen and relays to pin, as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.errors import Malformed
from restante.model.ids import NodeKey
from restante.model.places import RelayPlace
from restante.runtime.endpoints import Endpoint, parse_endpoint, parse_relay_place

HOSTS = st.one_of(
    st.ip_addresses().map(str), st.from_regex(r"[a-z][a-z0-9-]{0,20}(\.[a-z]{2,10}){0,2}", fullmatch=True)
)
ENDPOINTS = st.builds(Endpoint, host=HOSTS, port=st.integers(0, 65_535))


@given(ENDPOINTS)
def test_an_endpoint_is_read_back_as_it_is_shown(endpoint: Endpoint) -> None:
    assert parse_endpoint(str(endpoint)) == endpoint


@given(ENDPOINTS, st.binary(min_size=32, max_size=32))
def test_a_pinned_relay_is_read_back_as_it_is_shown(endpoint: Endpoint, key: bytes) -> None:
    pinned = RelayPlace(node_key=NodeKey(key), host=endpoint.host, port=endpoint.port)
    assert parse_relay_place(str(pinned)) == pinned


@pytest.mark.parametrize(
    "text", ["", "7431", ":7431", "host", "host:", "host:port", "host:65536", "host:-1", "::1:7431", "[h]:1", "a b:1"]
)
def test_what_names_no_place_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match=r"is not an endpoint|is not a port"):
        parse_endpoint(text)


@pytest.mark.parametrize("key", ["", "ab", "g" * 64, "a" * 63, "a" * 66, "aa " * 21 + "a"])
def test_a_key_of_another_length_or_alphabet_is_refused(key: str) -> None:
    with pytest.raises(Malformed, match="KEY@HOST:PORT"):
        parse_relay_place(f"{key}@127.0.0.1:7431")


def test_a_relay_without_a_key_is_refused() -> None:
    with pytest.raises(Malformed, match="KEY@HOST:PORT"):
        parse_relay_place("127.0.0.1:7431")


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],  # noqa: S104 - asked about, not bound
)
def test_loopback_is_told_from_the_open(host: str, loopback: bool) -> None:
    assert Endpoint(host=host, port=1).is_loopback is loopback


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_endpoint, parse_relay_place):
        try:
            parse(text)
        except Malformed:
            continue

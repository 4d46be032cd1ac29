"""wire/address and wire/bech32m: the text people exchange."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from restante.model.errors import Malformed
from restante.model.ids import Address
from restante.wire import bech32m
from restante.wire.address import parse_address, show_address
from support.spec.clauses import clause
from support.wire.codec_properties import assert_refuses_every_truncation

ALPHABET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
EXAMPLE = "rst16adfsqvzky9t042tlmfujeq88g8wzuhnm2nzxfd0qgdx3ac82ydquezsg0"

addresses = st.binary(min_size=32, max_size=32).map(Address)


@clause("0")
@given(addresses)
def test_an_address_survives_being_shown_and_typed(value: Address) -> None:
    text = show_address(value)
    assert len(text) == 62
    assert text.startswith("rst1")
    assert parse_address(text) == parse_address(text.upper()) == value


@given(addresses, st.integers(0, 57), st.sampled_from(ALPHABET))
def test_one_mistyped_character_is_always_found(value: Address, place: int, typed: str) -> None:
    text = show_address(value)
    place += len("rst1")
    assume(text[place] != typed)
    with pytest.raises(Malformed, match="checksum"):
        parse_address(text[:place] + typed + text[place + 1 :])


@given(addresses, st.integers(0, 56))
def test_two_swapped_neighbours_are_always_found(value: Address, place: int) -> None:
    text = show_address(value)
    place += len("rst1")
    assume(text[place] != text[place + 1])
    with pytest.raises(Malformed, match="checksum"):
        parse_address(text[:place] + text[place + 1] + text[place] + text[place + 2 :])


def test_every_truncation_and_every_extension_is_refused() -> None:
    assert_refuses_every_truncation(lambda raw: parse_address(raw.decode()), EXAMPLE.encode())
    for character in ALPHABET:
        with pytest.raises(Malformed, match="an address must have 62 characters, not 63"):
            parse_address(EXAMPLE + character)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (EXAMPLE[:-1] + "G", "upper and lower case are mixed"),
        (EXAMPLE.capitalize(), "upper and lower case are mixed"),
        (bech32m.encode("bot", [0] * 52), "must start with rst1"),
        (bech32m.encode("r1t", [0] * 52), "must start with rst1"),
        ("bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0", "must start with rst1"),
        (EXAMPLE[:-1], "must have 62 characters, not 61"),
        (bech32m.encode("rst", [0] * 51), "must have 62 characters, not 61"),
        ("", "must have 62 characters, not 0"),
        (bech32m.encode("rst", [0] * 51 + [1]), "last 4 bits of an address are padding"),
        (bech32m.encode("rst", [0] * 51 + [8]), "last 4 bits of an address are padding"),
        (EXAMPLE[:-1] + "q", "checksum does not fit"),
        (EXAMPLE[:-1] + "b", "'b' is none of the 32 characters"),
        (EXAMPLE[:-1] + "é", "only printable ASCII"),
        (EXAMPLE[:-1] + " ", "only printable ASCII"),
        (EXAMPLE.replace("1", "q"), "separator '1' is missing"),
    ],
)
def test_each_fault_has_its_own_text(text: str, reason: str) -> None:
    with pytest.raises(Malformed, match=reason) as caught:
        parse_address(text)
    assert EXAMPLE[4:20] not in str(caught.value), "a refusal must not repeat the address"


@given(st.one_of(st.text(max_size=100), st.text(alphabet=ALPHABET + "1rst", min_size=62, max_size=62)))
def test_whatever_is_typed_is_an_address_or_malformed(text: str) -> None:
    try:
        value = parse_address(text)
    except Malformed:
        return
    assert show_address(value) == text.lower()


def test_an_address_of_another_size_cannot_be_shown() -> None:
    with pytest.raises(Malformed, match="address must have 32 bytes, not 31"):
        show_address(Address(bytes(31)))


@given(
    st.text(alphabet=[chr(code) for code in range(33, 127) if not chr(code).isupper()], min_size=1, max_size=20),
    st.lists(st.integers(0, 31), max_size=60),
)
def test_any_prefix_and_values_survive_the_round_trip(prefix: str, values: list[int]) -> None:
    assert bech32m.decode(bech32m.encode(prefix, values)) == (prefix, values)

"""address.json and bech32m.json."""

from typing import Any

import pytest

from restante.model.errors import Malformed
from restante.model.ids import Address
from restante.wire import bech32m
from restante.wire.address import parse_address, show_address
from support.spec.clauses import clause
from support.wire.golden_vectors import cases, load

REASONS = {
    "HRP character out of range": "only printable ASCII",
    "overall max length exceeded": "at most 90 characters",
    "No separator character": "separator '1' is missing",
    "Empty HRP": "prefix before the separator '1' is empty",
    "empty HRP": "prefix before the separator '1' is empty",
    "Invalid data character": "none of the 32 characters",
    "Too short checksum": "checksum is too short",
    "Invalid character in checksum": "none of the 32 characters",
    "checksum calculated with uppercase form of HRP": "checksum does not fit",
}


@clause("0")
@pytest.mark.parametrize("vector", cases("address"))
def test_addresses_are_shown_as_ever(vector: dict[str, Any]) -> None:
    value = Address(bytes.fromhex(vector["hex"]))
    assert show_address(value) == vector["text"]
    assert parse_address(vector["text"]) == parse_address(vector["text"].upper()) == value


@clause("0")
@pytest.mark.parametrize("text", load("bech32m")["valid"])
def test_strings_that_bip_350_calls_valid_are_read_and_written(text: str) -> None:
    prefix, values = bech32m.decode(text)
    assert bech32m.encode(prefix, values) == text.lower()


@clause("0")
@pytest.mark.parametrize("vector", load("bech32m")["invalid"], ids=lambda vector: ascii(vector["text"]))
def test_strings_that_bip_350_calls_invalid_are_refused_for_its_reason(vector: dict[str, str]) -> None:
    with pytest.raises(Malformed, match=REASONS[vector["reason"]]):
        bech32m.decode(vector["text"])

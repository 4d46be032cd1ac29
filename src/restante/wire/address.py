"""Convert addresses to text and back: 62 characters of bech32m with the prefix `rst` (SPEC 0)."""

from typing import Final

from restante.model.errors import Malformed
from restante.model.ids import ADDRESS_BYTES, Address, address
from restante.wire import bech32m

PREFIX: Final = "rst"
_SPARE_BITS: Final = -ADDRESS_BYTES * 8 % 5
_VALUES: Final = (ADDRESS_BYTES * 8 + _SPARE_BITS) // 5
ADDRESS_CHARACTERS: Final = len(PREFIX) + 1 + _VALUES + bech32m.CHECKSUM_CHARACTERS


def show_address(value: Address) -> str:
    number = int.from_bytes(address(value), "big") << _SPARE_BITS
    return bech32m.encode(PREFIX, [number >> 5 * place & 31 for place in reversed(range(_VALUES))])


def parse_address(text: str) -> Address:
    """Parse an address in lower or upper case. Errors do not contain the text, because they may be logged."""
    if len(text) != ADDRESS_CHARACTERS:
        raise Malformed(f"an address must have {ADDRESS_CHARACTERS} characters, not {len(text)}")
    try:
        prefix, values = bech32m.decode(text)
    except Malformed as problem:
        raise Malformed(f"not an address: {problem}") from None
    if prefix != PREFIX:
        raise Malformed(f"an address must start with {PREFIX}1")
    number = 0
    for value in values:
        number = number << 5 | value
    if number & (1 << _SPARE_BITS) - 1:
        raise Malformed(f"the last {_SPARE_BITS} bits of an address are padding and must be zero")
    return Address((number >> _SPARE_BITS).to_bytes(ADDRESS_BYTES, "big"))

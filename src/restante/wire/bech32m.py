"""Encode and decode bech32m (BIP-350): text with a prefix and a checksum that detects typing errors.

It works on 5-bit values; `address` converts them.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from restante.model.errors import Malformed

ALPHABET: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
CHECKSUM_CHARACTERS: Final = 6
MAX_CHARACTERS: Final = 90  # BIP-173: the checksum detects up to four errors only up to this length
_SEPARATOR: Final = "1"
_FINAL: Final = 0x2BC830A3  # the constant that makes it bech32m; bech32 has 1
_VALUE_OF: Final = {character: value for value, character in enumerate(ALPHABET)}
_GENERATOR: Final = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)


def _feedback(carry: int) -> int:
    """Return `carry` times the generator polynomial, six coefficients of 5 bits in one number."""
    product = 0
    for bit, word in enumerate(_GENERATOR):
        if carry >> bit & 1:
            product ^= word
    return product


_FEEDBACK: Final = tuple(_feedback(carry) for carry in range(32))


def encode(prefix: str, values: Sequence[int]) -> str:
    """Return prefix (lower case), separator, values and checksum as text."""
    remainder = _remainder(prefix, [*values, *[0] * CHECKSUM_CHARACTERS]) ^ _FINAL
    checksum = [remainder >> shift & 31 for shift in range(25, -1, -5)]
    return prefix + _SEPARATOR + "".join(ALPHABET[value] for value in [*values, *checksum])


def decode(text: str) -> tuple[str, list[int]]:
    """Return the prefix in lower case and the values without checksum. `Malformed` says which rule is broken."""
    if len(text) > MAX_CHARACTERS:
        raise Malformed(f"at most {MAX_CHARACTERS} characters are allowed, not {len(text)}")
    if any(not "!" <= character <= "~" for character in text):
        raise Malformed("only printable ASCII characters without spaces are allowed")
    if text not in (text.lower(), text.upper()):
        raise Malformed("upper and lower case are mixed; use one of them throughout")
    prefix, separator, data = text.lower().rpartition(_SEPARATOR)
    if not separator:
        raise Malformed("the separator '1' is missing")
    if not prefix:
        raise Malformed("the prefix before the separator '1' is empty")
    if len(data) < CHECKSUM_CHARACTERS:
        raise Malformed(f"the checksum is too short; it has {CHECKSUM_CHARACTERS} characters")
    values = [_VALUE_OF.get(character, -1) for character in data]
    if -1 in values:
        raise Malformed(f"{data[values.index(-1)]!r} is none of the 32 characters that may follow the separator")
    if _remainder(prefix, values) != _FINAL:
        raise Malformed("the checksum does not fit; a character is mistyped, missing or too many")
    return prefix, values[:-CHECKSUM_CHARACTERS]


def _remainder(prefix: str, values: Iterable[int]) -> int:
    state = 1
    codes = [ord(character) for character in prefix]
    for value in (*(code >> 5 for code in codes), 0, *(code & 31 for code in codes), *values):
        state = (state & 0x1FF_FFFF) << 5 ^ value ^ _FEEDBACK[state >> 25]
    return state

"""crypto/passphrase: a secret that only its passphrase opens, and numbers that nobody can lower or blow up."""

import pytest

from restante.crypto.passphrase import (
    MAGIC,
    PASSPHRASE_ENTROPY_BYTES,
    ScryptCost,
    decrypt_with_passphrase,
    encrypt_with_passphrase,
    is_under_passphrase,
)
from restante.model.error_codes import Code
from restante.model.errors import Malformed, OutOfRange, RestanteError
from support.spec.clauses import clause
from support.wire.codec_properties import flipped

CHEAP = ScryptCost(log2_n=15)
ENTROPY = bytes(range(PASSPHRASE_ENTROPY_BYTES))
SECRET = b"s" * 32
CLOSED = encrypt_with_passphrase(SECRET, "correct horse", entropy=ENTROPY, cost=CHEAP)


def outcome(raw: bytes, passphrase: str = "correct horse") -> bytes | Code:  # noqa: S107 - a test's
    try:
        return decrypt_with_passphrase(raw, passphrase)
    except RestanteError as refused:
        return refused.code


@clause("8.6")
def test_only_the_passphrase_opens_it() -> None:
    assert outcome(CLOSED) == SECRET
    assert SECRET not in CLOSED
    for other in ("", " ", "correct horsf", "Correct horse", "correct horse "):
        assert outcome(CLOSED, other) in (Code.AUTHENTICATION_FAILED, Code.MALFORMED)


def test_the_same_letters_in_other_code_points_are_the_same_passphrase() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    closed = encrypt_with_passphrase(SECRET, composed, entropy=ENTROPY, cost=CHEAP)
    assert outcome(closed, decomposed) == SECRET


def test_the_cost_as_it_comes_is_written_beside_the_secret() -> None:
    assert ScryptCost() == ScryptCost(log2_n=17, r=8, p=1)
    assert (CLOSED[5], CLOSED[6], CLOSED[7]) == (15, 8, 1)
    assert CLOSED[8:24] == ENTROPY[:16]


@clause("8.6")
@pytest.mark.parametrize(
    ("numbers", "key"),
    [
        ({"log2_n": 14}, "log2_n"),
        ({"log2_n": 20}, "log2_n"),
        ({"r": 7}, "r"),
        ({"r": 17}, "r"),
        ({"p": 0}, "p"),
        ({"p": 5}, "p"),
    ],
)
def test_a_cost_outside_its_range_is_refused(numbers: dict[str, int], key: str) -> None:
    with pytest.raises(OutOfRange, match=f"scrypt.{key} = "):
        ScryptCost(**numbers)


@clause("8.6")
@pytest.mark.parametrize(("place", "value"), [(5, 1), (5, 14), (5, 20), (5, 255), (6, 1), (6, 255), (7, 0), (7, 255)])
def test_a_file_cannot_ask_for_less_work_or_for_the_whole_machine(place: int, value: int) -> None:
    bent = CLOSED[:place] + bytes([value]) + CLOSED[place + 1 :]
    assert outcome(bent) is Code.MALFORMED, "refused before any work"


def test_changed_bytes_do_not_open() -> None:
    # Each flip costs a whole scrypt: a few of every part.
    for bit in (0, 33, 47, 8 * 8, 23 * 8 + 7, 24 * 8, 26 * 8, 40 * 8, len(CLOSED) * 8 - 1):
        assert outcome(flipped(CLOSED, bit)) in (Code.AUTHENTICATION_FAILED, Code.MALFORMED)
    assert outcome(CLOSED[:-1]) is Code.AUTHENTICATION_FAILED
    assert {outcome(CLOSED[:size]) for size in range(24)} == {Code.MALFORMED}


def test_a_bare_secret_is_not_taken_for_a_closed_one() -> None:
    assert is_under_passphrase(CLOSED)
    assert not is_under_passphrase(SECRET)
    assert not is_under_passphrase(MAGIC + bytes(28))


@pytest.mark.parametrize("passphrase", ["", "\udc80"], ids=["empty", "no character"])
def test_what_is_no_passphrase_is_refused(passphrase: str) -> None:
    with pytest.raises(Malformed, match="passphrase"):
        encrypt_with_passphrase(SECRET, passphrase, entropy=ENTROPY, cost=CHEAP)

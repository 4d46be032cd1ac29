"""Actions count only if the operator signed them, for this file, and not too long ago."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.fleet.signed_actions import MAX_LIFETIME_MS, sign_actions, verify_actions
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from support.spec.clauses import clause

pytestmark = pytest.mark.unit

OPERATOR, OTHER = Identity(bytes(32)), Identity(bytes([1]) * 32)
KEY = bytes(OPERATOR.address)
LINES = [b'{"action":"redrive"}\n', b'{"action":"scoreboard"}\n']
NOW_MS = 1_767_614_400_000
SIGNED = sign_actions(LINES, file="a.jsonl", operator=OPERATOR, expires_at_ms=NOW_MS + 1)


def code_of(raw: bytes, *, file: str = "a.jsonl", key: bytes = KEY, now_ms: int = NOW_MS) -> Code:
    with pytest.raises(RestanteError) as refused:
        verify_actions(raw, file=file, operator_key=key, now_ms=now_ms)
    return refused.value.code


@clause("13.6")
def test_what_the_operator_signed_is_read_until_it_expires() -> None:
    assert verify_actions(SIGNED, file="a.jsonl", operator_key=KEY, now_ms=NOW_MS) == [line[:-1] for line in LINES]
    assert code_of(SIGNED, now_ms=NOW_MS + 1) is Code.TTL_EXPIRED
    endless = sign_actions(LINES, file="a.jsonl", operator=OPERATOR, expires_at_ms=NOW_MS + MAX_LIFETIME_MS + 1)
    assert code_of(endless) is Code.TTL_EXPIRED


@clause("13.6")
def test_a_forged_moved_or_unsigned_file_is_refused() -> None:
    forged = sign_actions(LINES, file="a.jsonl", operator=OTHER, expires_at_ms=NOW_MS + 1)
    assert code_of(forged) is Code.AUTHENTICATION_FAILED
    assert code_of(SIGNED, file="b.jsonl") is Code.MALFORMED
    assert code_of(b"".join(LINES)) is Code.AUTHENTICATION_FAILED
    assert code_of(b"") is Code.AUTHENTICATION_FAILED
    assert code_of(SIGNED, key=bytes(32)) is Code.AUTHENTICATION_FAILED


@given(st.integers(0, len(SIGNED) - 2), st.integers(1, 255))
def test_no_changed_byte_is_accepted(place: int, change: int) -> None:
    raw = bytearray(SIGNED)
    raw[place] ^= change
    try:
        lines = verify_actions(bytes(raw), file="a.jsonl", operator_key=KEY, now_ms=NOW_MS)
    except RestanteError:
        return
    # Only the spelling of the last line can change: the case of a digit, or white space around the signature.
    assert lines == [line[:-1] for line in LINES]
    assert place > SIGNED[:-1].rindex(b"\n")

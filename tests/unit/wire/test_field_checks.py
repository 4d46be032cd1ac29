"""wire/field_checks: the limits that several formats share."""

import pytest

from restante.model.errors import LocalProtocolError, Malformed
from restante.wire.field_checks import MAX_TIME_MS, check_number, check_signature, check_time, signature_to_encode


def test_the_last_moment_that_has_a_date_is_accepted() -> None:
    check_time(253_402_300_799_999, "at")


@pytest.mark.parametrize("value_ms", [-1, 253_402_300_800_000, 2**63, 2**64 - 1])
def test_a_moment_without_a_date_is_refused(value_ms: int) -> None:
    with pytest.raises(Malformed, match=r"^at must be in 0\.\.253402300799999$"):
        check_time(value_ms, "at")


def test_no_peer_can_overflow_a_signed_column_with_a_time_and_a_ttl() -> None:
    longest_ttl_ms = 0xFFFF_FFFF * 1000
    assert MAX_TIME_MS + longest_ttl_ms < 2**63


@pytest.mark.parametrize("value", [-6, 6])
def test_a_number_outside_its_range_is_refused_with_the_range(value: int) -> None:
    with pytest.raises(Malformed, match=r"^level must be in -5\.\.5$"):
        check_number(value, "level", low=-5, high=5)


@pytest.mark.parametrize("size", [1, 63, 65])
def test_a_signature_is_whole_or_absent(size: int) -> None:
    check_signature(b"")
    check_signature(bytes(64))
    with pytest.raises(Malformed, match="signature must have 64 bytes"):
        check_signature(bytes(size))


def test_encoding_something_unsigned_is_our_own_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="a letter must be signed"):
        signature_to_encode(b"", "a letter")

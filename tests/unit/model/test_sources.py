"""A source is the /24 or /48 of a client's address."""

import pytest

from restante.model.sources import UNKNOWN_SOURCE, source_of
from support.spec.clauses import clause


@clause("6.6", "6.8")
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.254", True),
        ("192.0.2.1", "192.0.3.1", False),
        ("2001:db8:1::1", "2001:db8:1:ffff::1", True),
        ("2001:db8:1::1", "2001:db8:2::1", False),
        ("::ffff:192.0.2.1", "192.0.2.9", True),
        ("fe80::1%eth0", "fe80::2", True),
        ("127.0.1.1", "127.0.2.1", False),
    ],
)
def test_addresses_of_one_network_are_one_source(one: str, other: str, same: bool) -> None:
    assert (source_of(one) == source_of(other)) is same


def test_what_is_no_ip_address_has_the_unknown_source() -> None:
    assert source_of("") == source_of("a host") == UNKNOWN_SOURCE

"""wire/inbox_keys: where mail is stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.errors import Malformed
from restante.model.ids import Address
from restante.wire.inbox_keys import relay_inbox_key

addresses = st.binary(min_size=32, max_size=32).map(Address)


@given(addresses, addresses)
def test_each_address_has_a_key_of_its_own(owner: Address, other: Address) -> None:
    assert (relay_inbox_key(owner) == relay_inbox_key(other)) == (owner == other)
    assert len(relay_inbox_key(owner)) == 32


@pytest.mark.parametrize("size", [0, 31, 33])
def test_only_whole_addresses_have_keys(size: int) -> None:
    with pytest.raises(Malformed, match="address must have 32 bytes"):
        relay_inbox_key(Address(bytes(size)))

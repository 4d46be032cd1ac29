"""wire/inbox_keys: where mail is kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.errors import Malformed, OutOfRange
from restante.model.ids import Address
from restante.wire.inbox_keys import bucket_of, mesh_inbox_key, prekey_bundle_key, relay_inbox_key
from support.spec.clauses import clause

OWNER = Address(bytes(range(32)))
addresses = st.binary(min_size=32, max_size=32).map(Address)


@clause("7.2")
@pytest.mark.parametrize(
    ("store_time_ms", "bucket"),
    [(0, 0), (3_599_999, 0), (3_600_000, 1), (1_700_002_799_999, 472_222), (1_700_002_800_000, 472_223)],
)
def test_a_bucket_is_one_hour_of_store_time(store_time_ms: int, bucket: int) -> None:
    assert bucket_of(store_time_ms) == bucket


@clause("7.2")
@given(addresses, st.integers(0, 2**40), st.integers(0, 2**40))
def test_each_hour_has_its_own_key_and_the_relay_another(owner: Address, one: int, other: int) -> None:
    keys = {mesh_inbox_key(owner, one), mesh_inbox_key(owner, other), relay_inbox_key(owner)}
    assert len(keys) == (2 if one == other else 3)
    assert {len(key) for key in keys} == {32}


@given(addresses, addresses)
def test_prekeys_and_mail_never_share_a_key(owner: Address, other: Address) -> None:
    assert prekey_bundle_key(owner) not in {relay_inbox_key(owner), relay_inbox_key(other)}
    assert (prekey_bundle_key(owner) == prekey_bundle_key(other)) == (owner == other)


@pytest.mark.parametrize("bucket", [-1, 2**64])
def test_a_bucket_that_does_not_fit_u64_is_refused(bucket: int) -> None:
    with pytest.raises(OutOfRange, match="bucket"):
        mesh_inbox_key(OWNER, bucket)


def test_a_store_time_before_1970_is_refused() -> None:
    with pytest.raises(OutOfRange, match="store_time"):
        bucket_of(-1)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_only_whole_addresses_have_keys(size: int) -> None:
    owner = Address(bytes(size))
    with pytest.raises(Malformed, match="address must have 32 bytes"):
        mesh_inbox_key(owner, 0)
    with pytest.raises(Malformed, match="address must have 32 bytes"):
        relay_inbox_key(owner)
    with pytest.raises(Malformed, match="address must have 32 bytes"):
        prekey_bundle_key(owner)

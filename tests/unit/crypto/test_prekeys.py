"""crypto/prekeys and core/signed_bundles: what is due when, and which bundles are believed."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restante.core.signed_bundles import sign_bundle, verify_bundle
from restante.crypto.prekeys import (
    PrekeyGone,
    PrekeysDue,
    PrekeyStore,
    choose_one_time,
    one_time_prekey,
    prekeys_due,
    public_bundle,
    renew_due,
    signed_prekey,
    without_one_time,
)
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError
from restante.model.prekey_bundle import PrekeyBundle
from restante.wire.prekey_bundle import bundle_to_sign, encode_bundle
from support.crypto.session_pairs import ALICE, BOB, BOBS_BUNDLE, BOBS_PREKEYS, DAY_MS, EXHAUSTED, NOW_MS, made_prekeys
from support.spec.clauses import clause
from support.wire.codec_properties import flipped

WEEK_MS = 7 * DAY_MS
PUBLIC = public_bundle(BOBS_PREKEYS, BOB.card, now_ms=NOW_MS)


def refusal_of(raw: bytes, *, now_ms: int = NOW_MS) -> Code | None:
    try:
        verify_bundle(raw, owner=BOB.address, now_ms=now_ms)
    except RestanteError as refused:
        return refused.code
    return None


@clause("8.1")
def test_a_new_store_needs_a_signed_prekey_and_a_hundred_one_time_prekeys() -> None:
    assert prekeys_due(PrekeyStore(), now_ms=NOW_MS) == PrekeysDue(rotate=True, one_time=100, expired=0)
    assert len(BOBS_PREKEYS.one_time) == 100
    assert not prekeys_due(BOBS_PREKEYS, now_ms=NOW_MS).anything
    keys = [BOBS_PREKEYS.signed[0].private, *BOBS_PREKEYS.one_time.values()]
    assert len(set(keys)) == 101, "each from random bytes of its own"
    assert len({BOBS_PREKEYS.signed[0].prekey_id, *BOBS_PREKEYS.one_time}) == 101


@clause("8.1")
def test_the_signed_prekey_is_due_after_seven_days_and_the_old_one_kept_for_thirty_more() -> None:
    assert not prekeys_due(BOBS_PREKEYS, now_ms=NOW_MS + WEEK_MS - 1).rotate
    assert prekeys_due(BOBS_PREKEYS, now_ms=NOW_MS + WEEK_MS).rotate
    store, now_ms = BOBS_PREKEYS, NOW_MS
    for seed in range(10):
        now_ms += WEEK_MS
        store = made_prekeys(now_ms=now_ms, store=store, seed=seed)
        ages = [now_ms - prekey.replaced_at_ms for prekey in store.signed if prekey.replaced_at_ms is not None]
        assert all(age < 30 * DAY_MS for age in ages)
        assert [prekey.replaced_at_ms for prekey in store.signed].count(None) == 1
    assert len(store.signed) == 6, "five of the last thirty days, and the one in use"


@clause("8.1")
def test_one_time_prekeys_are_made_again_when_half_are_spent() -> None:
    half = replace(BOBS_PREKEYS, one_time=dict(list(BOBS_PREKEYS.one_time.items())[:50]))
    assert prekeys_due(half, now_ms=NOW_MS).one_time == 0
    fewer = without_one_time(half, next(iter(half.one_time)))
    due = prekeys_due(fewer, now_ms=NOW_MS)
    assert (due.rotate, due.one_time, due.entropy_bytes) == (False, 51, 51 * 32)
    full = made_prekeys(store=fewer, seed=9)
    assert len(full.one_time) == 100
    assert fewer.one_time.items() <= full.one_time.items()
    assert not (full.one_time.keys() - fewer.one_time.keys()) & BOBS_PREKEYS.one_time.keys(), "no id comes twice"


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20 * DAY_MS), st.integers(0, 99)), max_size=8))
def test_after_renewal_nothing_is_due(steps: list[tuple[int, int]]) -> None:
    store, now_ms = BOBS_PREKEYS, NOW_MS
    for passed_ms, spent in steps:
        now_ms += passed_ms
        store = replace(store, one_time=dict(list(store.one_time.items())[spent:]))
        store = made_prekeys(now_ms=now_ms, store=store, seed=now_ms)
        assert not prekeys_due(store, now_ms=now_ms).anything
        assert 50 <= len(store.one_time) <= 100


def test_renewal_takes_exactly_the_entropy_it_asked_for() -> None:
    with pytest.raises(Malformed, match="entropy for prekeys must have 3296 bytes, not 3295"):
        renew_due(PrekeyStore(), entropy=bytes(3_295), now_ms=NOW_MS)


def test_prekeys_that_are_not_there_are_refused_by_kind() -> None:
    with pytest.raises(PrekeyGone, match="signed prekey"):
        signed_prekey(BOBS_PREKEYS, 999, now_ms=NOW_MS)
    with pytest.raises(PrekeyGone, match="one-time prekey") as refused:
        one_time_prekey(EXHAUSTED, 2)
    assert refused.value.code is Code.SESSION_INVALID
    with pytest.raises(Malformed, match="prekey store is empty"):
        public_bundle(PrekeyStore(), BOB.card, now_ms=NOW_MS)


@clause("8.1")
def test_a_published_bundle_is_believed_by_whoever_asks_for_its_owner() -> None:
    bundle = verify_bundle(BOBS_BUNDLE, owner=BOB.address, now_ms=NOW_MS)
    assert bundle.card == BOB.card
    assert len(bundle.one_time) == 100
    assert encode_bundle(bundle) == BOBS_BUNDLE


@clause("8.1")
def test_every_single_bit_flip_of_a_bundle_is_refused() -> None:
    small = sign_bundle(replace(EXHAUSTED, one_time={7: b"o" * 32}), BOB, now_ms=NOW_MS)
    # Each 11th bit of the long keys, every bit of the rest.
    long_keys = range(33 * 8, (33 + 1216) * 8), range(1397 * 8, (1397 + 1184) * 8)
    bits = set(range(len(small) * 8)).difference(*long_keys) | {bit for keys in long_keys for bit in keys[::11]}
    assert {refusal_of(flipped(small, bit)) for bit in bits} == {Code.AUTHENTICATION_FAILED, Code.MALFORMED}


def test_a_bundle_of_somebody_else_is_refused() -> None:
    alices = sign_bundle(made_prekeys(seed=3), ALICE, now_ms=NOW_MS)
    assert refusal_of(alices) is Code.AUTHENTICATION_FAILED


def test_a_bundle_with_anothers_card_is_refused() -> None:
    mixed = public_bundle(BOBS_PREKEYS, ALICE.card, now_ms=NOW_MS)
    assert refusal_of(encode_bundle(replace(mixed, signature=BOB.sign(bundle_to_sign(mixed))))) is (
        Code.AUTHENTICATION_FAILED
    )


@clause("8.1")
def test_an_expired_prekey_is_refused() -> None:
    last_ms = NOW_MS + 37 * DAY_MS - 1
    assert refusal_of(BOBS_BUNDLE, now_ms=last_ms) is None
    assert refusal_of(BOBS_BUNDLE, now_ms=last_ms + 1) is Code.RECIPIENT_NOT_FOUND
    again = sign_bundle(BOBS_PREKEYS, BOB, now_ms=last_ms + 1)
    assert refusal_of(again, now_ms=last_ms + 1) is Code.RECIPIENT_NOT_FOUND, "publishing again makes no key younger"


@pytest.mark.parametrize(
    "unsigned",
    [
        replace(PUBLIC, prekey=bytes(32)),
        replace(PUBLIC, prekey=b"\x01" + bytes(31)),
        replace(PUBLIC, kem_prekey=b"\xff" * 1184),
    ],
    ids=["zero", "small order", "no ML-KEM key"],
)
def test_a_truly_signed_prekey_that_is_no_key_is_refused(unsigned: PrekeyBundle) -> None:
    assert refusal_of(encode_bundle(replace(unsigned, signature=BOB.sign(bundle_to_sign(unsigned))))) is Code.MALFORMED


@clause("8.1")
@given(st.integers(0, 2**64))
def test_any_one_time_prekey_may_be_chosen_until_none_is_left(dice: int) -> None:
    assert choose_one_time(PUBLIC, dice) in PUBLIC.one_time
    assert choose_one_time(replace(PUBLIC, one_time=()), dice) is None

"""crypto/ratchet_codec and prekey_bytes: states survive the disk, and a newer release's are refused by name."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restante.crypto.prekey_codec import decode_prekeys, encode_prekeys
from restante.crypto.prekeys import PrekeyStore
from restante.crypto.ratchet import RatchetState
from restante.crypto.ratchet_codec import decode_ratchet, encode_ratchet
from restante.model.errors import StoreUnusable
from support.crypto.ratchet_pairs import NOW_MS, initiator, pair, responder
from support.crypto.session_pairs import BOBS_PREKEYS, DAY_MS, EXHAUSTED, made_prekeys
from support.wire.codec_properties import (
    assert_refuses_every_truncation,
    assert_refuses_one_more_byte,
    decoded,
    flipped,
)


def with_skipped() -> RatchetState:
    alice, bob = pair()
    for _ in range(3):
        alice.send(b"lost")
        bob.receive(alice.send(b"here"))
        alice.receive(bob.send(b"turn"))
    return bob.state


STATES = {
    "initiator": initiator().state,
    "responder": responder().state,
    "answered": pair()[0].state,
    "turn due": pair()[1].state,
    "with skipped keys": with_skipped(),
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES.keys())
def test_a_state_comes_back_as_it_was(state: RatchetState) -> None:
    again = decode_ratchet(encode_ratchet(state))
    assert again._replace(own_key=state.own_key) == state
    assert (again.own_key is None) is (state.own_key is None)
    assert list(again.skipped) == list(state.skipped), "their order is their age"
    assert encode_ratchet(again) == encode_ratchet(state)


def test_a_conversation_goes_on_across_a_restart() -> None:
    alice, bob = pair()
    late = alice.send(b"late")
    bob.receive(alice.send(b"early"))
    for side in (alice, bob):
        side.state = decode_ratchet(encode_ratchet(side.state))
    assert bob.receive(late) == b"late"
    assert alice.receive(bob.send(b"answer")) == b"answer"
    assert bob.receive(alice.send(b"again")) == b"again"


def test_a_state_without_skipped_keys_is_small() -> None:
    assert len(encode_ratchet(STATES["answered"])) < 300


def test_a_thousand_skipped_keys_take_44_bytes_each() -> None:
    alice, bob = pair()
    bob.receive(alice.send(b"chain known"))
    empty = len(encode_ratchet(bob.state))
    for _ in range(1_000):
        alice.send(b"lost")
    bob.receive(alice.send(b"here"))
    assert len(encode_ratchet(bob.state)) == empty + 34 + 1_000 * 44


@pytest.mark.parametrize("store", [PrekeyStore(), BOBS_PREKEYS, EXHAUSTED], ids=["new", "full", "exhausted"])
def test_a_prekey_store_comes_back_as_it_was(store: PrekeyStore) -> None:
    assert decode_prekeys(encode_prekeys(store)) == store


def test_a_rotated_prekey_store_comes_back_as_it_was() -> None:
    rotated = made_prekeys(now_ms=NOW_MS + 7 * DAY_MS, store=BOBS_PREKEYS, seed=8)
    assert [prekey.replaced_at_ms for prekey in rotated.signed] == [NOW_MS + 7 * DAY_MS, None]
    assert decode_prekeys(encode_prekeys(rotated)) == rotated


DECODERS: list[tuple[Callable[[bytes], object], bytes]] = [
    (decode_ratchet, encode_ratchet(with_skipped())),
    (decode_prekeys, encode_prekeys(replace(BOBS_PREKEYS, one_time=dict(list(BOBS_PREKEYS.one_time.items())[:3])))),
]


@pytest.mark.parametrize(("decode", "raw"), DECODERS, ids=["ratchet", "prekeys"])
def test_a_newer_version_is_refused_with_a_reason(decode: Callable[[bytes], object], raw: bytes) -> None:
    with pytest.raises(StoreUnusable, match=r"version 2 was written by a newer release; this one reads .* up to 1"):
        decode(b"\x02" + raw[1:])


@pytest.mark.parametrize(("decode", "raw"), DECODERS, ids=["ratchet", "prekeys"])
def test_what_is_cut_or_lengthened_is_refused(decode: Callable[[bytes], object], raw: bytes) -> None:
    assert_refuses_every_truncation(decode, raw)
    assert_refuses_one_more_byte(decode, raw)


@settings(deadline=None)
@given(st.sampled_from(DECODERS), st.data())
def test_damaged_bytes_are_refused_or_read_and_raise_nothing_else(
    case: tuple[Callable[[bytes], object], bytes], data: st.DataObject
) -> None:
    decode, raw = case
    bit = data.draw(st.integers(0, len(raw) * 8 - 1))
    for bent in (flipped(raw, bit), b"\x01" + data.draw(st.binary(max_size=400)), data.draw(st.binary(max_size=9))):
        if bent[:1] > b"\x01":
            with pytest.raises(StoreUnusable):
                decode(bent)
        else:
            decoded(decode, bent)

"""crypto/handshake and core/session_messages: both ends agree, no third party does; a refusal uses nothing up."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restante.crypto.handshake import HANDSHAKE_ENTROPY_BYTES, Encapsulation, encapsulate, initiate, respond
from restante.crypto.identity import Identity
from restante.crypto.prekeys import PrekeyStore, choose_one_time
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError, TooLarge
from restante.model.prekey_bundle import Opening
from restante.wire.session_message import decode_session_message
from support.crypto.session_pairs import (
    ALICE,
    BOB,
    BOBS_PREKEYS,
    CAROL,
    DAY_MS,
    EXHAUSTED,
    NOW_MS,
    End,
    accepted,
    both_ends,
    bundle_of,
    made_prekeys,
    opened,
)
from support.spec.clauses import clause
from support.wire.codec_properties import flipped

ENTROPY = bytes(range(HANDSHAKE_ENTROPY_BYTES))


def refusal_of(
    raw: bytes, reader: Identity = BOB, prekeys: PrekeyStore = BOBS_PREKEYS, *, now_ms: int = NOW_MS
) -> Code:
    try:
        accepted(raw, reader, prekeys, now_ms=now_ms)
    except RestanteError as refused:
        return refused.code
    raise AssertionError("it was accepted")


def first_message() -> bytes:
    agreed = opened(bundle_of())
    return End(ALICE.address, agreed).write(b"first")


@clause("8.1", "8.3")
@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32),
    st.booleans(),
    st.integers(1, 2**32 - 1),
)
def test_both_ends_come_to_the_same_session(dice: int, is_exhausted: bool, generation: int) -> None:
    prekeys = EXHAUSTED if is_exhausted else BOBS_PREKEYS
    agreed = opened(bundle_of(prekeys), dice=dice, generation=generation)
    answered = respond(BOB, agreed.opening, generation=generation, prekeys=prekeys, now_ms=NOW_MS)
    assert answered.session_id == agreed.session_id
    assert len(agreed.session_id) == 32
    assert answered.ratchet.context == agreed.ratchet.context
    assert (answered.peer, agreed.peer) == (ALICE.card, BOB.card)
    assert answered.has_one_time_prekey is agreed.has_one_time_prekey is not is_exhausted


@clause("8.1", "8.2")
def test_a_conversation_runs_both_ways() -> None:
    alice, bob, _ = both_ends()
    for count in range(5):
        assert bob.read(alice.write(b"to bob %d" % count)) == b"to bob %d" % count
        assert alice.read(bob.write(b"to alice %d" % count)) == b"to alice %d" % count


def test_the_opening_is_repeated_until_an_answer_and_never_sent_by_the_other_end() -> None:
    agreed = opened(bundle_of())
    alice = End(ALICE.address, agreed)
    first, second = alice.write(b"1"), alice.write(b"2")
    assert (
        decode_session_message(first).message.opening
        == decode_session_message(second).message.opening
        == agreed.opening
    )
    late = accepted(second)
    bob = End(BOB.address, late.agreed)
    assert (late.plaintext, bob.read(first)) == (b"2", b"1")
    answer = bob.write(b"3")
    assert decode_session_message(answer).message.opening is None
    alice.read(answer)
    assert decode_session_message(alice.write(b"4")).message.opening is None


@clause("8.1")
def test_a_one_time_prekey_is_spent_by_the_first_message_that_opens_and_by_no_other() -> None:
    agreed = opened(bundle_of(), dice=7)
    raw = End(ALICE.address, agreed).write(b"first")
    before = dict(BOBS_PREKEYS.one_time)
    ends = len(raw) * 8 - 128  # the sender tag is not the handshake's
    for bit in range(ends - 160, ends, 3):
        assert refusal_of(flipped(raw, bit)) is Code.AUTHENTICATION_FAILED
    assert BOBS_PREKEYS.one_time == before
    after = accepted(raw).prekeys
    assert before.keys() - after.one_time.keys() == {agreed.opening.one_time_id}
    assert refusal_of(raw, prekeys=after) is Code.SESSION_INVALID, "nobody else may use it"


@clause("8.1")
def test_exhausted_one_time_prekeys_fall_back_and_say_so() -> None:
    alice, bob, first = both_ends(EXHAUSTED)
    assert not alice.agreed.has_one_time_prekey
    assert not first.agreed.has_one_time_prekey
    assert first.prekeys is EXHAUSTED
    assert alice.read(bob.write(b"still talking")) == b"still talking"


@clause("8.1")
def test_mail_to_a_replaced_prekey_opens_for_thirty_days_and_no_longer() -> None:
    raw = first_message()
    rotated_at_ms = NOW_MS + 7 * DAY_MS
    rotated = made_prekeys(now_ms=rotated_at_ms, store=BOBS_PREKEYS, seed=6)
    assert rotated.signed[-1].prekey_id != BOBS_PREKEYS.signed[-1].prekey_id
    last_ms = rotated_at_ms + 30 * DAY_MS - 1
    assert accepted(raw, prekeys=rotated, now_ms=last_ms).plaintext == b"first"
    assert refusal_of(raw, prekeys=rotated, now_ms=last_ms + 1) is Code.SESSION_INVALID
    forgotten = made_prekeys(now_ms=last_ms + 1, store=rotated, seed=7)
    assert BOBS_PREKEYS.signed[0] not in forgotten.signed


def test_the_wrong_recipient_cannot_read_it() -> None:
    assert refusal_of(first_message(), CAROL, made_prekeys(seed=9)) is Code.AUTHENTICATION_FAILED
    assert refusal_of(first_message(), CAROL, BOBS_PREKEYS) is Code.AUTHENTICATION_FAILED


def test_nobody_can_open_a_session_in_anothers_name() -> None:
    message = decode_session_message(first_message()).message
    assert message.opening is not None
    # Carol shows Alice's card, but has not the key in it: the agreements come out differently on the two sides.
    forged = initiate(
        CAROL, bundle_of(), one_time=None, encapsulation=encapsulate(bundle_of()), entropy=ENTROPY, generation=1
    )
    as_alice = End(ALICE.address, replace(forged, opening=replace(forged.opening, card=ALICE.card)))
    assert refusal_of(as_alice.write(b"it is me, Alice")) is Code.AUTHENTICATION_FAILED


def test_every_secret_of_the_handshake_matters() -> None:
    bundle = bundle_of()
    kem = encapsulate(bundle)
    one_time = choose_one_time(bundle, 0)
    honest = initiate(ALICE, bundle, one_time=one_time, encapsulation=kem, entropy=ENTROPY, generation=1)
    wrong_kem = Encapsulation(secret=bytes(32), ciphertext=kem.ciphertext)
    others = [
        initiate(ALICE, bundle, one_time=one_time, encapsulation=wrong_kem, entropy=ENTROPY, generation=1),
        initiate(ALICE, bundle, one_time=one_time, encapsulation=kem, entropy=flipped(ENTROPY, 100), generation=1),
        initiate(ALICE, bundle, one_time=None, encapsulation=kem, entropy=ENTROPY, generation=1),
        initiate(ALICE, bundle, one_time=one_time, encapsulation=kem, entropy=ENTROPY, generation=2),
    ]
    roots = {agreed.ratchet.root_key for agreed in (honest, *others)}
    assert len(roots) == 5
    assert others[0].session_id == honest.session_id, "the transcript is public; only the secret differs"
    assert len({agreed.session_id for agreed in (honest, *others)}) == 4


@clause("8.5")
def test_every_bit_flip_of_a_first_message_is_refused() -> None:
    raw = first_message()
    # Each 13th bit of the long keys, every bit of the rest but the sender tag, which others check.
    long_keys = range(86 * 8, (86 + 1216) * 8), range((86 + 1216 + 132) * 8, (86 + 1216 + 132 + 1088) * 8)
    bits = set(range((len(raw) - 16) * 8)).difference(*long_keys) | {bit for keys in long_keys for bit in keys[::13]}
    accepted_bits = []
    for bit in sorted(bits):
        try:
            accepted(flipped(raw, bit))
        except (RestanteError, Malformed, TooLarge):
            continue
        accepted_bits.append(bit)
    assert accepted_bits == []


@pytest.mark.parametrize("share", [bytes(32), b"\x01" + bytes(31)], ids=["zero", "one"])
def test_an_ephemeral_key_of_small_order_is_refused(share: bytes) -> None:
    message = decode_session_message(first_message()).message
    assert message.opening is not None
    bent: Opening = replace(message.opening, ephemeral_key=share)
    with pytest.raises(RestanteError) as refused:
        respond(BOB, bent, generation=1, prekeys=BOBS_PREKEYS, now_ms=NOW_MS)
    assert refused.value.code is Code.AUTHENTICATION_FAILED


def test_a_message_of_an_unknown_session_without_an_opening_asks_for_a_reset() -> None:
    alice, bob, _ = both_ends()
    alice.read(bob.write(b"answer"))
    assert refusal_of(alice.write(b"second")) is Code.SESSION_INVALID


def test_nobody_opens_a_session_with_themselves() -> None:
    bundle = bundle_of(made_prekeys(seed=3), ALICE)
    with pytest.raises(Malformed, match="different addresses"):
        opened(bundle, ALICE)


def test_nothing_secret_is_printed() -> None:
    _, bob, first = both_ends()
    shown = f"{first!r} {bob.agreed!r} {BOBS_PREKEYS!r}"
    secrets = [
        BOBS_PREKEYS.signed[0].private,
        BOBS_PREKEYS.signed[0].kem_seed,
        *BOBS_PREKEYS.one_time.values(),
        bob.ratchet.root_key,
        bob.ratchet.receiving_key,
    ]
    assert not any(repr(secret)[2:-1] in shown or secret.hex() in shown for secret in secrets)
    assert "b'first'" not in shown

"""crypto/ratchet: limits, refusals that change nothing, forward secrecy and healing."""

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from restante.crypto import ratchet as ratchet_module
from restante.crypto.key_derivation import chain_step, message_key
from restante.crypto.ratchet import (
    ENCRYPT_ENTROPY_BYTES,
    RATCHET_OVERHEAD_BYTES,
    GapTooLarge,
    MessageKeyGone,
    RatchetState,
    decrypt,
    delete_expired_keys,
    encrypt,
)
from restante.crypto.ratchet_codec import encode_ratchet
from restante.model.error_codes import Code
from restante.model.errors import LocalProtocolError, Malformed, RemoteProtocolError
from support.crypto.ratchet_pairs import NOW_MS, Side, initiator, pair, responder
from support.spec.clauses import clause
from support.wire.codec_properties import flipped

DAY_MS = 86_400_000


def refusal_of(state: RatchetState, message: bytes, bound: bytes = b"", *, now_ms: int = NOW_MS) -> Code | None:
    """The code of the refusal, after which the state is what it was; None when the message opened."""
    before = encode_ratchet(state)
    try:
        decrypt(state, message, bound, now_ms=now_ms)
    except RemoteProtocolError as refused:
        return refused.code
    finally:
        assert encode_ratchet(state) == before
    return None


def skip(sender: Side, count: int) -> bytes:
    """The message after `count` that never arrive."""
    for _ in range(count):
        sender.send(b"lost")
    return sender.send(b"after the gap")


@clause("8.2")
@pytest.mark.parametrize("turns", [False, True], ids=["same chain", "new chain"])
def test_every_single_bit_flip_is_refused_and_changes_no_state(turns: bool) -> None:
    alice, bob = pair()
    if not turns:
        bob.receive(alice.send(b"the chain is known"))
    message = alice.send(b"pay 100 to carol", b"message id")
    state = bob.state
    codes = {refusal_of(state, flipped(message, bit), b"message id") for bit in range(len(message) * 8)}
    assert None not in codes
    assert codes <= {Code.AUTHENTICATION_FAILED, Code.SESSION_INVALID}
    assert bob.receive(message, b"message id") == b"pay 100 to carol"


@clause("8.2")
def test_a_skipped_message_that_was_changed_keeps_its_key_for_the_true_one() -> None:
    alice, bob = pair()
    late = alice.send(b"late")
    bob.receive(alice.send(b"early"))
    assert {refusal_of(bob.state, flipped(late, bit)) for bit in range(52 * 8, len(late) * 8)} == {
        Code.AUTHENTICATION_FAILED
    }
    assert bob.receive(late) == b"late"


@clause("8.2")
def test_associated_data_is_part_of_the_message() -> None:
    alice, bob = pair()
    message = alice.send(b"text", b"message id")
    for other in (b"", b"message i", b"message id ", b"another id"):
        assert refusal_of(bob.state, message, other) is Code.AUTHENTICATION_FAILED
    assert bob.receive(message, b"message id") == b"text"


def test_the_context_is_part_of_every_message() -> None:
    alice, bob = pair()
    elsewhere = bob.state._replace(context=b"another session between others")
    assert refusal_of(elsewhere, alice.send(b"text")) is Code.AUTHENTICATION_FAILED


@clause("8.2")
def test_a_used_key_is_gone() -> None:
    alice, bob = pair()
    first, second = alice.send(b"1"), alice.send(b"2")
    bob.receive(second)
    bob.receive(first)
    for message in (first, second):
        with pytest.raises(MessageKeyGone):
            bob.receive(message)


def test_a_message_of_an_earlier_turn_is_refused_the_second_time() -> None:
    alice, bob = pair()
    message = alice.send(b"once")
    bob.receive(message)
    alice.receive(bob.send(b"turn"))
    bob.receive(alice.send(b"turn"))
    assert refusal_of(bob.state, message) is Code.AUTHENTICATION_FAILED


@pytest.mark.parametrize("turns", [False, True], ids=["same chain", "new chain"])
@clause("8.2", "9.4")
def test_a_gap_of_1000_is_bridged_and_of_1001_refused(turns: bool) -> None:
    alice, bob = pair()
    if not turns:
        bob.receive(alice.send(b"the chain is known"))
    messages = [alice.send(b"%d" % count) for count in range(1_002)]
    with pytest.raises(GapTooLarge, match="1001 messages are missing"):
        bob.receive(messages[1_001])
    assert refusal_of(bob.state, messages[1_001]) is Code.SESSION_INVALID
    assert bob.receive(messages[1_000]) == b"1000"
    assert len(bob.state.skipped) == 1_000
    assert [bob.receive(message) for message in messages[:1_000:111]] == [b"%d" % n for n in range(0, 1_000, 111)]


@clause("8.2")
def test_a_gap_spread_over_two_turns_counts_as_one() -> None:
    alice, bob = pair()
    skip(alice, 600)
    alice.receive(bob.send(b"turn"))
    assert refusal_of(bob.state, skip(alice, 401)) is Code.SESSION_INVALID


@clause("8.2")
@pytest.mark.parametrize("field", [32, 36], ids=["number", "length of the chain before"])
def test_a_gap_of_a_million_is_refused_in_constant_work(field: int, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = pair()
    message = alice.send(b"far away")
    steps = 0

    def counted(chain_key: bytes) -> tuple[bytes, bytes]:
        nonlocal steps
        steps += 1
        return chain_step(chain_key)

    monkeypatch.setattr(ratchet_module, "chain_step", counted)
    monkeypatch.setattr(ratchet_module, "root_step", None)
    for gap in (1_002, 1_000_000, 0xFFFF_FFFF):
        far = message[:field] + gap.to_bytes(4, "big") + message[field + 4 :]
        assert refusal_of(bob.state, far) is Code.SESSION_INVALID
    assert steps == 0, "no key is derived for it"


@clause("8.2")
def test_more_than_1000_skipped_keys_push_out_the_oldest() -> None:
    alice, bob = pair()
    early = [alice.send(b"early %d" % count) for count in range(700)]
    bob.receive(alice.send(b"here"))
    late = [alice.send(b"late %d" % count) for count in range(500)]
    bob.receive(alice.send(b"here"))
    assert len(bob.state.skipped) == 1_000
    with pytest.raises(MessageKeyGone):
        bob.receive(early[199])
    assert (bob.receive(early[200]), bob.receive(late[0])) == (b"early 200", b"late 0")


@clause("8.2")
def test_a_skipped_key_is_kept_for_thirty_days() -> None:
    alice, bob = pair()
    one, other = alice.send(b"one"), alice.send(b"other")
    bob.receive(alice.send(b"here"), now_ms=NOW_MS)
    last_ms = NOW_MS + 30 * DAY_MS - 1
    assert bob.receive(one, now_ms=last_ms) == b"one"
    assert delete_expired_keys(bob.state, now_ms=last_ms) is bob.state
    with pytest.raises(MessageKeyGone):
        bob.receive(other, now_ms=last_ms + 1)
    assert delete_expired_keys(bob.state, now_ms=last_ms + 1).skipped == {}
    bob.receive(alice.send(b"later"), now_ms=last_ms + 1)
    assert bob.state.skipped == {}, "any message that opens sweeps the old keys out"


def test_only_the_old_ones_of_the_skipped_keys_are_forgotten() -> None:
    alice, bob = pair()
    old = alice.send(b"old")
    bob.receive(alice.send(b"here"), now_ms=NOW_MS)
    young = alice.send(b"young")
    bob.receive(alice.send(b"here"), now_ms=NOW_MS + DAY_MS)
    now_ms = NOW_MS + 30 * DAY_MS
    with pytest.raises(MessageKeyGone):
        bob.receive(old, now_ms=now_ms)
    assert bob.receive(young, now_ms=now_ms) == b"young"


@clause("8.2")
def test_a_stolen_state_reads_no_message_from_before() -> None:
    alice, bob = pair()
    recorded = []
    for count in range(10):
        recorded.append(alice.send(b"old %d" % count))
        bob.receive(recorded[-1])
        if count % 3 == 2:
            recorded.append(bob.send(b"old answer"))
            alice.receive(recorded[-1])
    for stolen in (alice.state, bob.state):
        assert {refusal_of(stolen, message) for message in recorded} == {Code.AUTHENTICATION_FAILED}
        keys = keys_ahead(stolen.sending_key) + keys_ahead(stolen.receiving_key) + keys_ahead(stolen.root_key)
        assert not any(can_open(key, message, stolen.context) for key in keys for message in recorded)
    next_message = alice.send(b"new")
    assert can_open(keys_ahead(bob.state.receiving_key)[0], next_message, bob.state.context), "the test can succeed"


def keys_ahead(chain_key: bytes) -> list[bytes]:
    """The next message keys of a stolen chain."""
    message_keys = []
    for _ in range(50 if chain_key else 0):
        seed, chain_key = chain_step(chain_key)
        message_keys.append(seed)
    return message_keys


def can_open(seed: bytes, message: bytes, context: bytes) -> bool:
    """Whether this seed opens the message: what a thief can try without the ratchet."""
    try:
        AESGCM(message_key(seed, message[40:56])).decrypt(bytes(12), message[56:], context + message[:40])
    except InvalidTag:
        return False
    return True


@clause("8.2")
def test_a_stolen_state_is_worthless_after_a_round_trip() -> None:
    alice, bob = pair()
    thief = Side(bob.state, seed=99)
    exposed = alice.send(b"the thief reads this")
    assert thief.receive(exposed) == b"the thief reads this", "or else the theft showed nothing"
    bob.receive(exposed)
    # Bob answers under a key drawn after the theft; what Alice writes then is closed to the thief.
    alice.receive(bob.send(b"answer"))
    healed = alice.send(b"private again")
    assert refusal_of(thief.state, healed) is Code.AUTHENTICATION_FAILED
    assert bob.receive(healed) == b"private again"
    alice.receive(bob.send(b"and the other way"))
    # What the thief writes in Bob's name is refused, too: its turns no longer fit.
    assert refusal_of(alice.state, thief.send(b"forged")) is Code.AUTHENTICATION_FAILED


def test_the_latest_moment_of_a_turn_is_the_next_message_sent() -> None:
    alice, bob = pair()
    message = alice.send(b"turns bob")
    bob.receive(message)
    assert (bob.state.sending_key, bob.state.own_key) == (b"", None), "nothing to send with that could be stolen"
    alice.receive(bob.send(b"now it does"))
    assert bob.state.sending_key


@pytest.mark.parametrize("public", [bytes(32), b"\x01" + bytes(31), b"\xec" + b"\xff" * 30 + b"\x7f"])
def test_a_ratchet_key_of_small_order_is_refused(public: bytes) -> None:
    alice, bob = pair()
    message = alice.send(b"text")
    assert refusal_of(bob.state, public + message[32:]) is Code.AUTHENTICATION_FAILED


def test_a_turn_before_we_have_written_since_the_last_one_is_refused_unseen() -> None:
    alice, bob = pair()
    bob.receive(alice.send(b"bob owes a turn"))
    forged = bytes(range(32)) + alice.send(b"text")[32:]
    assert refusal_of(bob.state, forged) is Code.AUTHENTICATION_FAILED


def test_ones_own_message_sent_back_is_refused() -> None:
    alice, bob = pair()
    assert refusal_of(alice.state, alice.send(b"echo")) is Code.AUTHENTICATION_FAILED
    assert refusal_of(bob.state, bob.send(b"echo")) is Code.AUTHENTICATION_FAILED


def test_before_an_answer_nothing_opens_for_the_one_who_wrote_first() -> None:
    alice = initiator()
    own = alice.send(b"first")
    assert not alice.state.is_answered
    # A header with the prekey in it must not meet a chain that does not exist yet.
    assert refusal_of(alice.state, alice.state.their_public + own[32:]) is Code.AUTHENTICATION_FAILED


@pytest.mark.parametrize("size", [0, 1, 40, 52, RATCHET_OVERHEAD_BYTES - 1])
def test_a_message_that_is_too_short_is_malformed(size: int) -> None:
    _, bob = pair()
    assert refusal_of(bob.state, bytes(size)) is Code.MALFORMED


@settings(deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=20))
def test_arbitrary_bytes_are_refused_and_raise_nothing_else(raw: bytes, bound: bytes) -> None:
    assert refusal_of(responder().state, raw, bound) is not None
    assert refusal_of(STATES[0], raw, bound) is not None
    assert refusal_of(STATES[1], raw, bound) is not None


def test_the_one_who_was_written_to_must_receive_first() -> None:
    with pytest.raises(LocalProtocolError, match="must receive before"):
        responder().send(b"too early")


@pytest.mark.parametrize("size", [0, ENCRYPT_ENTROPY_BYTES - 1, ENCRYPT_ENTROPY_BYTES + 1])
def test_another_amount_of_entropy_is_refused(size: int) -> None:
    with pytest.raises(Malformed, match=f"{ENCRYPT_ENTROPY_BYTES} random bytes, not {size}"):
        encrypt(initiator().state, b"", b"", entropy=bytes(size))


def test_printing_a_state_shows_nothing_of_it() -> None:
    alice, _ = pair()
    assert f"{alice.state!r} {alice.state}" == "RatchetState(…) RatchetState(…)"


STATES = tuple(side.state for side in pair())


@clause("8.12")
def test_a_state_restored_from_a_backup_uses_no_message_key_twice() -> None:
    backup = initiator().state
    _, first = encrypt(backup, b"before the restore", b"", entropy=b"1" * ENCRYPT_ENTROPY_BYTES)
    _, second = encrypt(backup, b"after the restore!", b"", entropy=b"2" * ENCRYPT_ENTROPY_BYTES)
    assert first[:40] == second[:40], "ratchet key and number are the same"
    xored = bytes(one ^ other for one, other in zip(first[56:-16], second[56:-16], strict=True))
    plain = bytes(one ^ other for one, other in zip(b"before the restore", b"after the restore!", strict=True))
    assert xored != plain, "one keystream for two plaintexts"

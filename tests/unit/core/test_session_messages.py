"""core/session_messages: a message through ratchet, padding, seal and envelope and back, as nodes see it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.decrypted_messages import dedup_key
from restante.core.relay_envelope import build_relay_envelope
from restante.core.session_messages import (
    UNSEALED_TOGETHER,
    UnsealedMessage,
    decrypt_message,
    unseal_envelope,
    unseal_envelopes,
)
from restante.crypto.identity import Identity
from restante.crypto.ratchet_codec import encode_ratchet
from restante.crypto.sealing import seal
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.model.ids import MessageId
from restante.model.kinds import Kind, TtlType
from restante.policy.padding import pad
from restante.wire.envelope import decode_envelope
from restante.wire.message_content import Content, decode_content, encode_content
from restante.wire.session_message import MAX_OPENING_BYTES, MIN_SESSION_MESSAGE_BYTES
from restante.wire.ttl_header import TtlHeader
from support.crypto.session_pairs import ALICE, BOB, CAROL, NOW_MS, End, accepted, both_ends, bundle_of, opened
from support.spec.clauses import clause
from support.wire.codec_properties import flipped

EXPIRES_AT_MS = NOW_MS + 86_400_000
ID = MessageId(bytes.fromhex("9f1c5a3e6d0b4c1e8a572f4e0c9b7d11"))


def content(sequence: int, body: bytes = b"hello") -> bytes:
    header = TtlHeader(created_at_ms=NOW_MS, ttl_s=86_400, ttl_type=TtlType.ABSOLUTE)
    return encode_content(Content(header=header, sequence=sequence, kind=Kind.TEXT, body=body))


def envelope(message: bytes, reader: Identity = BOB) -> bytes:
    return build_relay_envelope(
        seal(pad(message), reader.card),
        recipient=reader.address,
        relay=CAROL.node_key,
        kind=Kind.TEXT,
        expires_at_ms=EXPIRES_AT_MS,
        now_ms=NOW_MS,
    )


def inbox_key_bytes(raw: bytes) -> set[int]:
    start = raw.index(decode_envelope(raw).inbox_key)
    return set(range(start, start + 32))


@clause("8.4", "8.5")
def test_a_node_sees_neither_sender_session_message_id_kind_nor_counters() -> None:
    alice, bob, _ = both_ends()
    for message in (alice.write(content(7), ID), bob.write(content(8), ID)):
        reader = BOB if message[1:33] == ALICE.address else ALICE
        seen = envelope(message, reader)
        hidden = [
            ALICE.address,
            BOB.address,
            alice.agreed.session_id,
            ID,
            alice.ratchet.own_public,
            bob.ratchet.own_public,
            b"text",
            b"hello",
            ALICE.card.agreement_key,
        ]
        assert [secret for secret in hidden if secret in seen] == []


@clause("8.4")
def test_the_sequence_goes_on_where_the_ratchets_numbers_start_again() -> None:
    alice, bob, _ = both_ends()
    sequences, numbers = [], []
    for count in range(6):
        raw = alice.write(content(count))
        arrival = unseal_envelope(envelope(raw), recipient=BOB)
        numbers.append(int.from_bytes(arrival.message.ratchet[32:36], "big"))
        sequences.append(decode_content(bob.read(raw)).sequence)
        if count % 2:
            alice.read(bob.write(content(count)))
    assert sequences == [0, 1, 2, 3, 4, 5]
    assert numbers == [1, 2, 0, 1, 0, 1]


@clause("2.9", "8.5")
@given(st.integers(0, 9_000))
def test_a_first_message_has_one_of_the_usual_sizes(size: int) -> None:
    agreed = opened(BUNDLE)
    raw = End(ALICE.address, agreed).write(bytes(size))
    assert len(pad(raw)) in (4096, 8192, 16_384)


@clause("2.9")
def test_the_tag_and_the_opening_count_for_the_padded_size() -> None:
    first, (_, ordinary, _) = End(ALICE.address, opened(BUNDLE)), both_ends()
    flags = 1
    around = {first: MIN_SESSION_MESSAGE_BYTES - flags + MAX_OPENING_BYTES, ordinary: MIN_SESSION_MESSAGE_BYTES}
    for end, around_bytes in around.items():
        for size in (4_096, 8_192, 16_384):
            fits = bytes(size - MARKER_BYTES - around_bytes)
            following = 8_192 if size == 4_096 else size + 8_192
            assert (len(end.write_padded(fits)), len(end.write_padded(fits + b"x"))) == (size, following)


BUNDLE = bundle_of()
MARKER_BYTES = 1


@clause("8.2", "8.5")
def test_every_sampled_bit_flip_of_an_envelope_is_refused_and_changes_no_state() -> None:
    alice, bob, _ = both_ends()
    raw = envelope(alice.write(content(1)))
    before = encode_ratchet(bob.ratchet)
    opened_bits = []
    for bit in {*range(64 * 8), *range(64 * 8, len(raw) * 8, 11), *range((len(raw) - 20) * 8, len(raw) * 8)}:
        try:
            arrival = unseal_envelope(flipped(raw, bit), recipient=BOB)
            decrypt_message(bob.ratchet, arrival.message, now_ms=NOW_MS)
        except RestanteError:
            continue
        opened_bits.append(bit)
    assert {bit // 8 for bit in opened_bits} == inbox_key_bytes(raw), "only the inbox key is the node's own affair"
    assert encode_ratchet(bob.ratchet) == before


def test_refusals_stand_in_their_places_among_what_opened() -> None:
    alice, _, _ = both_ends()
    good = [envelope(alice.write(content(number))) for number in range(2 * UNSEALED_TOGETHER)]
    stray = envelope(alice.write(content(99)), CAROL)
    no_message = envelope(b"no message" * 60)
    mixed = [stray, *good[:20], good[20][:-1], b"", *good[20:], flipped(good[0], len(good[0]) * 8 - 1), no_message]
    opened_there = unseal_envelopes(mixed, recipient=BOB)
    refused = {at: one.code for at, one in enumerate(opened_there) if isinstance(one, RestanteError)}
    assert refused == {
        0: Code.AUTHENTICATION_FAILED,
        21: Code.MALFORMED,
        22: Code.MALFORMED,
        len(mixed) - 2: Code.AUTHENTICATION_FAILED,
        len(mixed) - 1: Code.MALFORMED,
    }
    assert [one for one in opened_there if isinstance(one, UnsealedMessage)] == [
        unseal_envelope(raw, recipient=BOB) for raw in good
    ]


def test_an_envelope_for_somebody_else_is_refused() -> None:
    alice, _, _ = both_ends()
    raw = envelope(alice.write(content(1)))
    with pytest.raises(RestanteError) as refused:
        unseal_envelope(raw, recipient=CAROL)
    assert refused.value.code is Code.AUTHENTICATION_FAILED


def test_a_message_passed_on_to_somebody_else_does_not_open_there() -> None:
    """Bob can seal what he got for Carol; it still names a session that only Alice and Bob have."""
    agreed = opened(BUNDLE)
    passed_on = unseal_envelope(envelope(End(ALICE.address, agreed).write(b"for bob"), CAROL), recipient=CAROL)
    with pytest.raises(RestanteError) as refused:
        accepted(passed_on.message, CAROL)
    assert refused.value.code is Code.AUTHENTICATION_FAILED


def test_an_id_moved_to_another_message_does_not_open() -> None:
    alice, bob, _ = both_ends()
    raw = alice.write(content(1), ID)
    other = bytes.fromhex("00112233445546778899aabbccddeeff")
    with pytest.raises(RestanteError) as refused:
        bob.read(raw[:65] + other + raw[81:])
    assert refused.value.code is Code.AUTHENTICATION_FAILED
    assert decode_content(bob.read(raw)).body == b"hello"


def test_a_message_comes_again_under_its_id_in_another_session() -> None:
    alice, bob, first = both_ends()
    bob.read(alice.write(content(1), ID))
    # The receipt was lost and Bob asked for it: Alice opens another session.
    agreed = opened(bundle_of(first.prekeys), generation=2)
    again = accepted(End(ALICE.address, agreed).write(content(0), ID), prekeys=first.prekeys)
    assert decode_content(again.plaintext).body == b"hello"
    old, new = bob.agreed.session_id, again.agreed.session_id
    assert dedup_key(ALICE.address, old, ID) != dedup_key(ALICE.address, new, ID)

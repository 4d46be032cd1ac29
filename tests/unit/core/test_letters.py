"""core/letters: written, sealed, opened; and everything that must not open."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clauses import clause
from codec_laws import flipped
from restante.core.letters import Draft, Opened, dedup_key, enclose, open_envelope, write
from restante.crypto.identity import Identity
from restante.crypto.sealing import seal, unseal
from restante.model.codes import Code
from restante.model.errors import RestanteError, TooLarge
from restante.model.ids import Address, MessageId, SessionId, mint_message_id
from restante.model.kinds import Kind, TtlType
from restante.policy.padding import pad
from restante.wire.envelope import Envelope, decode_envelope, encode_envelope
from restante.wire.inbox_keys import relay_inbox_key
from restante.wire.letter import Letter, encode_plaintext, letter_to_sign
from restante.wire.ttl_header import TtlHeader

ALICE = Identity(b"a" * 32)
BOB = Identity(b"b" * 32)
CAROL = Identity(b"c" * 32)
HOUR_MS = 3_600_000
NOW_MS = 500_000 * HOUR_MS
EXPIRES_MS = NOW_MS + 48 * HOUR_MS
DRAFT = Draft(
    message_id=mint_message_id(b"m" * 16),
    session_id=SessionId(b"\x11" * 32),
    sequence=7,
    kind=Kind.TEXT,
    body=b"bonjour",
    created_at_ms=NOW_MS,
    ttl_s=172_800,
)
HEADER = TtlHeader(created_at_ms=NOW_MS, ttl_s=172_800, ttl_type=TtlType.ABSOLUTE)
UNSIGNED = Letter(
    message_id=DRAFT.message_id,
    sender=ALICE.address,
    session_id=DRAFT.session_id,
    sequence=7,
    kind=Kind.TEXT,
    body=b"bonjour",
)
drafts = st.builds(
    Draft,
    message_id=st.binary(min_size=16, max_size=16).map(mint_message_id),
    session_id=st.binary(min_size=32, max_size=32).map(SessionId),
    sequence=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(Kind),
    body=st.binary(max_size=3_000),
    created_at_ms=st.integers(0, 2**41),
    ttl_s=st.integers(0, 2**32 - 1),
)


def posted(draft: Draft, *, writer: Identity = ALICE, reader: Identity = BOB) -> bytes:
    plaintext = write(draft, writer=writer, reader=reader.card)
    return enclose(plaintext, kind=draft.kind, reader=reader.card, expires_at_ms=EXPIRES_MS, now_ms=NOW_MS)


def addressed_to_bob(plaintext: bytes) -> bytes:
    """An envelope for Bob around whatever somebody sealed."""
    sealed = seal(plaintext, BOB.card)
    return encode_envelope(Envelope(inbox_key=relay_inbox_key(BOB.address), expires_at_ms=EXPIRES_MS, sealed=sealed))


def outcome(raw: bytes, reader: Identity = BOB) -> Opened | Code:
    """What opened, or the code of the refusal; any other exception fails the test."""
    try:
        return open_envelope(raw, reader=reader)
    except RestanteError as refused:
        return refused.code


@given(drafts)
def test_a_letter_reaches_its_reader_as_it_was_written(draft: Draft) -> None:
    opened = open_envelope(posted(draft), reader=BOB)
    letter = opened.letter
    assert letter.sender == ALICE.address
    assert (letter.message_id, letter.session_id, letter.sequence) == (
        draft.message_id,
        draft.session_id,
        draft.sequence,
    )
    assert (letter.kind, letter.body) == (draft.kind, draft.body)
    assert (opened.header.created_at_ms, opened.header.ttl_s) == (draft.created_at_ms, draft.ttl_s)


@clause("2.6")
@pytest.mark.parametrize("kind", Kind)
def test_only_a_disappearing_letter_counts_its_life_from_the_first_reading(kind: Kind) -> None:
    opened = open_envelope(posted(replace(DRAFT, kind=kind)), reader=BOB)
    assert opened.header.ttl_type == (1 if kind is Kind.DISAPPEARING else 0)


@clause("2.9")
@pytest.mark.parametrize(("body_bytes", "padded_bytes"), [(0, 512), (100, 512), (700, 1024), (9_000, 16_384)])
def test_the_plaintext_is_padded_before_it_is_sealed(body_bytes: int, padded_bytes: int) -> None:
    envelope = decode_envelope(posted(replace(DRAFT, body=bytes(body_bytes))))
    assert len(envelope.sealed) == padded_bytes + 1_136
    assert len(unseal(envelope.sealed, BOB)) == padded_bytes


@clause("2.8")
def test_the_largest_letter_fits_and_one_more_byte_is_too_large() -> None:
    # 253,952 padded bytes, less marker 1, TTL header 13 and the 179 + 3 bytes the other fields and the length take.
    overhead_bytes = (
        len(encode_plaintext(HEADER, replace(UNSIGNED, body=bytes(100_000), signature=b"s" * 64))) - 100_000
    )
    largest = replace(DRAFT, body=bytes(253_951 - overhead_bytes))
    raw = posted(largest)
    assert len(decode_envelope(raw).sealed) <= 262_144
    assert open_envelope(raw, reader=BOB).letter.body == largest.body
    with pytest.raises(TooLarge) as refused:
        write(replace(largest, body=largest.body + b"\x00"), writer=ALICE, reader=BOB.card)
    assert refused.value.code == "E006"


def test_an_envelope_shows_only_inbox_expiry_and_sealed_bytes() -> None:
    raw = posted(DRAFT)
    envelope = decode_envelope(raw)
    assert envelope.inbox_key == relay_inbox_key(BOB.address)
    assert envelope.expires_at_ms == EXPIRES_MS
    for hidden in (ALICE.address, BOB.address, DRAFT.session_id, DRAFT.message_id, b"text", b"bonjour"):
        assert bytes(hidden) not in raw


@pytest.mark.parametrize(
    ("kind", "expires_in_ms", "stored_h"),
    [
        (Kind.TEXT, 2 * HOUR_MS, 2),
        (Kind.TEXT, 2 * HOUR_MS + 1, 3),
        (Kind.TEXT, 90 * 24 * HOUR_MS, 720),
        (Kind.DISAPPEARING, 5_000, 720),
    ],
    ids=["whole hours", "rounded up", "30 days at most", "relative: the default"],
)
@clause("6.6")
def test_the_expiry_on_the_envelope_is_rounded_and_bounded(kind: Kind, expires_in_ms: int, stored_h: int) -> None:
    plaintext = write(replace(DRAFT, kind=kind), writer=ALICE, reader=BOB.card)
    raw = enclose(plaintext, kind=kind, reader=BOB.card, expires_at_ms=NOW_MS + expires_in_ms, now_ms=NOW_MS)
    assert decode_envelope(raw).expires_at_ms == NOW_MS + stored_h * HOUR_MS


def test_the_payload_hash_is_the_sha_256_of_the_sealed_bytes_alone() -> None:
    sealed = seal(pad(encode_plaintext(HEADER, signed(UNSIGNED, ALICE, BOB))), BOB.card)
    inbox = relay_inbox_key(BOB.address)
    hashes = {
        open_envelope(
            encode_envelope(Envelope(inbox_key=inbox, expires_at_ms=at_ms, sealed=sealed)), reader=BOB
        ).payload_hash
        for at_ms in (EXPIRES_MS, EXPIRES_MS + HOUR_MS)
    }
    assert len(hashes) == 1, "a relay that changes the expiry does not make another message of it"


def signed(letter: Letter, by: Identity, reader: Identity) -> Letter:
    return replace(letter, signature=by.sign(letter_to_sign(letter, reader.address)))


def test_a_letter_in_anothers_name_is_refused() -> None:
    forged = signed(UNSIGNED, CAROL, BOB)
    assert outcome(addressed_to_bob(pad(encode_plaintext(HEADER, forged)))) is Code.AUTHENTICATION_FAILED
    genuine = signed(UNSIGNED, ALICE, BOB)
    renamed = replace(genuine, sender=CAROL.address)
    assert outcome(addressed_to_bob(pad(encode_plaintext(HEADER, renamed)))) is Code.AUTHENTICATION_FAILED


def test_a_letter_to_another_that_its_reader_passes_on_is_refused() -> None:
    to_carol = decode_envelope(posted(DRAFT, reader=CAROL))
    plaintext = unseal(to_carol.sealed, CAROL)
    assert outcome(addressed_to_bob(plaintext)) is Code.AUTHENTICATION_FAILED


def test_what_was_sealed_for_another_is_refused_even_in_my_inbox() -> None:
    to_carol = posted(DRAFT, reader=CAROL)
    assert outcome(to_carol) is Code.MALFORMED
    misplaced = replace(decode_envelope(to_carol), inbox_key=relay_inbox_key(BOB.address))
    assert outcome(encode_envelope(misplaced)) is Code.AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    "changed",
    [
        replace(UNSIGNED, message_id=mint_message_id(b"n" * 16)),
        replace(UNSIGNED, session_id=SessionId(b"\x12" * 32)),
        replace(UNSIGNED, sequence=8),
        replace(UNSIGNED, kind=Kind.MEDIA),
        replace(UNSIGNED, body=b"bonsoir"),
    ],
    ids=["message_id", "session_id", "sequence", "kind", "body"],
)
def test_the_signature_holds_every_field_of_the_letter(changed: Letter) -> None:
    genuine = signed(UNSIGNED, ALICE, BOB)
    assert not isinstance(outcome(addressed_to_bob(pad(encode_plaintext(HEADER, genuine)))), Code)
    moved = replace(changed, signature=genuine.signature)
    assert outcome(addressed_to_bob(pad(encode_plaintext(HEADER, moved)))) is Code.AUTHENTICATION_FAILED


def test_every_sampled_bit_flip_of_an_envelope_is_refused() -> None:
    raw = posted(DRAFT)
    sealed_from = len(raw) - len(decode_envelope(raw).sealed)
    assert sealed_from < 60
    bits = {*range(sealed_from * 8), *range(sealed_from * 8, len(raw) * 8, 7)}
    opened = [bit for bit in bits if isinstance(outcome(flipped(raw, bit)), Opened)]
    assert opened == []


@given(st.binary(max_size=200) | st.binary(max_size=200).map(pad))
def test_whatever_was_sealed_is_refused_with_a_code(plaintext: bytes) -> None:
    assert outcome(addressed_to_bob(plaintext)) is Code.MALFORMED


@given(st.binary(max_size=200))
def test_whatever_arrives_is_refused_with_a_code(raw: bytes) -> None:
    assert outcome(raw) is Code.MALFORMED


@clause("9.1")
def test_the_dedup_key_is_the_sha_256_of_sender_session_and_message_id() -> None:
    # sha256sum of 00 .. 1f, then 32 bytes 11, then 9f1c5a3e6d0b4c1e8a572f4e0c9b7d11
    key = dedup_key(
        Address(bytes(range(32))),
        SessionId(b"\x11" * 32),
        MessageId(bytes.fromhex("9f1c5a3e6d0b4c1e8a572f4e0c9b7d11")),
    )
    assert key.hex() == "7c9bfebb633ee1a420fcf3c75daf9a8c5b541ae8ad2d6c1e8a3fe7fb85bb6222"

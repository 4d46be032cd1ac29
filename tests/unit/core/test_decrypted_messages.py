"""core/decrypted_messages: what an envelope shows, and by what an arrival is known again."""

import pytest

from restante.core.decrypted_messages import dedup_key, seal_envelope
from restante.crypto.identity import Identity
from restante.crypto.sealing import unseal
from restante.model.ids import Address, MessageId, SessionId
from restante.model.kinds import Kind
from restante.wire.envelope import decode_envelope
from restante.wire.inbox_keys import relay_inbox_key
from support.spec.clauses import clause

BOB = Identity(b"b" * 32)
HOUR_MS = 3_600_000
NOW_MS = 500_000 * HOUR_MS


def test_an_envelope_is_for_its_reader_and_shows_nothing_of_what_is_in_it() -> None:
    raw = seal_envelope(b"bonjour", kind=Kind.TEXT, reader=BOB.card, expires_at_ms=NOW_MS + HOUR_MS, now_ms=NOW_MS)
    envelope = decode_envelope(raw)
    assert envelope.inbox_key == relay_inbox_key(BOB.address)
    assert unseal(envelope.sealed, BOB) == b"bonjour"
    for hidden in (bytes(BOB.address), b"text", b"bonjour"):
        assert hidden not in raw


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
    raw = seal_envelope(b"?", kind=kind, reader=BOB.card, expires_at_ms=NOW_MS + expires_in_ms, now_ms=NOW_MS)
    assert decode_envelope(raw).expires_at_ms == NOW_MS + stored_h * HOUR_MS


@clause("9.1")
def test_the_dedup_key_is_the_sha_256_of_sender_session_and_message_id() -> None:
    # sha256sum of 00 .. 1f, then 32 bytes 11, then 9f1c5a3e6d0b4c1e8a572f4e0c9b7d11
    key = dedup_key(
        Address(bytes(range(32))),
        SessionId(b"\x11" * 32),
        MessageId(bytes.fromhex("9f1c5a3e6d0b4c1e8a572f4e0c9b7d11")),
    )
    assert key.hex() == "7c9bfebb633ee1a420fcf3c75daf9a8c5b541ae8ad2d6c1e8a3fe7fb85bb6222"

"""core/relay_envelope: what a relay sees of a message, built for each attempt."""

import pytest

from restante.core.inboxes.relay_inbox import relay_inbox_key
from restante.core.relay_envelope import build_relay_envelope
from restante.crypto.identity import Identity
from restante.crypto.sealing import seal, unseal
from restante.model.kinds import Kind
from restante.wire.envelope import decode_envelope
from support.spec.clauses import clause

BOB = Identity(b"b" * 32)
RELAY = Identity(b"r" * 32).node_key
HOUR_MS = 3_600_000
NOW_MS = 500_000 * HOUR_MS


def envelope_of(sealed: bytes, kind: Kind, expires_in_ms: int) -> bytes:
    return build_relay_envelope(
        sealed, recipient=BOB.address, relay=RELAY, kind=kind, expires_at_ms=NOW_MS + expires_in_ms, now_ms=NOW_MS
    )


def test_an_envelope_is_for_its_reader_and_shows_nothing_of_what_is_in_it() -> None:
    raw = envelope_of(seal(b"bonjour", BOB.card), Kind.TEXT, HOUR_MS)
    envelope = decode_envelope(raw)
    assert envelope.inbox_key == relay_inbox_key(BOB.address, RELAY)
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
    raw = envelope_of(b"?", kind, expires_in_ms)
    assert decode_envelope(raw).expires_at_ms == NOW_MS + stored_h * HOUR_MS

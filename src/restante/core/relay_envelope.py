"""The envelope a relay stores, built for each attempt from an entry's sealed bytes (SPEC 0, 3.14)."""

from restante.core.inboxes.relay_inbox import relay_inbox_key
from restante.crypto.blinded_keys import NO_SECRET
from restante.model.ids import Address, NodeKey
from restante.model.kinds import KIND_RULES, Kind
from restante.policy.quota import storage_expiry_ms
from restante.wire.envelope import Envelope, encode_envelope


def build_relay_envelope(
    sealed: bytes,
    *,
    recipient: Address,
    relay: NodeKey,
    kind: Kind,
    expires_at_ms: int,
    now_ms: int,
    access_secret: bytes = NO_SECRET,
) -> bytes:
    """Return inbox key, rounded expiry and sealed bytes as one envelope.

    The expiry is counted from this attempt: a relay stores a message for at most 30 days, whatever its TTL.
    """
    return encode_envelope(
        Envelope(
            inbox_key=relay_inbox_key(recipient, relay, access_secret),
            expires_at_ms=storage_expiry_ms(
                ttl_type=KIND_RULES[kind].ttl_type, expires_at_ms=expires_at_ms, now_ms=now_ms
            ),
            sealed=sealed,
        )
    )

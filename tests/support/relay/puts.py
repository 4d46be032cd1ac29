"""Blobs for tests of relay stores, and the short ways to put and see them."""

from restante.core.mailbox import Keep
from restante.model.ids import InboxKey
from restante.model.sources import UNKNOWN_SOURCE, Source
from restante.policy.quota import MailboxQuota
from restante.ports.mailbox_store import MailboxStore
from restante.ports.relay_connection import StoredBlob
from restante.wire.envelope import Envelope, encode_envelope, hash_sealed_bytes
from restante.wire.envelope_parser import parse_envelope
from support.sqlite.files import NOW_MS

ALICE = InboxKey(b"A" * 32)
BOB = InboxKey(b"B" * 32)
HOUR_MS = 3_600_000
QUOTA = MailboxQuota()
OVERHEAD_BYTES = len(encode_envelope(Envelope(inbox_key=ALICE, expires_at_ms=HOUR_MS, sealed=b"x"))) - 1


def keep(
    inbox: InboxKey, sealed: bytes, *, expires_at_ms: int = NOW_MS + 24 * HOUR_MS, source: Source = UNKNOWN_SOURCE
) -> Keep:
    """A put of `sealed`, in an envelope whose own expiry does not matter here."""
    envelope = encode_envelope(Envelope(inbox_key=inbox, expires_at_ms=HOUR_MS, sealed=sealed))
    return Keep(
        inbox_key=inbox,
        payload_hash=hash_sealed_bytes(sealed),
        expires_at_ms=expires_at_ms,
        envelope=envelope,
        source=source,
    )


def put(store: MailboxStore, inbox: InboxKey, sealed: bytes, *, expires_at_ms: int = NOW_MS + 24 * HOUR_MS) -> int:
    [blob_id] = store.put_all([keep(inbox, sealed, expires_at_ms=expires_at_ms)], quota=QUOTA, now_ms=NOW_MS)
    assert isinstance(blob_id, int)
    return blob_id


def flush(
    store: MailboxStore,
    inbox: InboxKey,
    *,
    after: int = 0,
    limit: int = 1_000,
    max_bytes: int = 1_000_000,
    now_ms: int = NOW_MS,
) -> list[StoredBlob]:
    """A page of blobs with the sealed bytes in place of their envelopes; none of them may be damaged."""
    page = store.flush(inbox, after=after, limit=limit, max_bytes=max_bytes, now_ms=now_ms)
    assert page.damaged == []
    return [blob._replace(envelope=bytes(parse_envelope(blob.envelope)[2])) for blob in page.blobs]


def everything(store: MailboxStore, inbox: InboxKey, *, now_ms: int = NOW_MS) -> list[StoredBlob]:
    return flush(store, inbox, now_ms=now_ms)

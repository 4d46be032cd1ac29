"""Blobs for tests of relay stores, and the short ways to put and see them."""

from restante.core.mailbox import Keep
from restante.model.ids import InboxKey
from restante.policy.quota import MailboxQuota
from restante.ports.mailbox_store import MailboxStore
from restante.ports.relay_connection import StoredBlob
from restante.wire.envelope import hash_sealed_bytes
from support.sqlite.files import NOW_MS

ALICE = InboxKey(b"A" * 32)
BOB = InboxKey(b"B" * 32)
HOUR_MS = 3_600_000
QUOTA = MailboxQuota()


def keep(inbox: InboxKey, envelope: bytes, *, expires_at_ms: int = NOW_MS + 24 * HOUR_MS) -> Keep:
    return Keep(
        inbox_key=inbox, payload_hash=hash_sealed_bytes(envelope), expires_at_ms=expires_at_ms, envelope=envelope
    )


def put(store: MailboxStore, inbox: InboxKey, envelope: bytes, *, expires_at_ms: int = NOW_MS + 24 * HOUR_MS) -> int:
    [blob_id] = store.put_all([keep(inbox, envelope, expires_at_ms=expires_at_ms)], quota=QUOTA, now_ms=NOW_MS)
    assert isinstance(blob_id, int)
    return blob_id


def everything(store: MailboxStore, inbox: InboxKey, *, now_ms: int = NOW_MS) -> list[StoredBlob]:
    return store.flush(inbox, after=0, limit=1_000, max_bytes=1_000_000, now_ms=now_ms)

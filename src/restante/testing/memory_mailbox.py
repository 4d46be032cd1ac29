"""A relay's inbox store that lives and dies with its process: for tests and simulations, never for mail."""

from dataclasses import dataclass

from restante.core.mailbox import Keep, Usage
from restante.model.ids import InboxKey
from restante.ports.relay import Blob


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A blob with what decides who may have it, and until when."""

    inbox: InboxKey
    expires_at_ms: int
    blob: Blob


class MemoryMailbox:
    """Satisfies `ports.relay.MailboxStore`, but for being durable. Keeps no journal."""

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}
        self._last_id = 0

    def put(self, keep: Keep, envelope: bytes, *, now_ms: int) -> int:
        self._last_id += 1  # an id is never given twice, or a late delete could hit another blob
        blob = Blob(blob_id=self._last_id, stored_at_ms=now_ms, envelope=envelope)
        self._held[blob.blob_id] = _Held(inbox=keep.inbox_key, expires_at_ms=keep.expires_at_ms, blob=blob)
        return blob.blob_id

    def usage(self, inbox: InboxKey) -> Usage:
        sizes = [len(held.blob.envelope) for held in self._held.values() if held.inbox == inbox]
        return Usage(blobs=len(sizes), total_bytes=sum(sizes))

    def flush(self, inbox: InboxKey, *, after: int, limit: int, now_ms: int) -> list[Blob]:
        live = [
            held.blob
            for held in self._held.values()
            if held.inbox == inbox and held.blob.blob_id > after and held.expires_at_ms > now_ms
        ]
        return live[:limit]

    def delete(self, inbox: InboxKey, blob_id: int, *, now_ms: int) -> bool:  # noqa: ARG002 - no journal to date it in
        held = self._held.get(blob_id)
        if held is None or held.inbox != inbox:
            return False
        del self._held[blob_id]
        return True

    def reap(self, *, now_ms: int) -> int:
        outlived = [blob_id for blob_id, held in self._held.items() if held.expires_at_ms <= now_ms]
        for blob_id in outlived:
            del self._held[blob_id]
        return len(outlived)

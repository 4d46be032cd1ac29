"""Security events: journaled, and emitted to the application after the commit (SPEC 3.12)."""

from restante.core.deduplication import UnsealedHeader
from restante.core.inbox_events import InboxEventType
from restante.crypto.journal_tags import session_tag
from restante.model.ids import Address, SessionId
from restante.model.journal import JournalKind
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.inbox.results import InboxEvent


class SecurityEvents:
    """Appends journal events in the transaction in progress; `take_changes` returns events after its commit."""

    def __init__(self, database: Database, journal: Journal, *, tag_secret: bytes) -> None:
        self._journal = journal
        self._tag_secret = tag_secret
        self._changes: list[InboxEvent] = []
        database.on_invalidate(self._changes.clear)

    def suspect(
        self, code: str, *, now_ms: int, outside: UnsealedHeader | None = None, size_bytes: int | None = None
    ) -> None:
        """Report something that is not what it should be. Its own claims are not trusted and not journaled."""
        self._journal.append(
            JournalKind.SECURITY,
            at_ms=now_ms,
            code=code,
            payload_hash=None if outside is None else outside.payload_hash,
            size_bytes=size_bytes if outside is None else outside.envelope_bytes,
        )
        self._changes.append(InboxEvent(notice=InboxEventType.SECURITY, at_ms=now_ms, code=code))

    def warn(self, code: str, *, peer: Address, session_id: SessionId, now_ms: int) -> None:
        """Report a session that is less protected than it could be, or that can't be opened."""
        tag = session_tag(self._tag_secret, session_id)
        self._journal.append(JournalKind.SECURITY, at_ms=now_ms, code=code, session_tag=tag)
        self._changes.append(
            InboxEvent(notice=InboxEventType.SECURITY, at_ms=now_ms, sender=peer, session_id=session_id, code=code)
        )

    def take_changes(self) -> list[InboxEvent]:
        changes = self._changes[:]
        self._changes.clear()
        return changes

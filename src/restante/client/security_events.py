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

    def report(self, code: str, *, peer: Address, now_ms: int) -> None:
        """Report something about a contact that concerns no single session."""
        self._journal.append(JournalKind.SECURITY, at_ms=now_ms, code=code)
        self._changes.append(InboxEvent(notice=InboxEventType.SECURITY, at_ms=now_ms, sender=peer, code=code))

    def session_changed(self, peer: Address, *, old: SessionId, new: SessionId, now_ms: int) -> None:
        """Report that messages to a contact are encrypted in another session from now on (SPEC 13.1)."""
        self._journal.append(
            JournalKind.SESSION_CHANGED,
            at_ms=now_ms,
            session_tag=session_tag(self._tag_secret, new),
            previous_session_tag=session_tag(self._tag_secret, old),
        )
        self._changes.append(
            InboxEvent(notice=InboxEventType.SESSION_CHANGED, at_ms=now_ms, sender=peer, session_id=new)
        )

    def take_changes(self) -> list[InboxEvent]:
        changes = self._changes[:]
        self._changes.clear()
        return changes

"""Traces of recipients' facts, written down as a recipient's journal has them."""

from restante.model.ids import PayloadHash, SessionTag
from restante.model.journal import JournalKind
from support.fleet.arrival_traces import TraceFact, payload_hash
from support.fleet.journal_files import Journal, message


def write_fact(journal: Journal, fact: TraceFact, at_ms: int, tag: SessionTag) -> bytes:
    """The fact as a recipient writes it; its event id."""
    match fact.what:
        case "arrived":
            code = None if fact.recorded == "other" else fact.recorded
            return journal.write(
                JournalKind.ARRIVED,
                message(fact.message),
                at_ms,
                session_tag=tag,
                sequence=fact.sequence,
                payload_hash=PayloadHash(payload_hash(fact)),
                code=code,
            )
        case "passed":
            return journal.write(JournalKind.GAP_SKIPPED, None, at_ms, session_tag=tag, sequence=0, last_sequence=0)
        case "failed":
            return journal.write(JournalKind.SESSION_RESET, None, at_ms, session_tag=tag, code="unreadable")
    return journal.write(
        JournalKind.SESSION_CONTINUED, None, at_ms, session_tag=SessionTag(bytes(16)), previous_session_tag=tag
    )

"""Traces of recipients' facts, written down as a recipient's journal has them."""

from restante.model.ids import PayloadHash, SessionTag
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from support.fleet.arrival_traces import TraceFact, payload_hash
from support.fleet.journal_files import Journal, message


def write_fact(journal: Journal, fact: TraceFact, at_ms: int, tag: SessionTag) -> bytes:
    """The fact as a recipient writes it; its event id."""
    if fact.what == "passed":
        return journal.write(JournalKind.GAP_SKIPPED, None, at_ms, session_tag=tag, sequence=0, last_sequence=0)
    return journal.write(
        JournalKind.ARRIVED,
        message(fact.message),
        at_ms,
        session_tag=tag,
        sequence=fact.sequence,
        payload_hash=PayloadHash(payload_hash(fact)),
        message_kind=Kind.CONTROL if fact.what == "control" else None,
        code=None if fact.recorded == "other" else fact.recorded,
    )

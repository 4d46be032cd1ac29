"""Security events (SPEC 13.3): forgeries, replays, collisions, unreadable messages, changed sessions, as journaled."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from restante.model.journal import JournalKind

KINDS: Final = (JournalKind.SECURITY, JournalKind.SESSION_CHANGED)


def security_events(events: DataFrame) -> DataFrame:
    """One row an event of kind `security` or `session_changed`."""
    return events.filter(sf.col("kind").isin(*KINDS)).select(
        "event_id", "at_ms", "writer", "kind", "code", "message_id", "session_tag", "sequence", "payload_hash"
    )

"""What somebody should look at: forgeries, replays, collisions, what could not be opened, broken sessions (SPEC 13.3).

Facts as their writers wrote them, each once; which of them are alarming is for the reader to say.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from restante.model.journal import JournalKind


def security_events(events: DataFrame) -> DataFrame:
    """One row a fact of kind `security` or `session_reset`."""
    kinds = (JournalKind.SECURITY, JournalKind.SESSION_RESET)
    return events.filter(sf.col("kind").isin(*kinds)).select(
        "event_id", "at_ms", "writer", "kind", "code", "message_id", "session_tag", "sequence", "payload_hash"
    )

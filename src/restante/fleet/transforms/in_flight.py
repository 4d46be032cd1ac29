"""Messages that have not ended, and the copies of them at nodes: what actions are decided by (SPEC 13.6).

A fleet has few of them at a time, however long its history is.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from restante.model.states import IN_FLIGHT


def in_flight(messages: DataFrame) -> DataFrame:
    """The messages in flight, with the columns that actions and missing events need."""
    return messages.filter(sf.col("state").isin(*IN_FLIGHT) & sf.col("message_id").isNotNull()).select(
        "message_id",
        "sender",
        "payload_hash",
        "state",
        "inconsistency",
        "arrivals",
        "last_attempt_at_ms",
        "last_event",
        "last_event_at_ms",
        "confirmed",
        "last_change_number",
    )


def copies_in_flight(replicas: DataFrame, messages: DataFrame) -> DataFrame:
    """The rows of `replicas` that are about `messages`, those in flight: by message, or by what it is sealed as now."""
    hashes = messages.filter("payload_hash is not null").select("payload_hash").distinct()
    by_hash = replicas.join(hashes, on="payload_hash", how="left_semi")
    others = replicas.join(hashes, on="payload_hash", how="left_anti")
    by_message = others.join(messages.select("message_id"), on="message_id", how="left_semi")
    return by_hash.unionByName(by_message).select(
        "payload_hash",
        "message_id",
        "writer",
        "node",
        "stored_at_ms",
        "expires_at_ms",
        "served_at_ms",
        "deleted_at_ms",
        "reaped_at_ms",
        "copies_stored",
        "copies_removed",
        "state",
    )

"""Name nodes that signed for a blob and later signed a complete list without it (SPEC 7.8, 13.5).

The sender journals the node's storage receipt, the recipient the node's signed list. Whether the two show that the node
withholds is decided by core/mesh_proofs/withholding. What the node itself journals does not matter.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from restante.core.mesh_proofs.withholding import is_withheld
from restante.model.errors import Malformed
from restante.model.ids import payload_hash
from restante.model.journal import JournalKind, StorageReceipt
from restante.wire.inbox_keys import node_id_of
from restante.wire.list_proofs import decode_list_proof

RECEIPT: Final = (
    "evidence_inner_hash",
    "evidence_path",
    "evidence_root",
    "evidence_at_ms",
    "evidence_signature",
)
WITHHELD: Final = pa.schema(
    [
        ("node", pa.binary()),
        ("message_id", pa.binary()),
        ("payload_hash", pa.binary()),
        ("stored_at_ms", pa.int64()),
        ("absent_at_ms", pa.int64()),
    ]
)


def absences(events: DataFrame) -> DataFrame:
    """What recipients journaled of blobs that one node did not list and another one had."""
    is_absence = (sf.col("kind") == JournalKind.MISSING_AT_NODE) & sf.col("payload_hash").isNotNull()
    return events.filter(is_absence & sf.col("answer").isNotNull()).select(
        "event_id", "at_ms", "writer", "node", "payload_hash", "answer"
    )


def withholding(events: DataFrame, messages: DataFrame, known_absences: DataFrame) -> DataFrame:
    """One row for each node and message where what the node signed shows that it withheld the message."""
    claims = claimed(messages, known_absences).select("message_id", "payload_hash", "node", "answer")
    has_receipt = (sf.col("kind") == JournalKind.DELIVERY_CONFIRMED) & sf.col("evidence_signature").isNotNull()
    pairs = (
        events.filter(has_receipt)
        .select("message_id", "node", *RECEIPT)
        .join(sf.broadcast(claims), on=["message_id", "node"], how="inner")
        .select("message_id", "node", "payload_hash", "answer", *RECEIPT)
    )
    return (
        pairs.mapInArrow(_withheld, from_arrow_schema(WITHHELD))
        .groupBy("node", "message_id")
        .agg(
            sf.min("payload_hash").alias("payload_hash"),
            sf.min("stored_at_ms").alias("stored_at_ms"),
            sf.min("absent_at_ms").alias("absent_at_ms"),
        )
    )


def claimed(messages: DataFrame, known_absences: DataFrame) -> DataFrame:
    """The messages that absences are about; a message that was encrypted again has several hashes."""
    hashes = sf.concat(sf.array("payload_hash"), "other_hashes")
    return (
        messages.filter("message_id is not null")
        .select("message_id", "confirmed", "day", sf.explode(sf.array_distinct(hashes)).alias("payload_hash"))
        .join(sf.broadcast(known_absences.select("payload_hash", "node", "answer")), on="payload_hash", how="inner")
    )


def _withheld(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        found = [row for row in map(_judged, batch.to_pylist()) if row is not None]
        yield from pa.Table.from_pylist(found, schema=WITHHELD).to_batches()


def _judged(row: dict[str, Any]) -> dict[str, Any] | None:
    """The row of the table, if the node whose signatures these are withheld the blob."""
    if any(row[name] is None for name in RECEIPT):
        return None
    try:
        proof = decode_list_proof(row["answer"])
        receipt = StorageReceipt(*(row[name] for name in RECEIPT))
        if node_id_of(proof.node) != row["node"] or not is_withheld(receipt, proof, payload_hash(row["payload_hash"])):
            return None
    except Malformed:
        return None
    known = {name: row[name] for name in ("node", "message_id", "payload_hash")}
    return {**known, "stored_at_ms": receipt.at_ms, "absent_at_ms": proof.done.time_ms}

"""The message table of some facts, collected."""

from typing import Any

from pyspark.sql import SparkSession

from restante.fleet.tables.journal_schema import JOURNAL
from restante.fleet.transforms.messages import message_lifecycles, messages
from restante.model.ids import MessageId
from restante.model.journal import JournalEvent
from support.fleet.journal_files import records


def message_table(spark: SparkSession, rows: list[JournalEvent]) -> dict[MessageId | None, dict[str, Any]]:
    values = [tuple(record.values()) for record in records(rows)]
    table = messages(message_lifecycles(spark.createDataFrame(values, JOURNAL))).collect()
    found = {row["message_id"]: row.asDict() for row in table}
    assert len(found) == len(table)
    return found

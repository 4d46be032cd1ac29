"""The tables that a backfill or a batch of the stream writes from the segments themselves (SPEC 13.2, 13.3)."""

from typing import Final

from restante.fleet.tables.journal_schema import JOURNAL
from restante.fleet.tables.table import Column, Table
from restante.wire.journal_schema import FIELDS

_JOURNAL: Final = tuple(
    Column(field.name, spark.dataType.simpleString(), field.doc)
    for field, spark in zip(FIELDS, JOURNAL.fields, strict=True)
)
_SOURCE: Final = Column("source_file", "string", "segment it was read from; one of them where several have it")
_DAY: Final = Column("day", "date", "UTC day of `at_ms`; the partition")

BASE: Final = (
    Table(
        name="events",
        describe="Every valid journal event once.",
        key=("event_id",),
        partition=("day",),
        columns=(*_JOURNAL, _SOURCE, _DAY),
    ),
    Table(
        name="arrivals",
        describe="What happened to each incoming session: verdict, order and gaps (SPEC 9.1, 9.4, 9.5).",
        key=("event_id",),
        partition=("day",),
        columns=(
            Column("event_id", "binary", "the journal event"),
            Column("session_tag", "binary", "keyed hash of the session, per writer"),
            Column("at_ms", "bigint", "when, by the recipient's clock"),
            Column("event", "string", "arrived, time_passed, session_failed or session_ended"),
            Column("sequence", "bigint", "sequence number in the session; null where it was not decrypted"),
            Column("message_id", "binary", "the message; null unless it arrived"),
            Column("verdict", "string", "new, duplicate, collision or replay; E009 in a session that is over"),
            Column("recipient_verdict", "string", "what the recipient journaled"),
            Column("placement", "string", "released, late, held or placeholder"),
            Column("next_expected", "bigint", "the lowest sequence number not passed after this"),
            Column("released", "bigint", "how many messages this released"),
            Column(
                "gaps",
                "array<struct<first:bigint,last:bigint,retransmit_requested:boolean>>",
                "numbers skipped at this moment",
            ),
            _DAY,
        ),
    ),
    Table(
        name="quarantine",
        describe="Rows that break a rule, and files that could not be read (of those, only name and reason).",
        key=(),
        columns=(
            *_JOURNAL,
            _SOURCE,
            Column("reason", "string", "the first rule it breaks, or why the file was rejected"),
        ),
    ),
)

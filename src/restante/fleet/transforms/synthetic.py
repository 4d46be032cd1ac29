"""Synthetic journals: any number of messages, with faults at chosen rates, made from a seed.

The same seed gives the same events on any number of machines, because times, ids and faults are hashes of seed and
position. The numbers of each writer's events have no gaps.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from restante.fleet.tables.journal_schema import JOURNAL
from restante.model.error_codes import Code
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, Priority
from restante.model.setting_ranges import check_ranges, ranged
from restante.model.states import Verdict

MAX_MESSAGES = 10_000_000_000
_DICE_SIDES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """How many messages go through how many sessions, and which share of them meets which fault."""

    messages: int = ranged(100_000, low=1, high=MAX_MESSAGES, unit="messages", clause="13.2")
    sessions: int = ranged(1_000, low=1, high=1_000_000_000, unit="sessions", clause="13.2")
    clients: int = ranged(100, low=1, high=10_000_000, unit="clients", clause="13.2")
    nodes: int = ranged(10, low=1, high=100_000, unit="nodes", clause="13.2")
    duplicates: float = ranged(0.01, low=0.0, high=1.0, unit="share", clause="13.2")
    reordered: float = ranged(0.02, low=0.0, high=1.0, unit="share", clause="13.2")
    lost: float = ranged(0.0, low=0.0, high=1.0, unit="share", clause="13.2")
    collisions: float = ranged(0.0, low=0.0, high=1.0, unit="share", clause="13.2")
    start_ms: int = ranged(1_767_225_600_000, low=0, high=253_402_300_799_999, unit="ms", clause="13.1")
    spacing_ms: int = ranged(1_000, low=1, high=86_400_000, unit="ms", clause="13.1")
    """Between two messages of one session."""
    seed: int = ranged(7, low=0, high=2**31 - 1, unit="", clause="13.2")

    def __post_init__(self) -> None:
        check_ranges(self, "scenario")


def recipients_events(spark: SparkSession, scenario: Scenario) -> DataFrame:
    """What recipients wrote of arrivals, in columns of the journal: one row for each copy that arrived."""
    return _numbered(_arrived(_messages(spark, scenario), scenario))


def all_events(spark: SparkSession, scenario: Scenario) -> DataFrame:
    """The whole journals of senders, nodes and recipients."""
    sent = _messages(spark, scenario)
    first = _arrived(sent, scenario).filter(sf.col("code") == Verdict.NEW)
    released = first.withColumn("kind", sf.lit(JournalKind.RELEASED.value)).withColumn("code", sf.lit(None))
    parts = [_sent(sent, scenario), _stored(sent, scenario), _arrived(sent, scenario), released]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return _numbered(whole)


def _messages(spark: SparkSession, scenario: Scenario) -> DataFrame:
    """One row a message, with its dice."""
    place = sf.col("id")
    session = place % scenario.sessions
    return spark.range(scenario.messages).select(
        place,
        session.alias("session"),
        sf.floor(place / scenario.sessions).cast("long").alias("sequence"),
        _bytes(scenario, 16, "session tag", session).alias("session_tag"),
        _uuid4(scenario, place).alias("message_id"),
        _bytes(scenario, 32, "payload", place).alias("payload_hash"),
        _bytes(scenario, 16, "sender", session % scenario.clients).alias("sender"),
        _bytes(scenario, 16, "recipient", session % scenario.clients).alias("recipient"),
        _bytes(scenario, 32, "node", place % scenario.nodes).alias("node_id"),
        _meets(scenario, scenario.duplicates, "duplicate").alias("is_repeated"),
        _meets(scenario, scenario.reordered, "reorder").alias("is_overtaken"),
        _meets(scenario, scenario.lost, "loss").alias("is_lost"),
        _meets(scenario, scenario.collisions, "collision").alias("is_forged"),
        (
            scenario.start_ms
            + sf.floor(place / scenario.sessions).cast("long") * scenario.spacing_ms
            + sf.pmod(sf.xxhash64(sf.lit(scenario.seed), sf.lit("phase"), session), sf.lit(scenario.spacing_ms))
        ).alias("sent_at_ms"),
    )


def _arrived(messages: DataFrame, scenario: Scenario) -> DataFrame:
    # One and a half places later: the next message of the session comes first.
    delay_ms = sf.when(sf.col("is_overtaken"), scenario.spacing_ms + scenario.spacing_ms // 2).otherwise(0)
    copies = sf.array_compact(
        sf.array(
            _copy(0, Verdict.NEW),
            sf.when(sf.col("is_repeated"), _copy(scenario.spacing_ms * 2 + 1, Verdict.DUPLICATE)),
            sf.when(sf.col("is_forged"), _copy(scenario.spacing_ms * 2 + 2, Verdict.COLLISION)),
        )
    )
    came = messages.filter(~sf.col("is_lost")).select("*", sf.explode(copies).alias("copy"))
    forged = _bytes(scenario, 32, "forged", sf.col("id"))
    is_first = sf.col("copy.code") == Verdict.NEW
    return came.select(
        *_columns(
            at_ms=sf.col("sent_at_ms") + 200 + delay_ms + sf.col("copy.after_ms"),
            kind=sf.lit(JournalKind.ARRIVED.value),
            writer=sf.col("recipient"),
            message_id=sf.col("message_id"),
            session_tag=sf.col("session_tag"),
            # What is known by its bytes is not opened, so its number is not read.
            sequence=sf.when(is_first, sf.col("sequence")),
            payload_hash=sf.when(sf.col("copy.code") == Verdict.COLLISION, forged).otherwise(sf.col("payload_hash")),
            size_bytes=sf.lit(1_696),
            message_kind=sf.when(is_first, sf.lit(Kind.TEXT.value)),
            code=sf.col("copy.code"),
        )
    )


def _sent(messages: DataFrame, scenario: Scenario) -> DataFrame:
    took_ms = scenario.spacing_ms // 2 + 400
    life = sf.array(
        _event(JournalKind.ACCEPTED, 0),
        _event(JournalKind.ATTEMPTED, 10),
        sf.when(~sf.col("is_lost"), _event(JournalKind.SENT, 50)),
        sf.when(~sf.col("is_lost"), _event(JournalKind.DELIVERED, scenario.spacing_ms * 2 + took_ms)),
        sf.when(sf.col("is_lost"), _event(JournalKind.DEAD_LETTERED, 60, Code.NETWORK_UNREACHABLE)),
    )
    return messages.select("*", sf.explode(sf.array_compact(life)).alias("event")).select(
        *_columns(
            at_ms=sf.col("sent_at_ms") + sf.col("event.after_ms"),
            kind=sf.col("event.kind"),
            writer=sf.col("sender"),
            message_id=sf.col("message_id"),
            payload_hash=sf.col("payload_hash"),
            message_kind=sf.lit(Kind.TEXT.value),
            priority=sf.lit(int(Priority.NORMAL)),
            code=sf.col("event.code"),
        )
    )


def _stored(messages: DataFrame, scenario: Scenario) -> DataFrame:
    life = sf.array(_event(JournalKind.STORED, 40), _event(JournalKind.SERVED, 150))
    return (
        messages.filter(~sf.col("is_lost"))
        .select("*", sf.explode(life).alias("event"))
        .select(
            *_columns(
                at_ms=sf.col("sent_at_ms") + sf.col("event.after_ms"),
                kind=sf.col("event.kind"),
                writer=_bytes(scenario, 16, "node writer", sf.col("id") % scenario.nodes),
                payload_hash=sf.col("payload_hash"),
                size_bytes=sf.lit(1_696),
                node=sf.col("node_id"),
            )
        )
    )


def _numbered(events: DataFrame) -> DataFrame:
    """Each writer's events get their numbers in order of time."""
    in_order = Window.partitionBy("writer").orderBy("at_ms", "session_tag", "message_id", "kind", "payload_hash")
    number = sf.lpad(sf.hex(sf.row_number().over(in_order).cast("long")), 16, "0")
    event_id = sf.concat(sf.substring("writer", 1, 8), sf.unhex(number))
    return events.withColumn("event_id", event_id).select(*JOURNAL.fieldNames())


def _columns(**known: Column) -> list[Column]:
    return [
        known.get(field.name, sf.lit(None)).cast(field.dataType).alias(field.name)
        for field in JOURNAL.fields
        if field.name != "event_id"
    ]


def _copy(after_ms: int, verdict: Verdict) -> Column:
    return sf.struct(sf.lit(after_ms).alias("after_ms"), sf.lit(verdict.value).alias("code"))


def _event(kind: JournalKind, after_ms: int, code: Code | None = None) -> Column:
    return sf.struct(
        sf.lit(kind.value).alias("kind"),
        sf.lit(after_ms).alias("after_ms"),
        sf.lit(None if code is None else code.value).cast("string").alias("code"),
    )


def _meets(scenario: Scenario, share: float, fault: str) -> Column:
    dice = sf.pmod(sf.xxhash64(sf.lit(scenario.seed), sf.lit(fault), sf.col("id")), sf.lit(_DICE_SIDES))
    return dice < round(share * _DICE_SIDES)


def _hex(scenario: Scenario, words: int, name: str, place: Column) -> Column:
    drawn = [sf.xxhash64(sf.lit(scenario.seed), sf.lit(f"{name} {word}"), place) for word in range(words)]
    return sf.concat(*(sf.lpad(sf.hex(word), 16, "0") for word in drawn))


def _bytes(scenario: Scenario, size: int, name: str, place: Column) -> Column:
    return sf.unhex(_hex(scenario, size // 8, name, place))


def _uuid4(scenario: Scenario, place: Column) -> Column:
    drawn = _hex(scenario, 2, "message", place)
    return sf.unhex(sf.overlay(sf.overlay(drawn, sf.lit("4"), 13, 1), sf.lit("8"), 17, 1))

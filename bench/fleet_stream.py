"""The stream, and `transformWithState` keyed by session, for `bench/fleet.py`.

The stream reads, validates, judges and commits events, quarantine and arrivals, and starts with nothing; the derived
tables are not made. The peer only judges: its segments are read by Spark's file source, its state is Spark's (RocksDB),
for each session it calls the machine of the core, one fact at a time, and it writes the table of arrivals, which is
checked to be ours. What was seen is in a map whose entries end by themselves, or, which is quicker, in one value with
all the rest of a session. Both forget what the window allows, as the stream does, and the stream is held against both.
"""

import pickle
import threading
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from restante.fleet.jobs.stream import StreamOptions, start_stream
from restante.fleet.kernels.arrivals_fallback import ExactSession, SessionEvent, StateRow
from restante.fleet.kernels.arrivals_schema import EVENTS, NO_SEQUENCE, PLACEMENTS, SEEN, TIME_PASSED
from restante.fleet.kernels.arrivals_state import CLOCK_SLACK_MS
from restante.fleet.kernels.arrivals_words import ARRIVALS, RECORDED
from restante.fleet.lake.layout import Lake, spark_path
from restante.fleet.tables.journal_schema import JOURNAL
from restante.fleet.transforms.arrivals import session_events
from restante.policy.settings import Settings

ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_ARRIVAL = Row(*ARRIVALS.names)


def _word(words: Sequence[str | None], number: int) -> str | None:
    return words[number] if 0 <= number < len(words) else None


class OneSession(StatefulProcessor):
    """A session of the core, fed one fact at a time; where its state is, subclasses decide."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def handleInputRows(  # noqa: N802 - Spark's names and arguments
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        facts = sorted(rows, key=lambda one: bytes(one.event_id))
        known = self.load({bytes(one.message_id) for one in facts})
        session = ExactSession(known, writer=0, order=self._settings.order, dedup=self._settings.dedup)
        for row in facts:
            told = session.take(
                SessionEvent(
                    row.event, row.at_ms, row.sequence, bytes(row.message_id), bytes(row.payload), row.recorded
                )
            )
            yield _ARRIVAL(
                row.event_id,
                key[0],
                row.at_ms,
                EVENTS[row.event],
                None if row.sequence == NO_SEQUENCE else row.sequence,
                row.message_id if row.event != TIME_PASSED else None,
                _word(RECORDED, told.verdict),
                _word(RECORDED, row.recorded) if row.event != TIME_PASSED else None,
                _word(PLACEMENTS, told.placement),
                told.expected,
                told.released,
                told.gaps or None,
            )
        self.save(list(session.rows()))

    @abstractmethod
    def load(self, messages: set[bytes]) -> list[StateRow]: ...

    @abstractmethod
    def save(self, rows: list[StateRow]) -> None: ...

    def close(self) -> None:
        pass


class InOneValue(OneSession):
    """All of it in one value, read and written whole, without what is older than the window: the quickest way."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("session", "raw binary")

    def load(self, messages: set[bytes]) -> list[StateRow]:  # noqa: ARG002 - it has them all
        value = self._state.get() if self._state.exists() else None
        return [] if value is None else pickle.loads(value[0])  # noqa: S301 - our own bytes

    def save(self, rows: list[StateRow]) -> None:
        oldest_ms = max((row.at_ms for row in rows), default=0) - self._settings.dedup.window_ms - CLOCK_SLACK_MS
        self._state.update((pickle.dumps([row for row in rows if row.entry != SEEN or row.at_ms >= oldest_ms]),))


class WithinTheWindow(OneSession):
    """What was seen in a map whose entries end with the window, as our stream forgets; the rest in one value."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("session", "raw binary")
        window_ms = self._settings.dedup.window_ms + CLOCK_SLACK_MS
        self._seen = handle.getMapState("seen", "message_id binary", "payload binary, at_ms bigint", window_ms)

    def load(self, messages: set[bytes]) -> list[StateRow]:
        value = self._state.get() if self._state.exists() else None
        rows: list[StateRow] = [] if value is None else pickle.loads(value[0])  # noqa: S301 - our own bytes
        for message_id in messages:
            mark = self._seen.getValue((message_id,))
            if mark is not None:
                rows.append(StateRow(SEEN, 0, at_ms=mark[1], message_id=message_id, payload=bytes(mark[0])))
        return rows

    def save(self, rows: list[StateRow]) -> None:
        self._state.update((pickle.dumps([row for row in rows if row.entry != SEEN]),))
        for row in rows:
            if row.entry == SEEN:
                self._seen.updateValue((row.message_id,), (row.payload, row.at_ms))


@contextmanager
def with_rocks(spark: SparkSession) -> Iterator[None]:
    """Spark keeps its state in RocksDB."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
    # A state with an end of life makes Spark run batches without rows for ever.
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    yield


def by_state(spark: SparkSession, lake: Lake, home: Path, processor: OneSession) -> None:
    """All segments in one micro-batch."""
    facts = session_events(spark.readStream.schema(JOURNAL).parquet(spark_path(lake.segments)))
    judged = facts.groupBy("session_tag").transformWithState(
        processor, from_arrow_schema(ARRIVALS), "Append", "ProcessingTime"
    )
    query = (
        judged.writeStream.format("parquet")
        .option("path", str(home / "table"))
        .option("checkpointLocation", str(home / "checkpoint"))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def by_stream(spark: SparkSession, lake: Lake, state: Path, settings: Settings) -> None:
    """All segments, in a lake at `state` that has a link to them."""
    state.mkdir(parents=True, exist_ok=True)
    (state / "segments").symlink_to(lake.local_segments)
    options = StreamOptions(once=True, is_published=False)
    start_stream(spark, Lake(str(state)), settings, options).await_end(threading.Event())

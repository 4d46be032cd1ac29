"""Scores as columns against policy/scoring, and what is measured of nodes from their journals."""

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from restante.fleet.transforms.messages import message_lifecycles
from restante.fleet.transforms.node_scores import node_answers, node_measures, node_scores
from restante.fleet.transforms.writer_activity import writer_hours
from restante.model.journal import JournalKind
from restante.policy.scoring import MAX_BANDWIDTH_BPS, MAX_LATENCY_MS, Candidate, score
from support.fleet.dataframes import facts_frame
from support.fleet.journal_files import Journal, message, node_id, sealed, writer
from support.spec.clauses import clause

MEASURES = "node binary, uptime double, bandwidth_bps long, latency_ms double"
WITHHELD = "node binary, message_id binary"
HOUR_MS = 3_600_000
NOON_MS = 1_767_614_400_000

CANDIDATES = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, MAX_BANDWIDTH_BPS) | st.integers(0, 3),
        st.floats(0, MAX_LATENCY_MS) | st.sampled_from([0.0, 1.0, MAX_LATENCY_MS]),
    ),
    min_size=1,
    max_size=40,
)


@clause("7.3")
def test_scores_are_those_of_the_policy_to_the_last_bit(spark: SparkSession) -> None:
    fleets: list[list[Candidate]] = []

    @settings(max_examples=4, database=None)
    @given(CANDIDATES)
    def collect(drawn: list[tuple[float, int, float]]) -> None:
        fleets.append(
            [
                Candidate(node_id=node_id(place), uptime=uptime, bandwidth_bps=bandwidth, latency_ms=latency)
                for place, (uptime, bandwidth, latency) in enumerate(drawn)
            ]
        )

    collect()
    nobody = spark.createDataFrame([], WITHHELD)
    for fleet in fleets:
        rows = [(one.node_id, one.uptime, one.bandwidth_bps, one.latency_ms) for one in fleet]
        found = node_scores(spark.createDataFrame(rows, MEASURES), nobody).collect()
        assert {bytes(row["node"]): row["score"] for row in found} == {one.node_id: score(one, fleet) for one in fleet}


def test_a_node_is_measured_by_its_hours_its_bytes_and_its_answers(spark: SparkSession) -> None:
    busy, idle, sender = Journal(writer(1)), Journal(writer(2)), Journal(writer(3))
    busy.write(JournalKind.NODE_STARTED, None, NOON_MS, node=node_id(1))
    busy.write(JournalKind.STORED, None, NOON_MS + 1, payload_hash=sealed(1), size_bytes=450_000)
    busy.write(JournalKind.STORED, None, NOON_MS + 3 * HOUR_MS, payload_hash=sealed(2), size_bytes=450_000)
    idle.write(JournalKind.NODE_STARTED, None, NOON_MS + 3 * HOUR_MS, node=node_id(2))
    for number, took_ms in enumerate([10, 50, 20]):
        sender.write(JournalKind.ATTEMPTED, message(number), NOON_MS)
        sender.write(JournalKind.ATTEMPTED, message(number), NOON_MS + 500)
        sender.write(JournalKind.DELIVERY_CONFIRMED, message(number), NOON_MS + 500 + took_ms, node=node_id(1))
    facts = facts_frame(spark, [*busy.rows, *idle.rows, *sender.rows])
    rows = node_measures(writer_hours(facts), node_answers(message_lifecycles(facts))).orderBy("node").collect()
    assert [(bytes(row["node"]), row["uptime"], row["bandwidth_bps"], row["latency_ms"]) for row in rows] == [
        (node_id(1), 0.5, 1_000, 20.0),
        (node_id(2), 1.0, 0, MAX_LATENCY_MS),
    ]


@clause("7.3", "13.4")
def test_a_clock_that_is_far_ahead_makes_no_other_node_look_down(spark: SparkSession) -> None:
    node, other, client = Journal(writer(1)), Journal(writer(2)), Journal(writer(3))
    for number, journal in enumerate((node, other), 1):
        journal.write(JournalKind.NODE_STARTED, None, NOON_MS, node=node_id(number))
    for hour in range(1, 4):
        node.write(JournalKind.STORED, None, NOON_MS + hour * HOUR_MS, payload_hash=sealed(hour), size_bytes=1)
    client.write(JournalKind.ACCEPTED, message(1), NOON_MS + 3 * HOUR_MS)
    client.write(JournalKind.ACCEPTED, message(2), NOON_MS + 9_000 * 24 * HOUR_MS)
    facts = facts_frame(spark, [*node.rows, *other.rows, *client.rows])
    rows = node_measures(writer_hours(facts), node_answers(message_lifecycles(facts))).orderBy("node").collect()
    assert [(bytes(row["node"]), row["uptime"]) for row in rows] == [(node_id(1), 1.0), (node_id(2), 0.25)]

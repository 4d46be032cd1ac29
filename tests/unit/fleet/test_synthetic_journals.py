"""The statistics of a synthetic fleet: rhythm, delays, faults and their shares, and equal journals for equal seeds."""

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from restante.core.mesh_proofs.withholding import is_withheld
from restante.fleet.kernels.row_rules import row_faults
from restante.fleet.kernels.synthetic_fleet import DAY_MS, HOUR_MS, KINDS, SITES, WEEKEND, Fleet, Scenario
from restante.fleet.kernels.synthetic_journals import journals_of
from restante.fleet.transforms.withholding import RECEIPT
from restante.model.errors import RestanteError
from restante.model.journal import JournalKind, StorageReceipt
from restante.wire.list_proofs import decode_list_proof
from support.spec.clauses import clause

THURSDAY_MS = 1_767_225_600_000  # 2026-01-01
SCENARIO = Scenario(messages=40_000, sessions=400, clients=50, days=21, lost=0.004, skewed=0.04, liars=0.1, outages=0.2)


@cache
def journals() -> Any:
    return journals_of(SCENARIO, np.arange(SCENARIO.messages))


def of_kind(kind: JournalKind) -> Any:
    return journals().filter(pc.equal(journals()["kind"], kind.value))


def by_message(kind: JournalKind, column: str) -> dict[bytes, Any]:
    table = of_kind(kind)
    return dict(zip(table["message_id"].to_pylist(), table[column].to_pylist(), strict=True))


@clause("13.1")
def test_every_synthetic_event_keeps_the_rules_of_the_journal() -> None:
    table = journals()
    start = pa.array([writer[:8] + bytes(8) for writer in table["writer"].to_pylist()], pa.binary())
    assert row_faults(table.append_column("event_id", start)).null_count == len(table)


def test_days_are_busier_than_nights_and_working_days_than_weekends() -> None:
    messages = np.arange(SCENARIO.messages)
    at_ms = Fleet(SCENARIO).accepted_at(messages % SCENARIO.sessions, messages // SCENARIO.sessions)
    hour = at_ms % DAY_MS // HOUR_MS
    day = (at_ms - THURSDAY_MS) // DAY_MS
    night, evening = np.count_nonzero(hour == 3), np.count_nonzero(hour == 20)
    assert 15 * night < evening < 80 * night
    # The first and last days have fewer: sessions begin late and end early.
    by_day = np.bincount(day, minlength=21)
    assert by_day[9:11].mean() / by_day[11:16].mean() == pytest.approx(WEEKEND, rel=0.1)
    assert by_day[0] < by_day[12] > by_day[20]


def test_messages_of_a_session_are_accepted_in_order_even_if_there_is_little_room() -> None:
    for scenario in (SCENARIO, Scenario(messages=20_000, sessions=2, days=1), Scenario(messages=500, sessions=1)):
        sequence = np.arange(scenario.messages_per_session)
        for session in range(2):
            assert np.all(np.diff(Fleet(scenario).accepted_at(np.full(len(sequence), session), sequence)) > 0)


def test_times_to_delivery_are_lognormal_with_a_tail_of_recipients_who_were_away() -> None:
    took = np.sort(of_kind(JournalKind.DELIVERED)["latency_ms"].to_numpy())
    p50, p95, p99 = (int(np.quantile(took, share)) for share in (0.5, 0.95, 0.99))
    assert 350 < p50 < 650
    assert p95 < 3_000
    assert 5_000 < p99 < 60_000
    assert took[-1] > HOUR_MS // 4
    assert took[0] > 0
    usual = np.log(took[: len(took) * 9 // 10])
    assert abs(float(np.mean(usual) - np.median(usual))) < 0.1


def test_kinds_have_their_shares_and_priorities() -> None:
    accepted = of_kind(JournalKind.ACCEPTED)
    counts = {row["values"]: row["counts"] for row in accepted["message_kind"].value_counts().to_pylist()}
    assert counts.keys() == {kind.value for kind in KINDS}
    assert 0.56 < counts["text"] / SCENARIO.messages < 0.60
    assert set(accepted["priority"].to_pylist()) == {0, 1, 2}


def test_a_lost_message_ends_as_a_dead_letter_or_expired_and_its_recipient_skips_the_gap() -> None:
    ends = {**by_message(JournalKind.DEAD_LETTERED, "code"), **by_message(JournalKind.EXPIRED, "code")}
    assert 0.003 < len(ends) / SCENARIO.messages < 0.005
    assert len(set(ends.values())) == 6
    assert ends.keys().isdisjoint(by_message(JournalKind.ARRIVED, "code"))
    assert 0.8 < of_kind(JournalKind.GAP_SKIPPED).num_rows / len(ends) <= 1


def test_a_node_that_is_down_stores_nothing_and_its_senders_try_another() -> None:
    fleet = Fleet(SCENARIO)
    stored = of_kind(JournalKind.STORED)
    names = fleet.node_ids(np.arange(SCENARIO.nodes)).to_pylist()
    node = np.array([names.index(name) for name in stored["node"].to_pylist()])
    site, day = (axis.ravel() for axis in np.meshgrid(np.arange(SITES), np.arange(SCENARIO.days)))
    begin, end = fleet.outage(site, day)
    assert 3 < np.count_nonzero(end > begin) < 30
    is_down = fleet.is_down(node, stored["at_ms"].to_numpy())
    # Two sites may be down at once; the sender's second choice is then down as well.
    assert np.count_nonzero(is_down) < 0.001 * len(node)
    retried = by_message(JournalKind.RETRIED, "code")
    assert len(retried) > 100
    assert len(by_message(JournalKind.ATTEMPTED, "attempt")) == SCENARIO.messages
    starts = of_kind(JournalKind.NODE_STARTED).num_rows
    assert starts > SCENARIO.nodes


def test_liars_acknowledge_what_they_do_not_store_and_others_keep_it() -> None:
    missing = by_message(JournalKind.MISSING_AT_NODE, "node")
    assert len(set(missing.values())) == 1
    confirmed = of_kind(JournalKind.DELIVERY_CONFIRMED)
    claims = set(zip(confirmed["message_id"].to_pylist(), confirmed["node"].to_pylist(), strict=True))
    assert claims.issuperset(missing.items())
    assert missing.keys() <= by_message(JournalKind.ARRIVED, "code").keys()


@clause("13.5")
def test_what_a_liar_signed_shows_that_it_withholds() -> None:
    hashes = by_message(JournalKind.MISSING_AT_NODE, "payload_hash")
    answers = by_message(JournalKind.MISSING_AT_NODE, "answer")
    confirmed = of_kind(JournalKind.DELIVERY_CONFIRMED).to_pylist()
    receipts = {row["message_id"]: row for row in confirmed if row["evidence_signature"] is not None}
    assert hashes.keys() <= receipts.keys()
    shown = 0
    for name, blob in hashes.items():
        receipt = StorageReceipt(*(receipts[name][column] for column in RECEIPT))
        shown += is_withheld(receipt, decode_list_proof(answers[name]), blob)
    # Some recipients were away until their messages expired: then a node may have none.
    assert 0.95 * len(hashes) < shown <= len(hashes)


def test_a_skewed_clock_is_three_days_slow() -> None:
    offsets = Fleet(SCENARIO).client_offset_ms(np.arange(50))
    assert sorted(set(offsets[offsets < -DAY_MS].tolist())) == [-3 * DAY_MS]
    assert np.abs(offsets[offsets > -DAY_MS]).max() < 1_000


@clause("13.2")
def test_equal_seeds_give_equal_journals_however_they_are_cut_into_batches() -> None:
    whole = journals_of(SCENARIO, np.arange(500))
    parts = pa.concat_tables([journals_of(SCENARIO, np.arange(at, at + 100)) for at in range(0, 500, 100)])
    order = [("at_ms", "ascending"), ("kind", "ascending"), ("message_id", "ascending"), ("node", "ascending")]
    assert whole.sort_by(order).equals(parts.sort_by(order).combine_chunks())
    other = journals_of(Scenario(messages=500, seed=8), np.arange(500))
    assert set(other["message_id"].to_pylist()).isdisjoint(set(whole["message_id"].drop_null().to_pylist()))


def test_a_scenario_out_of_range_is_refused() -> None:
    with pytest.raises(RestanteError, match="days"):
        Scenario(days=0)

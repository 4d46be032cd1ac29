"""When a report says that the books balance."""

from dataclasses import replace
from datetime import date

from restante.model.conservation_report import BadSegment, ConservationReport, DayBalance, QuarantinedRows
from support.spec.clauses import clause

MONDAY = DayBalance(day=date(2026, 1, 5), accepted=10, delivered=4, expired=1, evicted=2, dead=1, in_flight=2)
TUESDAY = DayBalance(day=date(2026, 1, 6), accepted=3, delivered=3)
REPORT = ConservationReport(
    segments=1,
    input_rows=0,
    events=0,
    duplicates=0,
    quarantine=(),
    bad_files=(),
    days=(MONDAY, TUESDAY),
    unaccounted=(),
    missing_events=(),
    missing_event_count=0,
    latency=(),
)


@clause("13.4")
def test_the_days_add_up_to_one_line() -> None:
    assert REPORT.total == DayBalance(day=None, accepted=13, delivered=7, expired=1, evicted=2, dead=1, in_flight=2)
    assert REPORT.balanced


@clause("13.4")
def test_one_unaccounted_message_on_one_day_unbalances_the_books() -> None:
    doubtful = replace(TUESDAY, delivered=2, unaccounted=1)
    assert not replace(REPORT, days=(MONDAY, doubtful)).balanced


@clause("13.4")
def test_a_day_that_does_not_add_up_unbalances_the_books() -> None:
    assert not replace(REPORT, days=(replace(MONDAY, is_balanced=False), TUESDAY)).balanced


@clause("13.4")
def test_a_missing_fact_unbalances_the_books() -> None:
    assert not replace(REPORT, missing_event_count=1).balanced


def test_an_empty_journal_balances() -> None:
    assert replace(REPORT, days=()).balanced


def test_refused_rows_are_counted_over_files_and_reasons() -> None:
    entries = (
        QuarantinedRows(source_file="a.parquet", reason="kind: must be a known word", rows=2),
        QuarantinedRows(source_file="b.parquet", reason="kind: must be a known word", rows=3),
    )
    report = replace(REPORT, quarantine=entries)
    assert report.quarantined_rows == 5
    assert report.balanced
    assert not report.complete


def test_a_file_that_cannot_be_read_leaves_a_report_incomplete() -> None:
    assert REPORT.complete
    assert not replace(REPORT, bad_files=(BadSegment(name="a.parquet", reason="not a whole Parquet file"),)).complete

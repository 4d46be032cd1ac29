"""A fleet in which one fact was lost and one node withheld a message: the report finds and names both."""

import json
from pathlib import Path

from restante.model.ids import show_message_id
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, Priority
from support.cli.outbox_commands import Operator
from support.fleet.journal_files import Journal, message, node_id, records, sealed, write_segment, writer
from support.fleet.small_spark import quick_environ
from support.spec.clauses import clause

NOON_MS = 1_767_614_400_000
HOUR_MS = 3_600_000
HONEST, CROOKED = node_id(1), node_id(2)
LOST_FACT_OF, WITHHELD = 3, 7
MESSAGES = 10


def plant(directory: Path) -> None:
    """Ten messages, all delivered but one; of another the fact of its delivery is gone."""
    sender, recipient = Journal(writer(1)), Journal(writer(2))
    honest, crooked = Journal(writer(3)), Journal(writer(4))
    honest.write(JournalKind.NODE_STARTED, None, NOON_MS, node=HONEST)
    crooked.write(JournalKind.NODE_STARTED, None, NOON_MS, node=CROOKED)
    details = {"message_kind": Kind.TEXT, "priority": Priority.NORMAL, "ttl_s": 30 * 86_400}
    for number in range(MESSAGES):
        at_ms = NOON_MS + number * 1_000
        sender.write(JournalKind.ACCEPTED, message(number), at_ms, payload_hash=sealed(number), **details)
        sender.write(JournalKind.ATTEMPTED, message(number), at_ms + 1)
        node = CROOKED if number == WITHHELD else HONEST
        sender.write(JournalKind.DELIVERY_CONFIRMED, message(number), at_ms + 20, node=node)
        sender.write(JournalKind.SENT, message(number), at_ms + 20)
        if number == WITHHELD:
            continue
        honest.write(JournalKind.STORED, None, at_ms + 10, payload_hash=sealed(number), size_bytes=512, ttl_s=86_400)
        honest.write(JournalKind.DELETED, None, at_ms + 60, payload_hash=sealed(number))
        recipient.write(JournalKind.ARRIVED, message(number), at_ms + 50, payload_hash=sealed(number), code="new")
        recipient.write(JournalKind.RELEASED, message(number), at_ms + 50)
        sender.write(JournalKind.DELIVERED, message(number), at_ms + 100 + number)
    crooked.write(JournalKind.STORED, None, NOON_MS + HOUR_MS, payload_hash=sealed(99), size_bytes=512, ttl_s=60)
    kept = [row for row in sender.rows if (row.kind, row.message_id) != (JournalKind.DELIVERED, message(LOST_FACT_OF))]
    directory.mkdir()
    for journal, rows in ((sender, kept), *((one, one.rows) for one in (recipient, honest, crooked))):
        write_segment(directory / f"{journal.writer.hex()}.parquet", records(rows))


@clause("13.4", "13.5")
def test_the_report_names_the_message_of_the_lost_fact_and_the_node_that_withheld(tmp_path: Path) -> None:
    plant(tmp_path / "segments")
    operator = Operator(tmp_path)
    operator.env |= quick_environ(tmp_path)
    operator.run("fleet key new operator.key")
    written = "--html page.html --actions actions --key operator.key"
    done = operator.run(
        f"fleet report file://{tmp_path}/segments {written} --master local[2] --json",
        status=1,
        timeout_s=240,
    )
    found = json.loads(done.stdout)
    assert found["read_from"] == "segments"
    assert found["likely_affected"] == [show_message_id(message(LOST_FACT_OF))]
    assert [hole["writer"] for hole in found["missing_events"]] == [writer(1).hex()]
    assert found["withheld"] == [
        {"node": CROOKED.hex(), "message_id": show_message_id(message(WITHHELD)), "evidence": "never_stored"}
    ]
    assert found["conservation"].startswith("accepted 10 = delivered 8 ")
    page = (tmp_path / "page.html").read_text("utf-8")
    for named in (show_message_id(message(LOST_FACT_OF)), show_message_id(message(WITHHELD)), CROOKED.hex()):
        assert named in page
    assert "<script" not in page
    assert "http" not in page
    asked = (tmp_path / "actions" / f"{writer(1).hex()}.actions.jsonl").read_text("utf-8").splitlines()
    [again] = [json.loads(line) for line in asked if '"retransmit"' in line]
    assert again["message_id"] == message(WITHHELD).hex()


def test_bad_paths_and_an_unreadable_page_are_refused_in_words(tmp_path: Path) -> None:
    operator = Operator(tmp_path)
    refused = operator.run("fleet report nowhere", status=1)
    assert "error E109: nowhere is not a directory" in refused.stderr
    (tmp_path / "empty").mkdir()
    assert "holds no journal segments" in operator.run("fleet report empty", status=1).stderr

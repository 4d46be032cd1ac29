"""A fleet with planted faults: the report finds and names each, and proposes actions from signed segments alone."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from restante.cli.main import app, run
from restante.crypto.identity import Identity
from restante.fleet.kernels.synthetic_evidence import signed_absence, signed_receipt
from restante.model.ids import InboxKey, show_message_id
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, Priority
from restante.wire.inbox_keys import node_id_of
from restante.wire.segment_manifest import manifest_name
from support.cli.outbox_commands import Operator
from support.fleet.journal_files import Journal, message, node_id, records, sealed, write_segment, writer
from support.fleet.signed_segments import KEY as SIGNER
from support.fleet.signed_segments import STRANGER, ship_chain, ship_signed
from support.fleet.small_spark import quick_environ
from support.spec.clauses import clause

NOON_MS = 1_767_614_400_000
HOUR_MS = 3_600_000
LIAR = Identity(b"l" * 32)
HONEST, CROOKED = node_id(1), node_id_of(LIAR.node_key)
LOST_FACT_OF, WITHHELD, SWALLOWED = 3, 5, 7
MESSAGES = 10
ALTERED = "its hash is not the one its manifest says"


def plant(directory: Path) -> None:
    """Ten messages, all delivered but one that no node has; of another the fact of its delivery is gone.

    A third was stored at two nodes, one of which signed for it and later listed without it.
    """
    sender, recipient = Journal(writer(1)), Journal(writer(2))
    honest, crooked = Journal(writer(3)), Journal(writer(4))
    honest.write(JournalKind.NODE_STARTED, None, NOON_MS, node=HONEST)
    crooked.write(JournalKind.NODE_STARTED, None, NOON_MS, node=CROOKED)
    details = {"message_kind": Kind.TEXT, "priority": Priority.NORMAL, "ttl_s": 30 * 86_400}
    for number in range(MESSAGES):
        at_ms = NOON_MS + number * 1_000
        sender.write(JournalKind.ACCEPTED, message(number), at_ms, payload_hash=sealed(number), **details)
        sender.write(JournalKind.ATTEMPTED, message(number), at_ms + 1)
        node = CROOKED if number == SWALLOWED else HONEST
        sender.write(JournalKind.DELIVERY_CONFIRMED, message(number), at_ms + 20, node=node)
        sender.write(JournalKind.SENT, message(number), at_ms + 20)
        if number == SWALLOWED:
            continue
        if number == WITHHELD:
            withhold(sender, recipient, at_ms)
        honest.write(JournalKind.STORED, None, at_ms + 10, payload_hash=sealed(number), size_bytes=512, ttl_s=86_400)
        honest.write(JournalKind.DELETED, None, at_ms + 60, payload_hash=sealed(number))
        recipient.write(JournalKind.ARRIVED, message(number), at_ms + 50, payload_hash=sealed(number), code="new")
        recipient.write(JournalKind.RELEASED, message(number), at_ms + 50)
        sender.write(JournalKind.DELIVERED, message(number), at_ms + 100 + number)
    crooked.write(JournalKind.STORED, None, NOON_MS + HOUR_MS, payload_hash=sealed(99), size_bytes=512, ttl_s=60)
    [lost] = [
        place
        for place, row in enumerate(sender.rows)
        if (row.kind, row.message_id) == (JournalKind.DELIVERED, message(LOST_FACT_OF))
    ]
    directory.mkdir()
    _, before = ship_signed(directory, sender.rows[:lost])
    ship_signed(directory, sender.rows[lost + 1 :], previous=before)
    for journal in (recipient, honest, crooked):
        ship_signed(directory, journal.rows)


def withhold(sender: Journal, recipient: Journal, at_ms: int) -> None:
    when: dict[str, Any] = {"key": InboxKey(b"k" * 32), "expires_at_ms": at_ms + 24 * HOUR_MS}
    receipt = signed_receipt(LIAR, blob=sealed(WITHHELD), at_ms=at_ms + 10, **when)
    evidence = {f"evidence_{name}": value for name, value in receipt._asdict().items()}
    sender.write(JournalKind.DELIVERY_CONFIRMED, message(WITHHELD), at_ms + 21, node=CROOKED, **evidence)
    answer = signed_absence(LIAR, blob=sealed(WITHHELD), at_ms=at_ms + 45, **when)
    seen = {"payload_hash": sealed(WITHHELD), "node": CROOKED, "answer": answer}
    recipient.write(JournalKind.MISSING_AT_NODE, None, at_ms + 55, **seen)


def plant_forgeries(directory: Path) -> tuple[Path, Path, Path]:
    """A segment of an unknown key, one that was altered, and one before which another was taken away."""
    foreign, altered, robbed = (Journal(writer(number)) for number in (5, 6, 7))
    foreign.write(JournalKind.ACCEPTED, message(50), NOON_MS)
    altered.write(JournalKind.ACCEPTED, message(60), NOON_MS)
    for number in range(6):
        robbed.write(JournalKind.SCOREBOARD_APPLIED, None, NOON_MS + number)
    stranger, _ = ship_signed(directory, foreign.rows, STRANGER)
    changed, _ = ship_signed(directory, altered.rows)
    write_segment(changed, records([replace(altered.rows[0], message_id=message(61))]))
    _, gone, after = ship_chain(directory, robbed.rows, sizes=2)
    gone.with_name(manifest_name(gone.name)).unlink()
    gone.unlink()
    return stranger, changed, after


@clause("13.1", "13.4", "13.5")
@pytest.mark.usefixtures("spark")
def test_the_report_names_each_planted_fault_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def restante(command: str, status: int = 0) -> str:
        """In the Spark session of the tests."""
        with pytest.raises(SystemExit) as ended:
            run(app, command.split())
        said = capsys.readouterr()
        assert ended.value.code == status, said.err
        return said.out

    monkeypatch.chdir(tmp_path)
    plant(tmp_path / "segments")
    stranger, changed, after = plant_forgeries(tmp_path / "segments")
    restante("fleet key new operator.key")
    restante(f"fleet enrol --lake segments --accept {SIGNER.public.hex()} --key operator.key")
    keys = json.loads(restante("fleet enrol --lake segments --list --key operator.key --json"))
    assert {one["key"]: one["enrolled"] for one in keys} == {SIGNER.public.hex(): True, STRANGER.public.hex(): False}
    written = "--html page.html --actions actions --key operator.key"
    found = json.loads(restante(f"fleet report file://{tmp_path}/segments {written} --json", status=1))
    assert (found["read_from"], found["certainty"]) == ("segments", "verified")
    assert found["likely_affected"] == [show_message_id(message(LOST_FACT_OF))]
    assert [hole["writer"] for hole in found["missing_events"]] == [writer(1).hex(), writer(7).hex()]
    assert found["missing_segments"] == [{"writer": writer(7).hex(), "before": after.name}]
    assert {one["name"]: one["reason"].partition(":")[0] for one in found["rejected_files"]} == {
        stranger.name: "signed by an unknown key",
        changed.name: ALTERED,
    }
    assert found["withheld"] == [
        {
            "node": CROOKED.hex(),
            "message_id": show_message_id(message(WITHHELD)),
            "stored_at_ms": NOON_MS + WITHHELD * 1_000 + 10,
            "absent_at_ms": NOON_MS + WITHHELD * 1_000 + 45,
            "certainty": "verified",
        }
    ]
    assert [one["is_met"] for one in found["targets"]] == [True, True, True, True]
    assert found["conservation"].startswith("accepted 10 = delivered 8 ")
    page = (tmp_path / "page.html").read_text("utf-8")
    for named in (show_message_id(message(LOST_FACT_OF)), show_message_id(message(WITHHELD)), CROOKED.hex()):
        assert named in page
    assert "<script" not in page
    assert "://" not in page  # nothing is loaded from elsewhere
    asked = (tmp_path / "actions" / f"{writer(1).hex()}.actions.jsonl").read_text("utf-8").splitlines()
    [again] = [json.loads(line) for line in asked if '"retransmit"' in line]
    assert again["message_id"] == message(SWALLOWED).hex()


@pytest.mark.soak  # a Spark run of its own; tests/unit/cli/test_report_status.py shows the rule
@clause("13.4", "1.4")
def test_a_sound_report_with_undelivered_messages_has_exit_status_3(tmp_path: Path) -> None:
    sender = Journal(writer(1))
    details = {"message_kind": Kind.TEXT, "priority": Priority.NORMAL, "ttl_s": 3_600}
    sender.write(JournalKind.ACCEPTED, message(1), NOON_MS, payload_hash=sealed(1), **details)
    sender.write(JournalKind.EXPIRED, message(1), NOON_MS + HOUR_MS, code="E010")
    (tmp_path / "segments").mkdir()
    write_segment(tmp_path / "segments" / "a.parquet", records(sender.rows))
    operator = Operator(tmp_path)
    operator.env |= quick_environ()
    done = operator.run("fleet report segments --master local[1] --json", status=3, timeout_s=240)
    assert json.loads(done.stdout)["conservation"].startswith("accepted 1 = delivered 0 + expired 1 ")


def test_bad_paths_and_an_unreadable_page_are_refused_in_words(tmp_path: Path) -> None:
    operator = Operator(tmp_path)
    refused = operator.run("fleet report nowhere", status=1)
    assert "error E109: nowhere is not a directory" in refused.stderr
    (tmp_path / "empty").mkdir()
    assert "holds no journal segments" in operator.run("fleet report empty", status=1).stderr

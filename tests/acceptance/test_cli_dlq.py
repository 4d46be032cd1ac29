"""`restante dlq`: dead letters listed, recovered, deleted and exported."""

import base64
import json
import stat
from pathlib import Path

import pytest

from restante.core.outbox_events import TimePassed
from restante.model.kinds import Priority
from restante.runtime.system import SystemClock
from support.cli.outbox_commands import Operator, cells
from support.cli.populated_client_file import HOUR_MS, Filler, fill, short, shown
from support.outbox.entries import DAY_MS
from support.spec.clauses import clause
from support.sqlite.files import open_client_file


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    made = Operator(tmp_path)
    fill(made.path, now_ms=SystemClock().now_ms())
    return made


@clause("5.1", "5.3")
def test_dead_letters_are_listed_with_reason_category_and_dates(operator: Operator) -> None:
    letters = {one["message_id"]: one for one in operator.json("dlq list", status=3)["dead_letters"]}
    told = {
        name: (letters[shown(name)]["reason"], letters[shown(name)]["code"], letters[shown(name)]["category"])
        for name in ("exhausted", "overdue", "permanent", "cancelled", "tombstone")
    }
    assert told == {
        "exhausted": ("attempts_exhausted", "E001", "retriable"),
        "overdue": ("queue_time_exceeded", None, "retriable"),
        "permanent": ("permanent_failure", "E006", "permanent"),
        "cancelled": ("cancelled", None, "permanent"),
        "tombstone": ("expired", "E010", "expired"),
    }
    assert letters[shown("exhausted")]["attempts"] == 15
    for name in ("exhausted", "overdue"):
        assert letters[shown(name)]["kept_until_ms"] == letters[shown(name)]["message_expires_at_ms"]
    others = ("permanent", "cancelled", "tombstone")
    kept = {name: letters[shown(name)]["kept_until_ms"] - letters[shown(name)]["moved_at_ms"] for name in others}
    assert kept == {"permanent": 30 * DAY_MS, "cancelled": 30 * DAY_MS, "tombstone": DAY_MS}
    overdue = letters[shown("overdue")]
    assert overdue["next_retry_at_ms"] - overdue["moved_at_ms"] == DAY_MS
    assert letters[shown("permanent")]["next_retry_at_ms"] is None
    output = operator.run("dlq list", status=3).stdout
    assert cells(output, "exhausted")[1:4] == ["retriable", "E001", "15"]
    assert max(map(len, output.splitlines())) <= 80
    only = operator.json("dlq list --category permanent", status=3)
    assert (only["total"], len(only["dead_letters"])) == (2, 2)


@clause("5.4")
def test_recovery_resets_tries_and_makes_the_message_due_at_once(operator: Operator) -> None:
    operator.run("dlq recover", short("exhausted"))
    data = operator.json("outbox show", short("exhausted"))
    assert (data["state"], data["attempts"]) == ("pending", 0)
    assert data["next_attempt_at_ms"] == data["queued_at_ms"]
    assert data["expires_at_ms"] == data["queued_at_ms"] + 2 * DAY_MS
    assert data["events"][-1]["event"] == "recovered"
    assert operator.json("outbox check")["sound"] is True


@clause("5.4")
def test_of_several_letters_each_is_recovered_or_refused_for_itself(operator: Operator) -> None:
    names = ("tombstone", "permanent", "pending", "overdue")
    reports = operator.json("dlq recover", *map(short, names), "abcdef0123", status=1)
    assert [report["done"] for report in reports] == [False, True, False, True, False]
    problems = [report["problem"]["code"] for report in reports if report["problem"]]
    assert problems == ["E010", "E109", "E109"]
    assert operator.state("permanent") == operator.state("overdue") == "pending"
    assert operator.state("tombstone") == "expired"


@clause("5.4")
def test_a_dead_letter_whose_message_has_expired_is_refused(tmp_path: Path) -> None:
    operator = Operator(tmp_path)
    file = open_client_file(operator.path)
    filler = Filler(file=file, now_ms=SystemClock().now_ms())
    filler.send("late", ago_ms=2 * DAY_MS, life_ms=DAY_MS, priority=Priority.HIGH)
    filler.tell("late", TimePassed(connected_ms=HOUR_MS), ago_ms=DAY_MS + HOUR_MS)
    file.database.close()
    assert operator.json("dlq show", short("late"))["category"] == "retriable"
    [report] = operator.json("dlq recover --all", status=1)
    assert report["problem"]["code"] == "E010"
    assert operator.state("late") == "dead"


def test_all_letters_of_a_category_are_recovered_at_once(operator: Operator) -> None:
    reports = operator.json("dlq recover --all --category retriable")
    assert {report["message_id"] for report in reports} == {shown("exhausted"), shown("overdue")}
    assert operator.json("dlq list --category retriable")["total"] == 0
    assert operator.json("dlq list", status=3)["total"] == 3


@pytest.mark.parametrize("arguments", ["", "--all 62a2fed3"])
def test_recover_wants_either_ids_or_all(operator: Operator, arguments: str) -> None:
    assert operator.run(f"dlq recover {arguments}", status=2).stderr.startswith("error E107: no dead letters given")


@clause("5.4")
def test_a_deleted_letter_leaves_only_its_facts(operator: Operator) -> None:
    reports = operator.json("dlq delete --yes", short("permanent"), short("sent"), status=1)
    assert [report["done"] for report in reports] == [True, False]
    assert operator.run("dlq show", short("permanent"), status=1).stderr.startswith(
        "error E109: it is not a dead letter"
    )
    assert operator.json("dlq history", short("permanent"))["events"][-1]["event"] == "discarded"
    assert operator.json("outbox check")["sound"] is True


@clause("5.4")
def test_the_export_is_json_lines_with_payloads_only_on_request(operator: Operator) -> None:
    lines = [json.loads(line) for line in operator.run("dlq export").stdout.splitlines()]
    assert len(lines) == 5
    assert not any("payload_base64" in line for line in lines)
    done = operator.run("dlq export --payload --output letters.jsonl")
    assert done.stdout == "5 dead letters written to letters.jsonl\n"
    written = operator.directory / "letters.jsonl"
    payloads = {
        line["message_id"]: line.pop("payload_base64") for line in map(json.loads, written.read_text().splitlines())
    }
    assert base64.b64decode(payloads[shown("overdue")]) == b"sealed bytes of overdue"
    assert payloads[shown("tombstone")] is None
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert sorted(operator.files()) == ["letters.jsonl", "mail.db"]


@pytest.mark.parametrize(
    ("output", "status", "code"),
    [("mail.db", 2, "E107"), ("./mail.db-wal", 2, "E107"), ("absent/letters.jsonl", 1, "E106"), (".", 1, "E106")],
)
def test_an_export_that_cannot_be_written_changes_nothing(
    operator: Operator, output: str, status: int, code: str
) -> None:
    before = operator.files()
    done = operator.run("dlq export --output", output, status=status)
    assert done.stderr.startswith(f"error {code}: ")
    assert operator.files() == before

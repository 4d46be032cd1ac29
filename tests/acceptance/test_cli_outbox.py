"""`restante outbox`: lists, sums, single messages and taking them back."""

import base64
import re
from pathlib import Path

import pytest

from restante.model.ids import show_message_id
from restante.model.states import Route
from restante.runtime.system import SystemClock
from support.cli.outbox_commands import CHANGING_ONE, READING_ONE, Operator, cells
from support.cli.populated_client_file import MINUTE_MS, fill, short, shown
from support.fleet.journal_files import message
from support.outbox.entries import DAY_MS, accept, entry
from support.spec.clauses import clause
from support.sqlite.files import open_client_file


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    made = Operator(tmp_path)
    fill(made.path, now_ms=SystemClock().now_ms())
    return made


def test_the_list_has_a_line_for_each_message_on_its_way_within_eighty_columns(operator: Operator) -> None:
    output = operator.run("outbox list").stdout
    assert cells(output, "pending")[1:] == [
        "pending",
        "text",
        "0",
        "now",
        "1",
        "d",
        "upstream",
        "relay-1",
    ]
    assert cells(output, "behind")[3:5] == ["0", "blocked"]
    assert cells(output, "sending")[1:5] == ["sending", "read_receipt", "1", "leased"]
    assert cells(output, "sent")[3:6] == ["1", "23", "h"], "it is stored once more after 24 h (SPEC 3.14)"
    assert cells(output, "retried")[-3:-1] == ["E005", "mesh"]
    assert max(map(len, output.splitlines())) <= 80
    assert len(re.findall(r"^[0-9a-f]{8} ", output, re.MULTILINE)) == 5


def test_the_json_of_the_list_has_plain_numbers(operator: Operator) -> None:
    data = operator.json("outbox list")
    assert data["total"] == 5
    first = data["messages"][0]
    assert first["message_id"] == shown("pending")
    assert (first["route"], first["lane"], first["size_bytes"]) == ("upstream", "relay-1", 23)
    assert first["expires_at_ms"] - first["created_at_ms"] == 2 * DAY_MS
    assert [one["blocked"] for one in data["messages"]] == [False, True, False, False, False]
    sending = data["messages"][2]
    assert sending["lease_owner"] == "drain-1"
    assert sending["lease_until_ms"] == sending["last_attempt_at_ms"] + MINUTE_MS


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ("--state sent", ["sent"]),
        ("--state pending", ["pending", "behind", "retried"]),
        ("--lane relay-1", ["pending", "behind"]),
        ("--lane relay-1 --state sending", []),
    ],
)
def test_the_list_can_be_narrowed(operator: Operator, options: str, names: list[str]) -> None:
    data = operator.json("outbox list", *options.split())
    assert [one["message_id"] for one in data["messages"]] == [shown(name) for name in names]
    assert data["total"] == len(names)


def test_a_list_that_is_cut_says_how_many_more_there_are(operator: Operator) -> None:
    assert "3 more; show them with --limit 5" in operator.run("outbox list --limit 2").stdout
    assert "more" not in operator.run("outbox list --limit 5").stdout
    assert "4 more; show them with --limit 5" in operator.run("dlq list --limit 1", status=3).stdout


def test_empty_lists_say_so(tmp_path: Path) -> None:
    empty = Operator(tmp_path)
    open_client_file(empty.path).database.close()
    assert empty.run("outbox list").stdout == "Nothing is in flight.\n"
    assert empty.run("outbox list --state sent").stdout == "No such message is in flight.\n"
    assert empty.run("dlq list").stdout == "There are no dead letters.\n"
    assert empty.run("dlq export").stdout == ""
    assert empty.run("dlq recover --all").stdout == "0 recovered\n"
    assert empty.json("outbox stats")["oldest_waiting_at_ms"] is None
    assert empty.json("outbox check")["sound"] is True


@clause("3.13")
@pytest.mark.parametrize(
    ("name", "state", "facts"),
    [
        ("pending", "pending", ["accepted"]),
        ("sending", "sending", ["accepted", "attempted"]),
        ("sent", "sent", ["accepted", "attempted", "sent", "delivery_confirmed"]),
        ("delivered", "delivered", ["accepted", "attempted", "sent", "delivered"]),
        ("read", "delivered", ["accepted", "attempted", "sent", "delivered", "read"]),
        ("permanent", "dead", ["accepted", "attempted", "dead_lettered"]),
        ("tombstone", "expired", ["accepted", "expired"]),
        ("discarded", "dead", ["accepted", "dead_lettered", "discarded"]),
    ],
)
def test_a_message_is_shown_with_its_facts_wherever_it_is(
    operator: Operator, name: str, state: str, facts: list[str]
) -> None:
    data = operator.json("outbox show", short(name))
    assert (data["message_id"], data["state"]) == (shown(name), state)
    assert [one["event"] for one in data["events"]] == facts
    assert operator.json("dlq history", short(name))["events"] == data["events"]
    assert "payload_base64" not in data
    output = operator.run("outbox show", short(name)).stdout
    assert shown(name) in output
    assert max(map(len, output.splitlines())) <= 80


def test_the_payload_is_shown_only_on_request(operator: Operator) -> None:
    secret = b"sealed bytes of pending"
    assert secret.hex(" ", -2) not in operator.run("outbox show", short("pending")).stdout
    assert secret.hex(" ", -2)[:50] in operator.run("outbox show --payload", short("pending")).stdout
    data = operator.json("outbox show --payload", short("pending"))
    assert base64.b64decode(data["payload_base64"]) == secret
    assert operator.json("outbox show --payload", short("delivered"))["payload_base64"] is None
    dead = operator.json("dlq show --payload", short("permanent"))
    assert base64.b64decode(dead["payload_base64"]) == b"sealed bytes of permanent"


@clause("3.6")
def test_the_sums_show_states_limits_and_dead_letters(operator: Operator) -> None:
    data = operator.json("--set outbox.max_entries=100 outbox stats", status=3)
    assert {state: one["messages"] for state, one in data["states"].items()} == {"pending": 3, "sending": 1, "sent": 1}
    assert data["limits"]["messages"] == {"held": 9, "limit": 100}, "dead letters count, too (SPEC 5.3)"
    assert data["limits"]["payload_bytes"] == {"held": 209, "limit": 50_000_000}
    assert data["lanes"][0] == {"lane": "cancelled", "held": 1, "limit": 80}
    fullest = operator.json("outbox stats", status=3)["lanes"][0]
    assert fullest == {"lane": "relay-1", "held": 2, "limit": 256}, "an upstream lane has a limit of its own"
    assert {name: one["messages"] for name, one in data["dead_letters"].items()} == {
        "retriable": 2,
        "permanent": 2,
        "expired": 1,
    }
    assert data["dead_letters"]["expired"]["payload_bytes"] == 0
    assert data["delivered_remembered"] == 2
    output = operator.run("--set outbox.max_entries=100 outbox stats", status=3).stdout
    assert output.startswith("Not delivered"), "failures come first"
    assert re.search(r"^messages +9% +█░{19} +9 of 100 messages", output, re.MULTILINE)
    assert max(map(len, output.splitlines())) <= 80


@clause("5.2")
def test_a_cancelled_message_becomes_a_dead_letter_and_the_next_of_its_lane_may_leave(operator: Operator) -> None:
    [report] = operator.json("outbox cancel --yes", short("pending"))
    assert report == {"given": short("pending"), "message_id": shown("pending"), "done": True, "problem": None}
    assert operator.json("dlq show", short("pending"))["reason"] == "cancelled"
    assert operator.json("outbox show", short("behind"))["blocked"] is False
    assert operator.json("outbox check")["sound"] is True


def test_where_nobody_can_be_asked_a_change_needs_yes(operator: Operator) -> None:
    before = operator.files()
    for command in ("outbox cancel", "outbox cancel --json"):
        done = operator.run(command, short("pending"), status=2)
        assert "E107" in done.stderr
        assert "--yes" in done.stderr
    assert "--yes" in operator.run("dlq delete", short("permanent"), status=2).stderr
    assert operator.files() == before


def test_at_a_terminal_the_question_is_asked_and_the_answer_counts(operator: Operator) -> None:
    status, seen = operator.answering("n", f"outbox cancel {short('pending')}")
    assert status == 1
    assert "Cancel 1 message? [y/N]" in seen
    assert "Nothing was changed." in seen
    assert operator.state("pending") == "pending"
    status, seen = operator.answering("y", f"outbox cancel {short('pending')} {short('behind')}")
    assert status == 0
    assert "Cancel 2 messages? [y/N]" in seen
    assert operator.state("behind") == "dead"


def test_what_has_ended_cannot_be_cancelled(operator: Operator) -> None:
    before = operator.files()
    reports = operator.json("outbox cancel --yes", short("delivered"), short("tombstone"), status=1)
    assert [report["problem"]["code"] for report in reports] == ["E109", "E109"]
    assert [report["problem"]["text"].rpartition(" ")[2] for report in reports] == ["delivered", "expired"]
    assert operator.files() == before


@pytest.mark.parametrize(
    "wanted", [shown("sent"), shown("sent").replace("-", ""), shown("sent").upper(), shown("sent")[:13], short("sent")]
)
def test_an_id_may_be_given_whole_or_in_part(operator: Operator, wanted: str) -> None:
    assert operator.json("outbox show", wanted)["message_id"] == shown("sent")


@pytest.mark.parametrize("wanted", ["7afbb33", "7afbb33g", "", "7afbb334" * 5])
def test_what_is_no_id_is_refused_with_what_one_looks_like(operator: Operator, wanted: str) -> None:
    for command in (*READING_ONE, *CHANGING_ONE):
        done = operator.run(command, wanted, status=2)
        assert done.stderr.startswith("error E101: ")
        assert "8 to 32 hexadecimal digits" in done.stderr


def test_an_id_nobody_has_is_not_found(operator: Operator) -> None:
    for command in READING_ONE:
        assert operator.run(command, "abcdef0123", status=1).stderr.startswith("error E109: no message in mail.db")


def test_a_prefix_of_several_ids_is_refused_with_those_ids(operator: Operator) -> None:
    file = open_client_file(operator.path)
    for number in range(1, 8):
        accept(file.outbox, entry(number, route=Route.MESH))
    file.database.close()
    before = operator.files()
    done = operator.run("outbox show 00000000", status=2)
    assert done.stderr.startswith("error E101: 00000000 begins the ids of several messages")
    listed = [line.strip() for line in done.stderr.splitlines()]
    assert show_message_id(message(1)) in listed
    assert "and more" in listed
    [report] = operator.json("outbox cancel --yes 00000000", status=1)
    assert report["problem"]["code"] == "E101"
    assert operator.files() == before


def test_a_name_that_would_steer_a_terminal_is_shown_harmless(operator: Operator) -> None:
    file = open_client_file(operator.path)
    accept(file.outbox, entry(1, route=Route.MESH, lane="x\x1b[2J\ny"))
    file.database.close()
    for command in ("outbox list", f"outbox show {show_message_id(message(1))}"):
        output = operator.run(command).stdout
        assert "\x1b" not in output
        assert "x�[2J�y" in output

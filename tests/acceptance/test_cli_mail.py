"""`restante id`, `contact`, `send`, `inbox`, `sessions` and `security` against a running node."""

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import stat
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from restante.cli.client import message_exchange
from restante.cli.client.message_exchange import InboxResult
from restante.client.client import Client
from restante.client.places.read_results import SomeInboxesUnread
from restante.policy.failures import Failure
from restante.ports.relay_connection import AttemptFailed
from support.relay.node_processes import COMMAND, Done, NodeHome, NodeProcess, clean_environ, restante, running_node
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S, looks

STYLES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with running_node(NodeHome.made(tmp_path_factory.mktemp("relay") / "node")) as node:
        yield node


@pytest.fixture(scope="module")
def pair(node: NodeProcess, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Alice, who has a passphrase, and Bob, who has none; each is the other's contact."""
    home = tmp_path_factory.mktemp("people")
    (home / "phrase").write_text("correct horse\n")
    phrase = ("--passphrase-file", str(home / "phrase"))
    restante("id", "new", str(home / "alice"), "--relay", str(node.relay), *phrase)
    restante("id", "new", str(home / "bob"), "--relay", str(node.relay), "--no-passphrase")
    restante("id", "export", "--home", str(home / "alice"), "-o", str(home / "alice.json"), *phrase)
    restante("id", "export", "--home", str(home / "bob"), "-o", str(home / "bob.json"))
    restante("contact", "add", "bob", str(home / "bob.json"), "--home", str(home / "alice"))
    restante("contact", "add", "alice", str(home / "alice.json"), "--home", str(home / "bob"))
    return home


def alice(home: Path, *args: str) -> Done:
    return restante(*args, RESTANTE_HOME=str(home / "alice"), RESTANTE_PASSPHRASE_FILE=str(home / "phrase"))


def bob(home: Path, *args: str, status: int = 0) -> Done:
    return restante(*args, status=status, RESTANTE_HOME=str(home / "bob"))


@clause("8.6")
def test_a_key_is_its_owners_alone_and_under_the_passphrase_if_there_is_one(pair: Path) -> None:
    for name in ("alice", "bob"):
        assert stat.S_IMODE((pair / name / "identity").stat().st_mode) == 0o600
    assert (pair / "alice" / "identity").read_bytes().startswith(b"RSTP")
    shown = json.loads(alice(pair, "id", "show", "--json").stdout)
    assert shown["address"].startswith("rst1")
    assert shown["has_passphrase"] is True
    lines = alice(pair, "id", "show").stdout.splitlines()
    assert shown["places"][0] in lines, "whole, to be copied"


def fetched(who: Callable[..., Done], home: Path, *more: str) -> str:
    """What an inbox shows once something is in it: a slow relay may be taken for one that has nothing more."""
    for _ in looks():
        shown = who(home, "inbox", *more).stdout
        if shown not in ("", "No new messages.\n"):
            return shown
    raise AssertionError


def test_messages_go_to_and_fro_once_each(pair: Path) -> None:
    assert alice(pair, "send", "bob", "bonjour").stdout.endswith(" is stored for the recipient\n")
    assert fetched(bob, pair).endswith("  alice  bonjour\n")
    sent = json.loads(bob(pair, "send", "alice", "salut", "--json").stdout)
    assert sent["state"] == "sent"
    [line] = fetched(alice, pair, "--json", "--idle-timeout-ms", "500").splitlines()
    got = json.loads(line)
    assert (got["message_id"], got["from"], got["text"]) == (sent["message_id"], "bob", "salut")
    assert bob(pair, "inbox", "--idle-timeout-ms", "500").stdout == "No new messages.\n"
    [session] = json.loads(bob(pair, "sessions", "--json").stdout)
    assert (session["contact"], session["state"]) == ("alice", "in use")
    assert bob(pair, "security").stdout == "There are no security events.\n"
    assert "alice" in bob(pair, "contact", "list").stdout


def test_what_was_shown_once_can_be_shown_again(pair: Path) -> None:
    alice(pair, "send", "bob", "keep\tthis 👩\u200d💻")
    assert fetched(bob, pair).endswith("  alice  keep\tthis 👩\u200d💻\n")
    again = bob(pair, "history", "alice", "--json").stdout.splitlines()
    assert json.loads(again[-1])["text"] == "keep\tthis 👩\u200d💻"
    assert bob(pair, "history", "alice", "--limit", "1").stdout.endswith("  alice  keep\tthis 👩\u200d💻\n")
    everything = bob(pair, "inbox", "--all", "--idle-timeout-ms", "100", "--json").stdout.splitlines()
    assert everything == again, "each once, in the same order"
    assert bob(pair, "inbox", "--idle-timeout-ms", "100").stdout == "No new messages.\n"
    assert "there is no contact called 'carol'" in bob(pair, "history", "carol", status=1).stderr


def test_a_broken_contact_file_is_skipped_with_a_warning(pair: Path) -> None:
    broken = pair / "bob" / "contacts" / "torn.json"
    broken.write_text("{")
    try:
        listed = bob(pair, "contact", "list")
        assert "alice" in listed.stdout
        assert listed.stderr.startswith("warning: the contact file torn.json is skipped: ")
        sent = bob(pair, "send", "alice", "still works", "--json")
        assert json.loads(sent.stdout)["state"] == "sent"
        assert "torn.json" in json.loads(sent.stderr)["warning"]
    finally:
        broken.unlink()


@clause("3.13")
def test_a_message_that_becomes_a_dead_letter_is_not_reported_as_sent(tmp_path: Path) -> None:
    """The relay takes no blob above 16 KiB, so it refuses this one for good."""
    with running_node(NodeHome.made(tmp_path / "node", mailbox={"max_blob_bytes": 16_384})) as small:
        for name in ("one", "two"):
            restante("id", "new", str(tmp_path / name), "--relay", str(small.relay), "--no-passphrase")
        restante("id", "export", "--home", str(tmp_path / "two"), "-o", str(tmp_path / "two.json"))
        home = {"RESTANTE_HOME": str(tmp_path / "one")}
        restante("contact", "add", "two", str(tmp_path / "two.json"), status=0, **home)
        done = restante("send", "two", "x" * 20_000, status=1, **home)
        assert "could not be delivered and is a dead letter" in done.stdout
        as_json = restante("send", "two", "x" * 20_000, "--json", status=1, **home)
        assert json.loads(as_json.stdout)["state"] == "dead"


def test_an_inbox_whose_relay_is_down_fails_and_says_so(tmp_path: Path) -> None:
    node = NodeHome.made(tmp_path / "node")
    restante("id", "new", str(tmp_path / "me"), "--relay", str(node.relay), "--no-passphrase")
    home = {"RESTANTE_HOME": str(tmp_path / "me")}
    done = restante("inbox", "--idle-timeout-ms", "100", status=1, **home)
    assert done.stderr.startswith("error E001: none of your places could be reached")
    as_json = restante("inbox", "--idle-timeout-ms", "100", "--json", status=1, **home)
    assert (as_json.stdout, json.loads(as_json.stderr)["error"]["code"]) == ("", "E001")


NO_ANSWER = AttemptFailed("no answer", failure=Failure.NETWORK_TIMEOUT)
SHOWN_BEFORE = "  2 messages that were already on this machine were shown"


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (None, ["error E001: not all of your inboxes could be read in time"]),
        (SomeInboxesUnread(NO_ANSWER), ["error E001: not all of your inboxes could be read: no answer"]),
        (NO_ANSWER, ["error E001: none of your places could be reached: no answer", SHOWN_BEFORE]),
    ],
)
def test_an_inbox_of_which_a_part_was_read_does_not_say_that_nothing_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: AttemptFailed | None, said: list[str]
) -> None:
    async def shown(client: Client, **_: object) -> InboxResult:
        await client.close()
        return InboxResult(shown=2, was_connected=False, failure=failure)

    monkeypatch.setattr(message_exchange, "show_new", shown)
    node = NodeHome.made(tmp_path / "node")
    restante("id", "new", str(tmp_path / "me"), "--relay", str(node.relay), "--no-passphrase")
    done = restante("inbox", status=1, RESTANTE_HOME=str(tmp_path / "me"))
    assert done.stderr.splitlines()[:-1] == said


def test_a_relay_that_is_slow_to_answer_is_waited_for(pair: Path, node: NodeProcess) -> None:
    """Longer than the silence that means the end of the mail: that begins once the relay has been reached."""
    node.process.send_signal(signal.SIGSTOP)
    goes_on = threading.Timer(1.0, node.process.send_signal, (signal.SIGCONT,))
    goes_on.start()
    try:
        assert bob(pair, "inbox", "--idle-timeout-ms", "100").stdout == "No new messages.\n"
    finally:
        goes_on.join()


def following(home: Path, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [COMMAND, "inbox", "--follow", *args],
        env=clean_environ(RESTANTE_HOME=str(home / "bob")),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_who_follows_sees_each_message_as_it_comes_until_it_is_interrupted(pair: Path) -> None:
    alice(pair, "send", "bob", "before you looked")
    process = following(pair, "--json")
    assert process.stdout is not None
    try:
        assert json.loads(process.stdout.readline())["text"] == "before you looked"
        for text in ("while you look", "and once more"):
            alice(pair, "send", "bob", text)
            assert json.loads(process.stdout.readline())["text"] == text
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert (rest, errors, process.returncode) == ("", "", 130)
    assert bob(pair, "inbox", "--idle-timeout-ms", "500").stdout == "No new messages.\n", (
        "each was shown, and only once"
    )


def at_terminal(home: Path, command: str, *answers: str) -> tuple[int, str]:
    """The exit status, and all that stood on the screen; each answer is typed once a question waits for it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, *command.split()],
        env=clean_environ(RESTANTE_HOME=str(home / "alice")),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no thread is running here
    )
    os.close(theirs)
    seen, left = b"", list(answers)
    try:
        with contextlib.suppress(OSError):  # Linux answers EIO once the other side is closed
            while piece := os.read(ours, 65_536):
                seen += piece
                if left and seen.endswith(b": "):  # the space comes last, once the terminal shows nothing typed
                    os.write(ours, f"{left.pop(0)}\n".encode())
        return process.wait(timeout=LIMIT_S), STYLES.sub("", seen.decode())
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_a_passphrase_is_asked_for_at_a_terminal_and_not_shown_there(pair: Path) -> None:
    status, screen = at_terminal(pair, "id show", "correct horse")
    assert status == 0
    assert screen.startswith("Passphrase: ")
    assert "rst1" in screen
    assert "correct horse" not in screen
    status, screen = at_terminal(pair, "inbox", "a battery staple")
    assert (status, "error E103: the passphrase is wrong" in screen) == (1, True)
    assert "staple" not in screen


def test_an_interrupt_at_a_question_ends_the_command_as_anywhere_else(pair: Path) -> None:
    status, screen = at_terminal(pair, "inbox", "\x03")
    assert status == 130
    assert "Aborted" not in screen


def test_ctrl_d_at_a_question_is_no_answer_and_the_command_has_failed(pair: Path) -> None:
    status, screen = at_terminal(pair, "inbox", "\x04")
    assert status == 1
    assert screen.splitlines()[-1] == "Aborted: there was no answer."


def test_a_new_passphrase_is_asked_for_twice_and_must_be_the_same(pair: Path, node: NodeProcess) -> None:
    made = pair / "carol"
    status, screen = at_terminal(
        pair, f"id new {made} --relay {node.relay}", "one", "other", "third time", "third time"
    )
    assert status == 0, screen
    assert screen.count("Once more") == 2
    assert not any(word in screen for word in ("other", "third time"))
    assert (made / "identity").read_bytes().startswith(b"RSTP")


@pytest.mark.parametrize(
    ("arguments", "status", "start"),
    [
        ("send carol hello", 1, "error E109: there is no contact called 'carol'"),
        ("send alice hello --ttl-s 5", 2, "error E102: ttl_s of text = 5 is outside 3600..7776000 s"),
        ("send alice hello --kind control", 2, "error E101: kind control is for Restante itself"),
        ("contact add x identity", 1, "error E109: identity cannot be read"),
        ("id new . --relay here", 2, "error E101: a relay or node is named KEY@HOST:PORT"),
        ("id new .", 2, "error E107: no place given: add --mesh KEY@HOST:PORT"),
        ("inbox --home nowhere", 1, "error E109: nowhere is not a client's directory"),
        ("inbox --passphrase-file nowhere --home {alice}", 1, "error E109: nowhere cannot be read"),
        ("inbox --passphrase-file {alice}/places --home {alice}", 1, "error E103: the passphrase is wrong"),
        ("inbox --home {alice}", 2, "error E107: the identity has a passphrase and there is no terminal"),
    ],
)
def test_what_cannot_be_done_is_said_with_a_code(pair: Path, arguments: str, status: int, start: str) -> None:
    words = arguments.format(alice=pair / "alice").split()
    assert bob(pair, *words, status=status).stderr.startswith(start)


def test_what_is_advised_is_about_what_was_named(pair: Path) -> None:
    unknown = bob(pair, "send", "carol", "hello", status=1).stderr
    assert "hint: List the contacts with 'restante contact list'." in unknown
    elsewhere = bob(pair, "sessions", "--home", "nowhere", status=1).stderr
    assert "hint: Create a client with 'restante id new DIR'" in elsewhere
    assert "message" not in unknown + elsewhere


def test_what_is_no_contact_or_a_changed_one_is_refused(pair: Path, tmp_path: Path) -> None:
    good = json.loads((pair / "alice.json").read_text())
    for name, changed in {
        "no form": {**good, "form": "?"},
        "no text": {**good, "bundle": 7},
        "another's address": {**good, "address": json.loads((pair / "bob.json").read_text())["address"]},
        "no base64": {**good, "bundle": "!" + good["bundle"]},
        "changed bundle": {**good, "bundle": good["bundle"][:-8] + "AAAA" + good["bundle"][-4:]},
    }.items():
        (tmp_path / "changed.json").write_text(json.dumps(changed))
        status = 1 if name == "changed bundle" else 2
        refused = bob(pair, "contact", "add", "x", str(tmp_path / "changed.json"), status=status)
        assert refused.stderr.startswith("error E1"), name
    assert len(json.loads(bob(pair, "contact", "list", "--json").stdout)) == 1


def test_an_address_that_is_no_contact_yet_is_told_how_to_become_one(pair: Path) -> None:
    own = bob(pair, "id", "show").stdout.split()
    address = next(word for word in own if word.startswith("rst1"))
    refused = bob(pair, "send", address, "hello", status=1).stderr
    assert f"there is no contact called '{address}'" in refused
    assert "--add NAME" in refused


def test_a_mistyped_address_is_no_unknown_name_and_no_missing_file(pair: Path) -> None:
    address = json.loads((pair / "alice.json").read_text())["address"]
    for mistyped, why in (
        (address[:-1] + ("q" if address[-1] != "q" else "p"), "the checksum does not fit"),
        (address[:-1], "an address must have 62 characters, not 61"),
    ):
        for command in (("send", mistyped, "hello"), ("contact", "add", "carol", mistyped)):
            refused = bob(pair, *command, status=2).stderr
            assert refused.startswith("error E101: ")
            assert why in refused.splitlines()[0]


def test_ones_own_address_is_no_contact(pair: Path) -> None:
    own = json.loads((pair / "bob.json").read_text())["address"]
    for command in (("contact", "add", "me", own), ("send", own, "hello", "--add", "me")):
        assert bob(pair, *command, status=2).stderr.startswith("error E101: this is your own address")
    assert [each["name"] for each in json.loads(bob(pair, "contact", "list", "--json").stdout)] == ["alice"]

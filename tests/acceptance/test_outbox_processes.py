"""Several processes and one outbox: no try is made twice at once, and what a killed one had promised is there."""

import random
import subprocess
from collections import Counter, defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from restante.model.ids import MessageId, event_number
from restante.model.journal import JournalEvent, JournalKind
from restante.model.states import State
from support.fleet.journal_files import message
from support.outbox import worker_processes
from support.outbox.entries import accept
from support.outbox.worker_processes import HURRIED, LEASE_MS, SENDERS, fresh
from support.spec.clauses import clause
from support.sqlite.files import assert_books_balance, facts, open_client_file, states_by_journal
from support.system.programs import command

MESSAGES = 200
OWNERS = ("first", "second")


def started(stack: ExitStack, role: str, path: Path, argument: str) -> subprocess.Popen[str]:
    """A program that has opened the file and waits for the word to begin; killed at the latest when the test ends."""
    process = subprocess.Popen(
        [*command(worker_processes), role, str(path), argument],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    stack.callback(process.communicate)
    stack.callback(process.kill)
    assert output(process).readline() == "ready\n"
    return process


def output(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("begin\n")
    process.stdin.flush()


def assert_tries_never_overlap(rows: list[JournalEvent]) -> None:
    """Of one message: after each try comes its end, and a lapse never before the lease was over (SPEC 3.5)."""
    tried_at_ms: int | None = None
    for row in rows:
        if row.kind is JournalKind.ATTEMPTED:
            assert tried_at_ms is None, "leased while another owner held it"
            tried_at_ms = row.at_ms
        elif row.kind in (JournalKind.RETRIED, JournalKind.SENT):
            assert tried_at_ms is not None
            if row.code == "lease_expired":
                assert row.at_ms >= tried_at_ms + LEASE_MS
            tried_at_ms = None


@clause("3.5", "1.4")
def test_two_processes_never_hold_the_same_entry_and_deliver_each_once(tmp_path: Path) -> None:
    path = tmp_path / "client.db"
    file = open_client_file(path, settings=HURRIED)
    with file.database.transaction():
        for number in range(MESSAGES):
            new = fresh(number)
            accept(file.outbox, new, now_ms=new.created_at_ms)
    with ExitStack() as stack:
        processes = [started(stack, "lease", path, owner) for owner in OWNERS]
        for process in processes:
            begin(process)
        firsts = [output(process).readline() for process in processes]
        assert all(firsts), "one process had nothing to do: nothing was shown"
        for process in processes:
            begin(process)
        rests = [process.communicate(timeout=60)[0] for process in processes]
        said = [(first + rest).split("\n")[:-1] for first, rest in zip(firsts, rests, strict=True)]
        assert [process.returncode for process in processes] == [0, 0]
    tries = Counter(line for lines in said for line in lines)
    assert set(tries.values()) == {1}, "the same try was leased twice"
    by_message: dict[MessageId, list[JournalEvent]] = defaultdict(list)
    for fact in facts(file.journal):
        assert fact.message_id is not None
        by_message[fact.message_id].append(fact)
    for rows in by_message.values():
        assert_tries_never_overlap(rows)
        kinds = Counter(row.kind for row in rows)
        assert (kinds[JournalKind.SENT], kinds[JournalKind.DELIVERED]) == (1, 1)
    attempted = [fact for fact in facts(file.journal) if fact.kind is JournalKind.ATTEMPTED]
    assert {f"{(fact.message_id or b'').hex()} {fact.attempt}" for fact in attempted} == set(tries)
    assert len(attempted) > MESSAGES
    assert states_by_journal(file.journal) == {message(number): State.DELIVERED for number in range(MESSAGES)}
    assert_books_balance(file)
    file.database.close()


def accept_until_killed(path: Path, *, first: int, after: int) -> list[MessageId]:
    """The ids that a process with 64 concurrent senders said, killed some time after it had said `after` of them."""
    with ExitStack() as stack:
        process = started(stack, "accept", path, str(first))
        begin(process)
        said = [output(process).readline() for _ in range(after)]
        process.kill()
        said += output(process).readlines()
    return [MessageId(bytes.fromhex(line)) for line in said if line.endswith("\n")]


@clause("3.2", "3.11", "1.3")
def test_every_id_that_a_killed_process_said_after_its_group_commit_is_on_disk(tmp_path: Path) -> None:
    moments = random.Random(20_260_102)  # noqa: S311 - where the kill falls, not a secret
    path = tmp_path / "client.db"
    said: list[MessageId] = []
    for kills in range(1, 4):
        said += accept_until_killed(path, first=kills * 1_000_000, after=moments.randint(1, 400))
        file = open_client_file(path, settings=HURRIED)
        held = {one.message_id for one in file.outbox.entries(limit=1_000_000)}
        assert set(said) <= held
        assert len(held) <= len(said) + kills * 2 * SENDERS  # committed, but killed before it could be said
        assert len(said) == len(set(said))
        numbers = [event_number(fact.event_id) for fact in facts(file.journal)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert_books_balance(file)
        assert file.database.run("PRAGMA integrity_check") == [("ok",)]
        file.database.close()

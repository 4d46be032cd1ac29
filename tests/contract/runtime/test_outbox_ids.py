"""An entry is found by its id wherever it lies, and no id is given twice: no table forbids that, only the look-up."""

import contextlib
import re
from collections.abc import Iterator

import apsw
import pytest

from restante.core.outbox_events import Cancelled, Recovered
from restante.model.errors import DuplicateMessageId
from restante.runtime.sqlite.file.database import load_queries
from restante.runtime.sqlite.outbox.id_index import BLOCK_BITS
from restante.runtime.sqlite.outbox.queries import OutboxQueries
from support.fleet.journal_files import message
from support.outbox.entries import accept, entry
from support.sqlite.files import NOW_MS, ClientFile, open_client_file, states_by_rows

OLD, NEW, UNFILED, UNKNOWN = 1, 2, 3, 4  # ids that are alike in their first five bytes
BY_ID = [
    ("outbox", "load_entry"),
    ("outbox", "find_number"),
    ("outbox", "is_known"),
    ("outbox_reading", "find_number"),
    ("outbox_reading", "ids_between"),
]


@pytest.fixture
def blocks(file: ClientFile) -> ClientFile:
    """An entry in the first block, one in the third, and one that is not filed yet."""
    accept(file.outbox, entry(OLD))
    file.outbox.sweep(now_ms=NOW_MS)
    skip_two_blocks(file)
    accept(file.outbox, entry(NEW))
    file.outbox.sweep(now_ms=NOW_MS)
    accept(file.outbox, entry(UNFILED))
    return file


@pytest.fixture
def other(blocks: ClientFile) -> Iterator[ClientFile]:
    """The same file as another process has it open."""
    made = open_client_file(blocks.database.path, seed=2)
    yield made
    made.database.close()


def skip_two_blocks(file: ClientFile) -> None:
    """As if another process had written so many facts meanwhile."""
    with contextlib.closing(apsw.Connection(str(file.database.path))) as connection:
        connection.execute(
            "INSERT INTO journal (number, at_ms, kind) VALUES ((SELECT max(number) FROM fact) + ?, 0, 'security')",
            (2 << BLOCK_BITS,),
        )


def blocks_of(file: ClientFile) -> list[int]:
    rows = file.database.run("SELECT insertion FROM outbox ORDER BY insertion")
    return [insertion >> BLOCK_BITS for (insertion,) in rows]


@pytest.mark.parametrize("number", [OLD, NEW, UNFILED])
def test_an_id_is_found_and_refused_in_whatever_block_it_lies(blocks: ClientFile, number: int) -> None:
    assert blocks_of(blocks) == [0, 2]
    found = blocks.outbox.load(message(number))
    assert found is not None
    assert (found.message_id, found.payload) == (message(number), b"payload %d" % number)
    before = states_by_rows(blocks.database)
    with pytest.raises(DuplicateMessageId):
        accept(blocks.outbox, entry(number, payload=b"another"))
    assert states_by_rows(blocks.database) == before
    assert blocks.outbox.load(message(number)) == found


def test_an_id_like_those_that_are_known_is_not_taken_for_one_of_them(blocks: ClientFile) -> None:
    assert blocks.outbox.load(message(UNKNOWN)) is None
    assert blocks.outbox.apply(message(UNKNOWN), Cancelled(), now_ms=NOW_MS) == ()
    accept(blocks.outbox, entry(UNKNOWN))
    assert len(states_by_rows(blocks.database)) == 4


@pytest.mark.parametrize("number", [OLD, NEW, UNFILED])
def test_another_process_finds_and_refuses_it_too(other: ClientFile, number: int) -> None:
    assert other.outbox.load(message(number)) is not None
    with pytest.raises(DuplicateMessageId):
        accept(other.outbox, entry(number, payload=b"another"))


def test_blocks_that_another_process_began_are_asked(blocks: ClientFile, other: ClientFile) -> None:
    assert other.outbox.load(message(OLD)) is not None  # which blocks there are is known from now on
    skip_two_blocks(blocks)
    accept(blocks.outbox, entry(UNKNOWN))
    blocks.outbox.sweep(now_ms=NOW_MS)
    assert blocks_of(blocks) == [0, 2, 2, 4]
    with pytest.raises(DuplicateMessageId):
        accept(other.outbox, entry(UNKNOWN, payload=b"another"))


def test_entries_filed_together_into_two_blocks_and_one_recovered_into_a_third_are_found(blocks: ClientFile) -> None:
    blocks.outbox.apply(message(OLD), Cancelled(), now_ms=NOW_MS)
    accept(blocks.outbox, entry(UNKNOWN))
    skip_two_blocks(blocks)
    accept(blocks.outbox, entry(5))
    skip_two_blocks(blocks)
    assert blocks.outbox.load(message(NEW)) is not None
    blocks.outbox.apply(message(OLD), Recovered(), now_ms=NOW_MS)
    assert blocks_of(blocks) == [2, 2, 2, 4, 6]
    for number in (OLD, NEW, UNFILED, UNKNOWN, 5):
        with pytest.raises(DuplicateMessageId):
            accept(blocks.outbox, entry(number, payload=b"another"))


def test_an_operator_finds_a_message_by_its_first_digits_in_whatever_block_it_lies(blocks: ClientFile) -> None:
    reading = OutboxQueries(blocks.database, blocks.outbox.dead_letters)
    assert reading.ids_starting("00", limit=9) == [message(OLD), message(NEW), message(UNFILED)]
    for number in (OLD, NEW, UNFILED):
        assert reading.ids_starting(message(number).hex()[:12], limit=9) == [message(number)]
        found = reading.one_waiting(message(number))
        assert found is not None
        assert found.entry.message_id == message(number)
    assert reading.one_waiting(message(UNKNOWN)) is None


@pytest.mark.parametrize(("queries", "name"), BY_ID)
def test_a_look_up_reads_no_more_of_a_block_than_the_index_says(file: ClientFile, queries: str, name: str) -> None:
    statement = load_queries(queries)[name]
    values = [None] * len(set(re.findall(r"[?:]\w+", statement)))
    steps = file.database.rows(f"EXPLAIN QUERY PLAN {statement}", *values)
    plan = [step[3] for step in steps if "outbox" in step[3].split()]
    assert [step for step in plan if "outbox_id (<expr>=? AND <expr>" in step]
    assert "SCAN outbox" not in plan

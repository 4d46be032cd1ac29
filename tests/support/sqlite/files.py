"""The database files of clients and nodes, for tests: opened as the hosts open them, and read as an auditor would."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from restante.crypto.identity import Identity
from restante.crypto.storage_seal import StorageSeal
from restante.model.ids import MessageId
from restante.model.journal import STATE_AFTER, JournalEvent, JournalKind
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import State
from restante.policy.settings import Settings
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.inbox.store import SqliteInbox
from restante.runtime.sqlite.mailbox.store import SqliteMailbox
from restante.runtime.sqlite.outbox.row_codec import state_columns
from restante.runtime.sqlite.outbox.store import SqliteOutbox
from restante.testing.deterministic import SeededEntropy
from support.fleet.journal_files import message

NOW_MS = 1_800_000_000_000
DEFAULTS = Settings()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFile:
    database: Database
    journal: Journal
    outbox: SqliteOutbox
    inbox: SqliteInbox


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFile:
    database: Database
    journal: Journal
    mailbox: SqliteMailbox


def open_client_file(
    path: Path, *, settings: Settings = DEFAULTS, owner: Identity | None = None, seed: int = 1
) -> ClientFile:
    """A client's file; `owner` only matters where something is sealed or tagged."""
    identity = owner or Identity(bytes(32))
    entropy = SeededEntropy(seed)
    database = Database(path, schema="client")
    journal = Journal(database, entropy)
    return ClientFile(
        database=database,
        journal=journal,
        outbox=SqliteOutbox(database, journal, settings),
        inbox=SqliteInbox(
            database,
            journal,
            settings,
            seal=StorageSeal(identity.storage_key),
            entropy=entropy,
            tag_secret=identity.tag_secret,
        ),
    )


def open_node_file(path: Path, *, seed: int = 1) -> NodeFile:
    database = Database(path, schema="node")
    journal = Journal(database, SeededEntropy(seed))
    return NodeFile(
        database=database, journal=journal, mailbox=SqliteMailbox(database, journal, tag_secret=b"a node's tag secret")
    )


def place(file: ClientFile, *entries: OutboxEntry) -> None:
    """Put entries of any state into the outbox; their journal says only that they were accepted."""
    for one in entries:
        file.outbox.accept(one._replace(state=State.PENDING, lease=None, times_stored=0), now_ms=one.queued_at_ms)
        _set_state(file, one)
    file.outbox.take_changes()


def _set_state(file: ClientFile, one: OutboxEntry) -> None:
    store_state = load_queries("outbox/store")["store_state"]
    with file.database.transaction():
        [(number,)] = file.database.rows("SELECT queue_number FROM outbox WHERE message_id = ?", one.message_id)
        file.database.rows(store_state, *state_columns(one), number)
        lane = file.outbox._lanes.get(one.route, one.lane)
        assert lane is not None
        file.outbox._cache.forget()
        file.outbox._lanes.change(lane, one._replace(queue_number=number))


def facts(journal: Journal) -> list[JournalEvent]:
    """All of them."""
    return journal.events(after=0, limit=1_000_000)


def states_by_journal(journal: Journal) -> dict[MessageId, State]:
    """Where each message is, as told by the facts alone."""
    states: dict[MessageId, State] = {}
    for fact in facts(journal):
        if fact.message_id is not None and fact.kind in STATE_AFTER:
            states[fact.message_id] = STATE_AFTER[fact.kind]
    return states


def states_by_rows(database: Database) -> dict[MessageId, State]:
    """Where each message is that still has a row: in the outbox, or among the dead letters and tombstones."""
    alive = database.run("SELECT message_id, state FROM outbox")
    ended = database.run(
        "SELECT message_id, CASE category WHEN 'expired' THEN 'expired' ELSE 'dead' END FROM dead_letter"
    )
    places = Counter(message_id for message_id, _ in alive + ended)
    assert set(places.values()) <= {1}, "a message is in two places at once"
    return {MessageId(message_id): State(state) for message_id, state in alive + ended}


def assert_books_balance(file: ClientFile) -> None:
    """SPEC 1.4: each accepted message is in one state, and the journal and the tables agree on which.

    Delivered and evicted messages leave no row: only the journal knows of them.
    """
    without_a_row = {State.DELIVERED, State.EVICTED}
    told = states_by_journal(file.journal)
    rows = states_by_rows(file.database)
    assert {message: state for message, state in told.items() if state not in without_a_row} == rows


def history(file: ClientFile, number: int) -> list[JournalKind]:
    """What the journal tells of one message."""
    return [fact.kind for fact in facts(file.journal) if fact.message_id == message(number)]


def chosen(file: ClientFile, *, now_ms: int = NOW_MS) -> MessageId | None:
    leased = file.outbox.lease_next(owner="me", now_ms=now_ms)
    return None if leased is None else leased.message_id

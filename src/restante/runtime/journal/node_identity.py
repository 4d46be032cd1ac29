"""A node says in its journal which node it is, so that its facts can be held against what it signed (SPEC 13.5)."""

from restante.model.ids import NodeId
from restante.model.journal import JournalKind
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal


def append_node_started(database: Database, journal: Journal, node: NodeId, *, now_ms: int) -> None:
    """To be called once for each start, before anything is stored. A node's id is public; no client writes this."""
    with database.transaction():
        journal.append(JournalKind.NODE_STARTED, at_ms=now_ms, node=node)

"""A node says in its journal which node it is, so that its facts can be held against what it signed (SPEC 13.5).

Its roles are in the file, too: commands that are run beside it need them (SPEC 13.6).
"""

from typing import Final

from restante.model.ids import NodeId
from restante.model.journal import JournalKind
from restante.model.node_descriptor import Role
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal

ROLES_KEY: Final = "roles"


def append_node_started(database: Database, journal: Journal, node: NodeId, *, roles: Role, now_ms: int) -> None:
    """To be called once for each start, before anything is stored. A node's id is public; no client writes this."""
    with database.transaction():
        journal.append(JournalKind.NODE_STARTED, at_ms=now_ms, node=node)
        journal.set_meta(ROLES_KEY, bytes([roles]))


def roles_at_last_start(journal: Journal) -> Role:
    """Return the roles with which the node started last; none if it never did."""
    kept = journal.get_meta(ROLES_KEY)
    return Role(kept[0]) if kept else Role(0)

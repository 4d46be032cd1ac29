"""What a client keeps of the mesh in SQLite: descriptors of nodes, and the buckets of its inboxes (SPEC 7.1, 7.5)."""

from collections.abc import Sequence
from typing import Final

from restante.core.mailbox_poll.buckets import Bucket, Phase
from restante.policy.mesh.time_buckets import FULL_SYNC_BUCKETS
from restante.runtime.sqlite.file.database import Database, load_queries

_SQL: Final = load_queries("mesh_state")


class MeshState:
    """Methods are called inside a transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def nodes(self) -> list[bytes]:
        """Return the descriptors that were kept last, as their nodes signed them."""
        return [descriptor for (descriptor,) in self._database.rows(_SQL["nodes"])]

    def keep_nodes(self, descriptors: Sequence[bytes]) -> None:
        """Keep these descriptors in place of the earlier ones."""
        self._database.rows(_SQL["forget_nodes"])
        for each in descriptors:
            self._database.rows(_SQL["add_node"], each)

    def buckets(self, inbox: str) -> dict[int, Bucket]:
        return {
            number: Bucket(
                number=number, phase=Phase(phase), next_read_at_ms=next_read_at_ms, reads_when_old=reads_when_old
            )
            for number, phase, next_read_at_ms, reads_when_old in self._database.rows(_SQL["buckets"], inbox)
        }

    def keep_buckets(self, inbox: str, buckets: Sequence[Bucket]) -> None:
        """Store the state of these buckets; forget those older than 30 days."""
        for each in buckets:
            row = (inbox, each.number, each.phase.value, each.next_read_at_ms, each.reads_when_old)
            self._database.rows(_SQL["store_bucket"], *row)
        if buckets:
            newest = max(each.number for each in buckets)
            self._database.rows(_SQL["drop_buckets"], inbox, newest - 2 * FULL_SYNC_BUCKETS)

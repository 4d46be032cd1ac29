"""The mesh of one node put together: its part of the file, what it knows, its writes and its frame family."""

from dataclasses import dataclass
from functools import partial
from typing import Final

from restante.crypto.identity import Identity
from restante.model.node_descriptor import FamilyCertificate, Role
from restante.node.mesh.family import MeshFamily
from restante.node.mesh.view import MeshView
from restante.node.mesh.writes import MeshWrites
from restante.policy.settings import Settings
from restante.ports.clock import Clock
from restante.ports.commit_queue import CommitQueue
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.mailbox.store import SqliteMailbox
from restante.runtime.sqlite.mesh.records import SqliteMeshRecords
from restante.runtime.sqlite.mesh.store import DamagedMeshBlob, SqliteMeshStore

COLLECTED_AT_ONCE: Final = 1_000  # blobs deleted in one commit: a long sweep must not stop the puts
SCRUBBED_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshIdentity:
    """Who the node is in the mesh. `is_private`: see `mesh.network` in the configuration."""

    identity: Identity
    roles: Role
    certificate: FamilyCertificate | None = None
    is_private: bool = False


class MeshService:
    """`commits` is the one writer of the file. The mailboxes of the node share its total (SPEC 6.6)."""

    def __init__(
        self,
        own: MeshIdentity,
        database: Database,
        journal: Journal,
        mailbox: SqliteMailbox,
        commits: CommitQueue,
        *,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._commits = commits
        self._quota = settings.mailbox
        self.store = SqliteMeshStore(
            database,
            journal,
            tag_secret=own.identity.tag_secret,
            sources=mailbox.sources,
            elsewhere_bytes=mailbox.total_bytes,
        )
        mailbox.share_total(self.store.total_bytes)
        self.records = SqliteMeshRecords(database, journal, self.store)
        self.view = MeshView(
            own.identity, roles=own.roles, clock=clock, certificate=own.certificate, is_private=own.is_private
        )
        self.writes = MeshWrites(
            own.identity,
            self.store,
            commits,
            quota=settings.mailbox,
            limits=settings.relay,
            now_ms=self.view.now_ms,
            stamp_ms=self.view.stamp_ms,
        )
        self.family = MeshFamily(
            self.view,
            self.store,
            self.records,
            self.writes,
            quota=settings.mailbox,
            limits=settings.relay,
        )
        self._scrubbed_through = 0

    def close(self) -> None:
        self.store.close()

    async def collect_garbage(self) -> int:
        """Delete what is expired, and hashes that are no longer needed (SPEC 7.7); return how many blobs.

        By the slower of network time and own clock: liars who move network time must not delete mail.
        """
        now_ms, collected = min(self.view.now_ms(), self.view.own_clock_ms()), 0
        while True:
            collect = partial(self.store.collect_garbage, now_ms=now_ms, limit=COLLECTED_AT_ONCE)
            some = await self._commits.run(collect)
            collected += some
            if some < COLLECTED_AT_ONCE:
                break
        await self._commits.run(partial(self.records.collect_garbage, now_ms=now_ms, quota=self._quota))
        self.family.counters.blobs_collected += collected
        return collected

    def scrub_some(self) -> bool:
        """Check the next blobs against their hashes (SPEC 6.3); return whether the end of the store was reached."""
        damaged, following = self.store.scrub(self._scrubbed_through, limit=SCRUBBED_AT_ONCE)
        self._scrubbed_through = following or 0
        if damaged:
            self.family.report_damaged(damaged)
        return following is None

    async def remove_damaged(self, damaged: list[DamagedMeshBlob]) -> None:
        """Journal damaged blobs and remove them; the next round with the neighbours brings them again."""
        await self._commits.run(partial(self.store.remove_damaged, damaged, now_ms=self.view.now_ms()))

"""DELETEs in parts: all hashes in one commit would hold it for milliseconds, and what others put with it (SPEC 6.8)."""

from typing import Final, Protocol

from restante.model.ids import InboxKey, PayloadHash
from restante.model.sources import Source
from restante.node.frame_family import Peer
from restante.node.mesh.view import MeshView
from restante.node.mesh.writes import ChangeWork
from restante.policy.mesh.placement import RESPONSIBLE_WITHIN
from restante.policy.mesh.time_buckets import takes_block
from restante.policy.quota import MailboxQuota
from restante.runtime.sqlite.mesh.store import SqliteMeshStore
from restante.wire.frames.mesh_reading import MeshDelete, MeshDeleted
from restante.wire.mesh_keys import mesh_inbox_key

HASHES_A_COMMIT: Final = 64  # of one DELETE: as much as one turn of a source


class DeletingFamily(Protocol):
    """What a DELETE needs of the family that it belongs to."""

    @property
    def view(self) -> MeshView: ...

    @property
    def store(self) -> SqliteMeshStore: ...

    @property
    def quota(self) -> MailboxQuota: ...

    def deleted(self, key: InboxKey, hashes: list[PayloadHash]) -> None: ...


def delete_work(family: DeletingFamily, frame: MeshDelete, *, peer: Peer, source: Source, request: int) -> ChangeWork:
    """Return the first part. Each goes on with the next one, and the last one answers."""
    key, now_ms = mesh_inbox_key(frame.blinded, frame.bucket), family.view.now_ms()
    hashes = [PayloadHash(each) for each in frame.hashes]

    def part(begin: int) -> ChangeWork:
        some = hashes[begin : begin + HASHES_A_COMMIT]

        def change() -> MeshDeleted | ChangeWork:
            if family.store.holds(key) or _keeps_hashes(family.view, key, frame.bucket, now_ms):
                gone = family.store.delete(frame.blinded, frame.bucket, key, some, quota=family.quota, now_ms=now_ms)
                family.deleted(key, gone)
            following = begin + HASHES_A_COMMIT
            return part(following) if following < len(hashes) else MeshDeleted()

        return ChangeWork(peer, source, request, change, 64 * len(some), rows=len(some))

    return part(0)


def _keeps_hashes(view: MeshView, key: InboxKey, bucket: int, now_ms: int) -> bool:
    """Return whether hashes of deleted blobs are kept under a key that this node does not hold (SPEC 7.4)."""
    return takes_block(bucket, now_ms=now_ms) and view.rank(key, within=RESPONSIBLE_WITHIN) is not None

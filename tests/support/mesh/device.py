"""A device that reads its public inbox from the mesh, without a client's file."""

from collections.abc import Collection, Sequence

from restante.client.mesh.directory import MeshDirectory
from restante.client.mesh.inbox_nodes import InboxNodes
from restante.client.mesh.inbox_poll import InboxPoll
from restante.client.mesh.receiving import Receiving
from restante.client.places.reading import PUBLIC_INBOX
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.crypto.identity import Identity
from restante.model.ids import PayloadHash
from restante.ports.relay_connection import StoredBlob
from restante.runtime.system import SystemEntropy
from restante.wire.envelope import decode_envelope


class Device:
    """A new device of the owner: it has read nothing yet. Bodies count when they are verified by their hash."""

    def __init__(self, owner: Identity, directory: MeshDirectory, *, since: int | None = None) -> None:
        self.bodies: list[bytes] = []
        self.nodes = InboxNodes(
            OwnInbox(owner),
            PUBLIC_INBOX,
            directory,
            entropy=SystemEntropy(),
            on_pushed=self._ignore,
            on_lost=lambda _: None,
        )
        self.receiving = Receiving(self._take, delete=self.nodes.delete, five=self.nodes.five, now_ms=directory.now_ms)
        self.poll = InboxPoll(self.nodes, self.receiving, since=since, accuse=self._ignore)

    async def _take(self, blobs: Sequence[StoredBlob]) -> Collection[PayloadHash]:
        self.bodies += [decode_envelope(each.envelope).sealed for each in blobs]
        return ()

    async def _ignore(self, _: object) -> None:
        return

    async def close(self) -> None:
        await self.poll.close()
        await self.nodes.close()
        await self.receiving.close()

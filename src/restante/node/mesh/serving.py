"""Reading on one connection of the mesh family: lists, subscriptions, bodies and what neighbours compare.

Everything here reads what is committed. A damaged blob is reported and never sent (SPEC 6.3).
"""

from collections.abc import Iterator
from typing import Final, Protocol

from restante.core.link.windows import WINDOW_BLOBS, WINDOW_BYTES
from restante.core.mesh_proofs.connection_proofs import CheckedProofs
from restante.core.mesh_proofs.reading import answer_for, sign_done
from restante.core.replication.serving import Phase, is_complete
from restante.model.ids import InboxKey, PayloadHash
from restante.model.node_descriptor import NodeDescriptor
from restante.node.frame_family import Peer
from restante.node.mesh.answers import AnswerQueue
from restante.node.mesh.view import MeshView
from restante.policy.mesh.bounds import MOST_PROVED_KEYS
from restante.policy.mesh.placement import COMPLETE_WITHIN, RESPONSIBLE_WITHIN, place
from restante.runtime.sqlite.mesh.records import SqliteMeshRecords
from restante.runtime.sqlite.mesh.store import DamagedMeshBlob, SqliteMeshStore
from restante.wire.frames.mesh import encode_mesh_frame
from restante.wire.frames.mesh_reading import Fetch, FetchEntry, KeyAnswer, Listed, MeshSubscribe
from restante.wire.frames.mesh_replication import Block, Have, HaveDone, HaveList, KeySummary, Want, WantDone
from restante.wire.frames.mesh_storage import Record
from restante.wire.frames.mesh_types import MAX_HASHES
from restante.wire.mesh_keys import mesh_inbox_key

MOST_COMPARED: Final = 1_024
"""Own keys that one HAVE is compared with; the rest of its range waits for the next one."""
MOST_LISTED_AT_ONCE: Final = 16_384
"""Hashes after which the answer to a HAVE ends. The neighbour goes on behind the last key."""
PUSHED_AT_ONCE: Final = 32
CHECKED_A_TURN: Final = 16
"""Signatures of one large request that are checked in one turn: about a millisecond."""


class Reported(Protocol):
    """What the family is told by its connections."""

    def report_damaged(self, damaged: list[DamagedMeshBlob]) -> None: ...

    def served(self, blobs: int) -> None: ...


class ServingConnection:
    def __init__(
        self,
        peer: Peer,
        view: MeshView,
        store: SqliteMeshStore,
        records: SqliteMeshRecords,
        family: Reported,
    ) -> None:
        self._peer = peer
        self._view = view
        self._store = store
        self._records = records
        self._family = family
        self.answers = AnswerQueue(peer, self._push)
        self._checked: CheckedProofs | None = None
        self.proved: dict[InboxKey, None] = {}
        self.subscribed: dict[InboxKey, int] = {}
        """Subscribed keys, each with the last number that was listed or pushed."""
        self._news: set[InboxKey] = set()
        self._unread: dict[PayloadHash, int] = {}
        """Pushed blobs that were not deleted yet, with their sizes: the window of a subscription."""

    def has_news(self, key: InboxKey) -> None:
        """Mail was stored under a subscribed key."""
        self._news.add(key)
        self.answers.continue_()

    def was_read(self, hashes: list[PayloadHash]) -> None:
        """The owner deleted blobs: the window of pushes opens."""
        for each in hashes:
            self._unread.pop(each, None)
        if self._news:
            self.answers.continue_()

    def check_some(self, question: Fetch | MeshSubscribe) -> bool:
        """Check some of the signatures; return whether `are_proved` has few left."""
        return self._proofs.check_some(question.entries, question.TYPE, most=CHECKED_A_TURN)

    def are_proved(self, question: Fetch | MeshSubscribe) -> bool:
        """Return whether the owner signed every entry on this connection."""
        return self._proofs.are_valid(question.entries, question.TYPE)

    @property
    def _proofs(self) -> CheckedProofs:
        if self._checked is None:
            self._checked = CheckedProofs(challenge=self._peer.hello.challenge, connection=self._peer.binding)
        return self._checked

    def list(self, question: Fetch | MeshSubscribe, request: int) -> None:
        keys = [mesh_inbox_key(each.blinded, each.bucket) for each in question.entries]
        for key in keys:
            self.proved.pop(key, None)
            self.proved[key] = None
        while len(self.proved) > MOST_PROVED_KEYS:
            oldest = next(iter(self.proved))
            del self.proved[oldest]
            self.subscribed.pop(oldest, None)
        self.answers.add(self._lists(question.entries, request, subscribes=isinstance(question, MeshSubscribe)))

    def want(self, question: Want, request: int) -> None:
        self.answers.add(self._blobs(question, request))

    def have(self, question: Have, request: int, neighbour: NodeDescriptor) -> None:
        self.answers.add(self._compared(question, request, neighbour))

    def _lists(self, entries: tuple[FetchEntry, ...], request: int, *, subscribes: bool) -> Iterator[bytes]:
        answers: list[KeyAnswer] = []
        began_ms = self._view.stamp_ms()  # what is stored from now on may be missing: the stamp must not say more
        for entry in entries:
            key = mesh_inbox_key(entry.blinded, entry.bucket)
            blobs = self._store.listed(key, after=entry.after, now_ms=self._view.now_ms())
            last = blobs[-1].number if blobs else entry.after
            hashes = [each.payload_hash for each in blobs]
            for start in range(0, len(blobs), MAX_HASHES):
                page = blobs[start : start + MAX_HASHES]
                listed = Listed(inbox_key=key, last=page[-1].number, hashes=tuple(hashes[start : start + MAX_HASHES]))
                yield encode_mesh_frame(listed, request)
            rank = self._view.rank(key, within=COMPLETE_WITHIN)
            complete = is_complete(self._view.serving, rank)
            answers.append(answer_for(key, hashes, after=entry.after, last=last, is_complete=complete))
            if subscribes and key in self.proved:
                self.subscribed[key] = last
                self._news.add(key)  # what was stored while this list was sent
        yield encode_mesh_frame(sign_done(self._view.identity, answers, now_ms=began_ms), request)

    def _blobs(self, question: Want, request: int) -> Iterator[bytes]:
        missing: list[bytes] = []
        for each in question.hashes:
            block = self._block(question.inbox_key, PayloadHash(each))
            if block is None:
                missing.append(each)
            else:
                self._family.served(1)
                yield encode_mesh_frame(block, request)
        if len(missing) == len(question.hashes):
            record = self._records.get(question.inbox_key)  # no key has both
            if record is not None:
                yield encode_mesh_frame(Record(record=record), request)
                missing.clear()
        yield encode_mesh_frame(WantDone(missing=tuple(missing)), request)

    def _block(self, key: InboxKey, payload_hash: PayloadHash) -> Block | None:
        blocks, damaged = self._store.read(key, [payload_hash], now_ms=self._view.now_ms())
        if damaged:
            self._family.report_damaged(damaged)
        return blocks[0] if blocks else None

    def _compared(self, question: Have, request: int, neighbour: NodeDescriptor) -> Iterator[bytes]:
        """Yield lists of the keys of the range that differ and that this neighbour is responsible for."""
        theirs = {each.inbox_key: each for each in question.summaries}
        own = self._store.summaries(question.low, question.high, limit=MOST_COMPARED)
        through, listed = question.high, 0
        for summary in own:
            if theirs.get(summary.inbox_key) != summary and self._concerns(summary, neighbour):
                hashes = self._store.live_hashes(summary.inbox_key, now_ms=self._view.now_ms())
                for start in range(0, len(hashes), MAX_HASHES):
                    page = tuple(hashes[start : start + MAX_HASHES])
                    is_last = start + MAX_HASHES >= len(hashes)
                    yield encode_mesh_frame(
                        HaveList(inbox_key=summary.inbox_key, is_last=is_last, hashes=page), request
                    )
                listed += len(hashes)
            if listed >= MOST_LISTED_AT_ONCE:
                through = summary.inbox_key
                break
        else:
            if len(own) == MOST_COMPARED:
                through = own[-1].inbox_key
        if (
            question.is_offer
            and not listed
            and not (own == list(question.summaries) and self._concerns(own[0], neighbour))
        ):
            yield encode_mesh_frame(HaveList(inbox_key=InboxKey(question.low), is_last=True, hashes=()), request)
        yield encode_mesh_frame(HaveDone(through=through), request)

    def _concerns(self, summary: KeySummary, neighbour: NodeDescriptor) -> bool:
        """Return whether both nodes are among the 16 closest of the key (SPEC 7.9).

        A node that leaves is in no placement. Its neighbours fetch what it holds, and it sees what others hold.
        """
        closest = {each.node_id for each in place(self._view.index(), summary.inbox_key, RESPONSIBLE_WITHIN)}
        is_ours = self._view.own.node_id in closest or self._view.serving.phase is Phase.LEAVING
        is_theirs = neighbour.node_id in closest or neighbour.issued_at_ms == neighbour.expires_at_ms
        return is_theirs and is_ours

    def _push(self) -> bytes | None:
        """Return the next blobs of subscribed keys, as far as the window allows."""
        while self._news and len(self._unread) < WINDOW_BLOBS and sum(self._unread.values()) < WINDOW_BYTES:
            key = next(iter(self._news))
            after = self.subscribed.get(key)
            listed = [] if after is None else self._store.listed(key, after=after, now_ms=self._view.now_ms())
            if not listed:
                self._news.discard(key)
                continue
            frames: list[bytes] = []
            for each in listed[:PUSHED_AT_ONCE]:
                self.subscribed[key] = each.number
                block = self._block(key, each.payload_hash)
                if block is not None:
                    self._unread[each.payload_hash] = len(block.envelope)
                    frames.append(encode_mesh_frame(block, 0))
            if frames:
                self._family.served(len(frames))
                return b"".join(frames)
        return None

"""The mesh family on one connection: what each frame of a client or node leads to (SPEC 7, docs/protocol/mesh.md).

Reading, pushing and replication are in `serving`, commits in `writes`. Every answer is bounded, and whatever needs a
signature checked costs the connection a token.
"""

from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Final, Protocol

from restante.core.mailbox import check_put as check_envelope_of_put
from restante.core.mesh_proofs.descriptors import verify_descriptor
from restante.core.mesh_proofs.reading import is_delete_by_owner
from restante.core.mesh_proofs.records import newer_record, verify_record
from restante.core.replication.responsibility import Take, TakeVerdict, check_put, check_record
from restante.crypto.identity import is_signed_by
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.model.ids import InboxKey, NodeKey
from restante.model.node_descriptor import Endpoint, NodeDescriptor, Role
from restante.model.sources import Source
from restante.node.frame_family import Peer
from restante.node.mesh.counters import MeshCounters
from restante.node.mesh.deletes import DeletingFamily, delete_work
from restante.node.mesh.serving import ServingConnection
from restante.node.mesh.writes import ChangeWork, MeshWrites, PutWork
from restante.policy.mesh.bounds import DirectoryCopies, EntryTokens, delete_cost
from restante.policy.mesh.placement import RESPONSIBLE_WITHIN, place
from restante.policy.mesh.time_buckets import record_expires_at_ms
from restante.policy.quota import Refusal
from restante.runtime.sqlite.mesh.records import SqliteMeshRecords
from restante.runtime.sqlite.mesh.store import DamagedMeshBlob, MeshKeep
from restante.wire.descriptors import encode_descriptor
from restante.wire.envelope_parser import parse_envelope
from restante.wire.frames.codec import RawFrame
from restante.wire.frames.mesh import MeshFrame, decode_mesh_body, encode_mesh_frame
from restante.wire.frames.mesh_directory import (
    MAX_PAGE,
    Authenticate,
    DescriptorTaken,
    DirectoryPage,
    FindNode,
    Nodes,
    PublishDescriptor,
    SyncDirectory,
    authenticate_to_sign,
)
from restante.wire.frames.mesh_reading import Fetch, MeshDelete, MeshSubscribe
from restante.wire.frames.mesh_replication import Have, KeySummary, Want
from restante.wire.frames.mesh_storage import GetRecord, MeshPut, NotResponsible, PutRecord, Record, WrongBucket
from restante.wire.frames.mesh_types import MAX_CONTACTS
from restante.wire.inbox_keys import node_id_of
from restante.wire.mesh_keys import mesh_inbox_key, record_key_of

_MALFORMED: Final = Refusal(
    permanent=True, code=Code.MALFORMED, text="the inbox key does not follow from blinded key and bucket"
)


class Family(DeletingFamily, Protocol):
    """What a connection needs of the family that it belongs to."""

    @property
    def records(self) -> SqliteMeshRecords: ...

    @property
    def writes(self) -> MeshWrites: ...

    @property
    def counters(self) -> MeshCounters: ...

    def heard(self, descriptor: NodeDescriptor, source: Source) -> None: ...

    def offered(self, node: NodeDescriptor, summary: KeySummary) -> None: ...

    def subscribe(self, key: InboxKey, connection: "MeshFamilyConnection") -> bool: ...

    def unsubscribe(self, connection: "MeshFamilyConnection", keys: Sequence[InboxKey]) -> None: ...

    def report_damaged(self, damaged: list[DamagedMeshBlob]) -> None: ...

    def served(self, blobs: int) -> None: ...


class MeshFamilyConnection:
    """The mesh family on one connection. It puts or it proves an inbox, never both (SPEC 6.5)."""

    def __init__(self, family: Family, peer: Peer) -> None:
        self._family = family
        self._peer = peer
        self._view = family.view
        self.serving = ServingConnection(peer, family.view, family.store, family.records, family)
        self._node: NodeKey | None = None
        self._tokens: EntryTokens | None = None
        self._copies = DirectoryCopies()
        self._has_put = False
        self._keys: dict[InboxKey, None] = {}

    def handle(self, frames: Sequence[RawFrame], *, now_s: float) -> None:
        for frame in frames:
            decoded = decode_mesh_body(frame.type, frame.body)
            match decoded:
                case FindNode() | GetRecord() | SyncDirectory() if not self._peer.can_write:
                    self._refuse_unread(frame.request)
                case MeshPut():
                    self._put(decoded, frame.request)
                case FindNode():
                    self._find_node(decoded, frame.request)
                case GetRecord():
                    record = self._family.records.get(decoded.key)
                    self._send(Record(record=record or b""), frame.request)
                case SyncDirectory():
                    self._sync_directory(decoded, frame.request, now_s)
                case Want():
                    self._want(decoded, frame.request)
                case Have():
                    self._have(decoded, frame.request)
                case _:
                    self._handle_signed(decoded, frame.request, now_s)
        self.serving.answers.flush()

    def check_ahead(self, frame: RawFrame, *, now_s: float) -> bool:
        """Check some signatures of a large request, if there are tokens for it. Return whether `handle` is next."""
        question = decode_mesh_body(frame.type, frame.body)
        if not isinstance(question, Fetch | MeshSubscribe) or not self._entry_tokens(now_s).has(
            len(question.entries), now_s
        ):
            return True
        return self.serving.check_some(question)

    def window_opened(self) -> None:
        self.serving.answers.continue_()

    def lost(self) -> None:
        self.serving.answers.clear()
        self._family.unsubscribe(self, list(self._keys))

    def _handle_signed(self, frame: object, request: int, now_s: float) -> None:
        """Handle a frame whose signatures must be checked, if the connection has tokens for them."""
        cost, tokens = _cost_of(frame), self._entry_tokens(now_s)
        if not tokens.take(cost, now_s):
            text = "this connection asks for more signatures to be checked than it may"
            self._refuse(request, Code.RATE_LIMITED, text, retry_after_ms=tokens.wait_ms(cost))
            return
        match frame:
            case Fetch() | MeshSubscribe():
                self._list(frame, request)
            case MeshDelete():
                self._delete(frame, request)
            case PutRecord():
                self._put_record(frame, request)
            case PublishDescriptor():
                self._publish(frame, request)
            case Authenticate():
                self._authenticate(frame)
            case _:
                self._refuse(request, Code.ILLEGAL_TRANSITION, "this frame answers a request", permanent=True)

    def _entry_tokens(self, now_s: float) -> EntryTokens:
        if self._tokens is None:
            self._tokens = EntryTokens(now_s=now_s)
        return self._tokens

    def _authenticate(self, frame: Authenticate) -> None:
        to_sign = authenticate_to_sign(
            challenge=self._peer.hello.challenge,
            connection=self._peer.binding,
            server=self._view.identity.node_key,
            dialler=frame.node_key,
        )
        if not is_signed_by(frame.node_key, frame.signature, to_sign):
            self._end_badly(0, "the signature does not prove this node key")
            return
        self._node = self._peer.node_key = frame.node_key

    def _find_node(self, frame: FindNode, request: int) -> None:
        target = int.from_bytes(frame.target, "big")
        closest = self._view.table.closest(target, frame.want)
        with_own = sorted([*closest, self._view.own], key=lambda each: each.position ^ target)[: frame.want]
        found = tuple(encode_descriptor(each) for each in with_own if each.signature)
        self._send(Nodes(time_ms=self._view.own_clock_ms(), descriptors=found), request)

    def _sync_directory(self, frame: SyncDirectory, request: int, now_s: float) -> None:
        directory = self._view.directory
        if frame.cursor == 0 and frame.digest == directory.digest:
            self._send(DirectoryPage(next_cursor=0, is_last=True, digest=directory.digest, descriptors=()), request)
            return
        if not self._copies.may_send(frame.cursor, now_s):
            text = "one whole copy of the directory an hour, page by page"
            self._refuse(request, Code.RATE_LIMITED, text, retry_after_ms=self._copies.wait_ms(now_s))
            return
        page, following = directory.page(frame.cursor, MAX_PAGE)
        self._copies.sent(following)
        answer = DirectoryPage(
            next_cursor=following or 0,
            is_last=following is None,
            digest=directory.digest,
            descriptors=tuple(map(encode_descriptor, page)),
        )
        self._send(answer, request)

    def _publish(self, frame: PublishDescriptor, request: int) -> None:
        try:
            self._family.heard(verify_descriptor(frame.descriptor), self._source)
        except RestanteError as error:
            self._refuse(request, error.code, str(error), permanent=True)
            return
        host, port = self._peer.remote
        observed = Endpoint(ip_address(host).packed, port).unmapped()
        self._send(DescriptorTaken(time_ms=self._view.own_clock_ms(), observed=observed), request)

    def _put(self, frame: MeshPut, request: int) -> None:
        if not self._stores(request):
            return
        if self.serving.proved:
            self._refuse(
                request, Code.ILLEGAL_TRANSITION, "a connection that proved an inbox does not put", permanent=True
            )
            return
        self._has_put = True
        view, now_ms = self._view, self._view.now_ms()
        key = mesh_inbox_key(frame.blinded, frame.bucket)
        try:
            envelope_key, _, _ = parse_envelope(frame.envelope)
            kept = check_envelope_of_put(frame.envelope, quota=self._family.quota, now_ms=now_ms, source=self._source)
        except RestanteError as error:
            self._refuse(request, error.code, str(error), permanent=True)
            return
        if envelope_key != key:
            self._peer.refuse(request, _MALFORMED)
            return
        verdict = check_put(view.index(), view.own, key=key, bucket=frame.bucket, now_ms=now_ms)
        if verdict.take is not Take.ACCEPT:
            self._correct(verdict, request)
        elif isinstance(kept, Refusal):
            self._peer.refuse(request, kept)
        else:
            put = MeshKeep(frame.blinded, frame.bucket, kept)
            self._family.writes.add(PutWork(self._peer, self._source, request, put, is_of_node=self._node is not None))

    def _correct(self, verdict: TakeVerdict, request: int) -> None:
        """Tell the sender its wrong bucket by our time, or who is responsible (SPEC 7.10)."""
        if verdict.take is Take.WRONG_BUCKET:
            self._family.counters.wrong_bucket += 1
            self._send(WrongBucket(time_ms=self._view.now_ms()), request)
            return
        self._send_better(verdict.better, request)

    def _send_better(self, better: Sequence[NodeDescriptor], request: int) -> None:
        self._family.counters.not_responsible += 1
        if self._peer.can_write:
            raws = tuple(map(encode_descriptor, better[:MAX_CONTACTS]))
            self._send(NotResponsible(time_ms=self._view.now_ms(), descriptors=raws), request)
        else:
            self._refuse_unread(request)

    def _put_record(self, frame: PutRecord, request: int) -> None:
        if not self._stores(request):
            return
        try:
            record = verify_record(frame.record)
        except RestanteError as error:
            self._refuse(request, error.code, str(error), permanent=True)
            return
        now_ms, key = self._view.now_ms(), record_key_of(record.blinded)
        verdict = check_record(self._view.index(), self._view.own, key=key, period=record.period, now_ms=now_ms)
        if verdict.take is Take.WRONG_PERIOD:
            self._refuse(request, Code.OUT_OF_RANGE, "a record of this period is not kept, by this node's clock")
            return
        if verdict.take is not Take.ACCEPT:
            self._send_better(verdict.better, request)
            return
        operation = self._record_change(key, frame.record, record_expires_at_ms(record.period), now_ms)
        self._family.writes.add(ChangeWork(self._peer, self._source, request, operation, len(frame.record)))

    def _record_change(
        self, key: bytes, offered: bytes, expires_at_ms: int, now_ms: int
    ) -> Callable[[], MeshFrame | Refusal]:
        """Return the operation that keeps the newest record and answers with it."""
        records, quota, source = self._family.records, self._family.quota, self._source

        def change() -> MeshFrame | Refusal:
            held = records.newest(key)
            newest = newer_record(held, offered)
            if newest == held:
                return Record(record=newest)
            refused = records.put(key, newest, expires_at_ms=expires_at_ms, quota=quota, now_ms=now_ms, source=source)
            return refused or Record(record=newest)

        return change

    def _list(self, frame: Fetch | MeshSubscribe, request: int) -> None:
        if self._has_put or self._node is not None:
            self._refuse(
                request, Code.ILLEGAL_TRANSITION, "a connection that puts does not prove an inbox", permanent=True
            )
            return
        if not self.serving.are_proved(frame):
            self._end_badly(request, "the signature does not prove this inbox")
            return
        if self._is_busy(request):
            return
        if isinstance(frame, MeshSubscribe):
            keys = [mesh_inbox_key(each.blinded, each.bucket) for each in frame.entries]
            if not all(self._family.subscribe(key, self) for key in keys):
                self._family.unsubscribe(self, [key for key in keys if key not in self._keys])
                self._refuse(request, Code.RATE_LIMITED, "too many connections are subscribed to this inbox")
                return
            self._keys |= dict.fromkeys(keys)
        self.serving.list(frame, request)
        stale = [key for key in self._keys if key not in self.serving.proved]
        self._family.unsubscribe(self, stale)
        for key in stale:
            del self._keys[key]

    def _delete(self, frame: MeshDelete, request: int) -> None:
        if not is_delete_by_owner(frame):
            self._end_badly(request, "the signature does not prove this inbox")
            return
        self._family.writes.add(delete_work(self._family, frame, peer=self._peer, source=self._source, request=request))

    def _want(self, frame: Want, request: int) -> None:
        if frame.inbox_key not in self.serving.proved and not self._is_neighbour(frame.inbox_key):
            text = "bodies go to the owner who proved the key here, and to nodes among its 16 closest"
            self._refuse(request, Code.AUTHENTICATION_FAILED, text, permanent=True)
        elif not self._is_busy(request):
            self.serving.want(frame, request)

    def _have(self, frame: Have, request: int) -> None:
        sender = self._known_node()
        if sender is None:
            text = "only nodes of the directory with role storage compare what they hold"
            self._refuse(request, Code.AUTHENTICATION_FAILED, text)
        elif not self._is_busy(request):
            if frame.is_offer:
                self._family.offered(sender, frame.summaries[0])
            self.serving.have(frame, request, sender)

    def _is_neighbour(self, key: InboxKey) -> bool:
        sender = self._known_node()
        if sender is None:
            return False
        return any(each.node_id == sender.node_id for each in place(self._view.index(), key, RESPONSIBLE_WITHIN))

    def _known_node(self) -> NodeDescriptor | None:
        """Return the descriptor of the node at the other end, if it authenticated and stores mail."""
        if self._node is None:
            return None
        found = self._view.directory.get(node_id_of(self._node))
        return found if found is not None and Role.STORAGE in found.roles else None

    @property
    def _source(self) -> Source:
        """The unit of fair turns and shares: the network of a client, the key of a node (SPEC 6.6).

        A node that this one has not reached by dialling counts by its network: anybody can make keys.
        """
        found = None if self._node is None else self._view.directory.get(node_id_of(self._node))
        return self._peer.source if found is None or not self._view.table.lists(found) else Source(found.node_key)

    def _stores(self, request: int) -> bool:
        if Role.STORAGE in self._view.own.roles:
            return True
        self._refuse(request, Code.STORAGE_FAILED, "this node does not store mail of the mesh")
        return False

    def _is_busy(self, request: int) -> bool:
        if self.serving.answers.is_full:
            self._refuse_unread(request)
        return self.serving.answers.is_full

    def _refuse_unread(self, request: int) -> None:
        """Some answers have a hundred times the bytes of their questions: who does not read gets no more of them."""
        self._refuse(request, Code.RATE_LIMITED, "too many answers of this connection wait to be read")

    def _end_badly(self, request: int, text: str) -> None:
        """Refuse and close: each guess costs a new connection, because checking a signature is expensive."""
        self._refuse(request, Code.AUTHENTICATION_FAILED, text, permanent=True)
        self._peer.close()

    def _refuse(self, request: int, code: Code, text: str, *, permanent: bool = False, retry_after_ms: int = 0) -> None:
        self._peer.refuse(request, Refusal(permanent=permanent, code=code, text=text), retry_after_ms=retry_after_ms)

    def _send(self, frame: MeshFrame, request: int) -> None:
        self._peer.send(encode_mesh_frame(frame, request))


def _cost_of(frame: object) -> int:
    if isinstance(frame, MeshDelete):
        return delete_cost(len(frame.hashes))
    return len(frame.entries) if isinstance(frame, Fetch | MeshSubscribe) else 1

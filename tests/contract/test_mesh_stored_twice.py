"""The same sealed bytes in two buckets of one read: a sender stores a message without receipt again after a day (SPEC
3.14), and a node may list anything under any hour."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from restante.client.mesh.evidence import Accusation
from restante.client.mesh.inbox_nodes import ListedBucket
from restante.client.mesh.inbox_poll import InboxPoll
from restante.client.mesh.receiving import Receiving
from restante.core.mesh_proofs.reading import answer_for, sign_done
from restante.crypto.identity import Identity
from restante.model.ids import NodeId, PayloadHash
from restante.policy.mesh.time_buckets import bucket_at
from restante.ports.relay_connection import StoredBlob
from restante.wire.envelope import decode_envelope, hash_sealed_bytes
from restante.wire.inbox_keys import node_id_of
from support.mesh.running_nodes import NOW_MS, OpenInbox
from support.spec.clauses import clause

SEALED = b"the same sealed bytes"
HASH = hash_sealed_bytes(SEALED)
NOW = bucket_at(NOW_MS)
FIRST, AGAIN = NOW - 30, NOW - 5
IDENTITIES = {node_id_of(each.node_key): each for each in (Identity(bytes([number]) * 32) for number in range(1, 6))}
"""The five nodes, which are the same for each bucket."""


@dataclass
class Directory:
    def now_ms(self) -> int:
        return NOW_MS

    def storage_nodes(self) -> int:
        return len(IDENTITIES)

    async def find(self, _: object) -> list["Node"]:
        return [Node(each) for each in IDENTITIES]


@dataclass
class Node:
    node_id: NodeId


@dataclass
class Nodes:
    """Satisfies what a poll asks of `client.mesh.inbox_nodes.InboxNodes`. `lists` says what a node lists."""

    lists: Callable[[NodeId, int], bool]
    directory: Directory = field(default_factory=Directory)

    def key(self, bucket: int) -> object:
        return OpenInbox(bucket).key

    def subscriptions(self, _: int) -> int:
        return 0

    async def fetch_lists(self, node: NodeId, buckets: Sequence[int]) -> dict[int, ListedBucket]:
        listed = {each: (HASH,) if self.lists(node, each) else () for each in buckets}
        answers = [
            answer_for(OpenInbox(each).key, hashes, after=0, last=1, is_complete=True)
            for each, hashes in listed.items()
        ]
        done = sign_done(IDENTITIES[node], answers, now_ms=NOW_MS)
        return {each: ListedBucket(hashes, True, IDENTITIES[node].node_key, done) for each, hashes in listed.items()}

    async def want(
        self, _: NodeId, bucket: int, __: Sequence[PayloadHash], *, may_ask: Callable[[], bool]
    ) -> dict[PayloadHash, bytes]:
        assert may_ask()
        return {HASH: OpenInbox(bucket).envelope(SEALED)}


async def read(lists: Callable[[NodeId, int], bool]) -> tuple[int, list[Accusation]]:
    """How often the message was handed over, and what was journaled against nodes."""
    taken: list[StoredBlob] = []
    accusations: list[Accusation] = []

    async def take(blobs: Sequence[StoredBlob]) -> set[PayloadHash]:
        taken.extend(blobs)
        return {hash_sealed_bytes(decode_envelope(each.envelope).sealed) for each in blobs}

    async def delete(*_: object) -> None: ...

    async def accuse(found: list[Accusation]) -> None:
        accusations.extend(found)

    receiving = Receiving(take, delete=delete, five=lambda _: list(IDENTITIES), now_ms=lambda: NOW_MS)
    poll = InboxPoll(Nodes(lists), receiving, since=FIRST, accuse=accuse)  # type: ignore[arg-type] # a double
    await poll.poll()
    await receiving.close()
    return len(taken), accusations


@clause("3.14", "7.5")
async def test_a_message_that_was_stored_twice_is_received_once_though_a_node_lacks_the_second_copy() -> None:
    *_, lacking = IDENTITIES
    received, accusations = await read(lambda node, bucket: bucket == FIRST or (bucket == AGAIN and node != lacking))
    assert (received, accusations) == (1, [])


@clause("7.5")
async def test_a_node_that_lists_a_message_under_an_earlier_hour_too_does_not_end_the_read() -> None:
    """What others lack in that hour they never signed for, so that it is evidence against none of them."""
    liar, hides, *_ = IDENTITIES
    received, _ = await read(
        lambda node, bucket: (bucket == AGAIN and node != hides) or (bucket == AGAIN - 1 and node == liar)
    )
    assert received == 1

"""A small mesh over the real machines, and every step that it can take (NETWORK 5).

Four nodes and one that joins, two time buckets, one sender with one message, one recipient, crashes with and without
disk, restarts, and lost puts. In each read and in each round of replication at most one living node is too slow to
answer: that is what "4 of 5" is for.

Puts arrive and answers to one read come in the order of the placement, since the machines only count them. Crashes,
restarts, the join, rounds of replication and time may come between any two. The bucket without the message is left
out: it can break nothing.

A world may be parted: then the recipient reaches the last two nodes only, and the descriptors of the others have
expired there. It heals at any moment, at the latest a day after the buckets' end.
"""

import operator
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from restante.core import store_quorum
from restante.core.mailbox_poll import buckets, reading
from restante.core.mailbox_poll.buckets import Bucket, ReadFinished
from restante.core.replication import serving, sync_round
from restante.core.replication.responsibility import Take, check_put
from restante.core.replication.serving import Serving, SyncFinished, is_complete
from restante.core.replication.sync_round import missing_blobs
from restante.model.ids import InboxKey, NodeId, PayloadHash
from restante.policy.mesh.placement import (
    COMPLETE_WITHIN,
    MOST_TRIED,
    RESPONSIBLE_WITHIN,
    PlacementIndex,
    place,
    rank_of,
)
from restante.policy.mesh.time_buckets import DAY_MS, HOUR_MS, MINUTE_MS, bucket_at
from support.mesh.nodes import node

FIRST = 500_000
WRITE_QUORUM = 2  # SPEC 7.3, written down here a second time: a mutant of the machine must not change the property
END_MS = (FIRST + 2) * HOUR_MS
TIMES_MS = (
    FIRST * HOUR_MS + 30 * MINUTE_MS,
    END_MS + HOUR_MS + MINUTE_MS,
    END_MS + DAY_MS + MINUTE_MS,
)
"""In the first bucket, when first reads of both count, when second reads count."""
EXPIRY_MS = 2 * HOUR_MS
MESSAGE = PayloadHash(b"m" * 32)
DESCRIPTORS = tuple(node(number, issued_at_ms=0, ttl_ms=10**14) for number in range(5))
NUMBERS = {each.node_id: number for number, each in enumerate(DESCRIPTORS)}
KEYS = {bucket: InboxKey(bytes([bucket - FIRST + 1]) * 32) for bucket in (FIRST, FIRST + 1)}
RECIPIENTS_SIDE = frozenset({3, 4})
"""The nodes that the recipient reaches while the world is parted."""
DONE, _ = store_quorum.start((), bucket=0, now_ms=0)
SERVING = Serving(phase=serving.Phase.SERVING)


class Rules(NamedTuple):
    """The real rules; a mutant replaces one of them."""

    complete: Callable[[Serving, int | None], bool] = is_complete
    is_round_enough: Callable[[int, int], bool] = operator.eq
    """Whether a round with so many answers of so many living neighbours counts as synced."""


class NodeState(NamedTuple):
    is_alive: bool = True
    died_at_ms: int = 0
    held: frozenset[int] = frozenset()
    """The buckets in which the node holds the message."""
    deleted: frozenset[int] = frozenset()
    serving: Serving = SERVING


class World(NamedTuple):
    time: int = 0
    nodes: tuple[NodeState, ...] = (NodeState(),) * 4
    crashes: int = 2
    losses: int = 2
    store: store_quorum.StoreQuorum | None = None
    puts: tuple[int, ...] = ()
    buckets: tuple[Bucket, ...] = (Bucket(number=FIRST), Bucket(number=FIRST + 1))
    read: reading.Read | None = None
    read_bucket: int = 0
    read_began_ms: int = 0
    storage_nodes: int = 0
    slow: int = 0
    awaited: tuple[int, ...] = ()
    received: int = 0
    known: frozenset[int] = frozenset()
    stored_at: frozenset[int] = frozenset()
    """Nodes whose receipts for the message arrived while puts were under way."""
    is_sent: bool = False
    is_hollow: bool = False
    """The message was called sent with fewer than two copies."""
    is_parted: bool = False
    was_parted: bool = False
    was_without: bool = False
    """At some moment after the quorum no living node held the message."""

    @property
    def now_ms(self) -> int:
        return TIMES_MS[self.time]


def stored_world(holders: tuple[int, ...], *, nodes: int, crashes: int, is_parted: bool = False) -> World:
    """Return a world in which these nodes hold the message and the first bucket's reads begin to count."""
    states = tuple(NodeState(held=frozenset({FIRST} if number in holders else ())) for number in range(nodes))
    done = replace(DONE, bucket=FIRST)
    return World(
        time=1,
        nodes=states,
        crashes=crashes,
        losses=0,
        store=done,
        is_sent=True,
        is_parted=is_parted,
        was_parted=is_parted,
    )


def actions(world: World, rules: Rules) -> Iterator[World]:
    """Yield every world that one step leads to."""
    for after in _steps(world, rules):
        holders = any(each.is_alive and each.held for each in after.nodes)
        yield after._replace(was_without=world.was_without or (after.is_sent and not holders and not after.received))


def _steps(world: World, rules: Rules) -> Iterator[World]:
    if world.store is None and world.time == 0:
        yield _send(world)
    if world.puts:
        yield from _deliver(world, world.puts[0])
    for number, each in enumerate(world.nodes):
        if each.is_alive:
            if world.crashes:
                gone = each._replace(is_alive=False, died_at_ms=world.now_ms)
                yield _with(world, number, gone)._replace(crashes=world.crashes - 1)
                yield _with(world, number, gone._replace(held=frozenset(), deleted=frozenset()))._replace(
                    crashes=world.crashes - 1
                )
            if each.serving.phase is serving.Phase.SYNCING or _is_disturbed(world):
                others = [other for other in _reachable(world, number) if other != number]
                # Of a node that serves already, a slow neighbour changes nothing but what it could not send.
                for slow in (None, *(others if each.serving.phase is serving.Phase.SYNCING else ())):
                    yield _synced(world, number, others, slow, rules)
        else:
            yield _with(world, number, each._replace(is_alive=True, serving=Serving()))
    if len(world.nodes) < len(DESCRIPTORS):
        yield world._replace(nodes=(*world.nodes, NodeState(serving=Serving())))
    yield from _reads(world, rules)
    if world.is_parted and world.read is None:
        yield world._replace(is_parted=False)
    elif world.time + 1 < len(TIMES_MS) and world.read is None:
        later = world._replace(time=world.time + 1)
        yield later if later.store is None else _store(later, store_quorum.TimePassed())


def _reads(world: World, rules: Rules) -> Iterator[World]:
    if world.read is not None:
        yield from _answers(world, rules)
    elif world.store is not None and not world.puts:
        for bucket in world.buckets:
            if bucket.number == world.store.bucket and bucket.phase is not buckets.Phase.FINAL:
                yield _begin_read(world, bucket.number)


def _is_disturbed(world: World) -> bool:
    """Return whether nodes that serve have a reason for a round: a neighbour is away or was."""
    return world.was_parted or any(not each.is_alive for each in world.nodes)


def _reachable(world: World, number: int) -> list[int]:
    """Return the living nodes on this node's side."""
    side = number in RECIPIENTS_SIDE
    return [
        other
        for other, peer in enumerate(world.nodes)
        if peer.is_alive and (not world.is_parted or (other in RECIPIENTS_SIDE) is side)
    ]


def _with(world: World, number: int, state: NodeState) -> World:
    return world._replace(nodes=(*world.nodes[:number], state, *world.nodes[number + 1 :]))


def _index(world: World) -> PlacementIndex:
    """The nodes whose descriptors have not expired, as the recipient and the nodes on its side know them."""
    return _index_of(
        tuple(
            number
            for number, each in enumerate(world.nodes)
            if (each.is_alive or world.now_ms - each.died_at_ms < EXPIRY_MS)
            and (not world.is_parted or number in RECIPIENTS_SIDE)
        )
    )


@cache
def _index_of(numbers: tuple[int, ...]) -> PlacementIndex:
    return PlacementIndex([DESCRIPTORS[number] for number in numbers], now_ms=0)


def _send(world: World) -> World:
    bucket = bucket_at(world.now_ms)
    order = [each.node_id for each in place(_index(world), KEYS[bucket], MOST_TRIED)]
    state, effects = store_quorum.start(order, bucket=bucket, now_ms=world.now_ms)
    return _execute_store(world._replace(store=state), effects)


def _store(world: World, event: store_quorum.Event) -> World:
    assert world.store is not None
    if type(event) not in store_quorum.TABLE[world.store.phase]:
        return world
    state, effects = store_quorum.step(world.store, event, now_ms=world.now_ms)
    return _execute_store(world._replace(store=state), effects)


def _execute_store(world: World, effects: tuple[store_quorum.Effect, ...]) -> World:
    for effect in effects:
        match effect:
            case store_quorum.Put(node_id):
                world = world._replace(puts=(*world.puts, NUMBERS[node_id]))
            case store_quorum.ReportSent():
                world = world._replace(is_sent=True, is_hollow=len(world.stored_at) < WRITE_QUORUM)
            case _:
                pass  # one attempt is enough: a message that is not sent has no promise
    if world.store is not None and not world.puts and world.is_sent:
        # Nothing is under way any more: forget how the quorum was reached.
        done = replace(DONE, bucket=world.store.bucket)
        return world._replace(store=done, losses=0, stored_at=frozenset())
    return world


def _deliver(world: World, number: int) -> Iterator[World]:
    """The put arrives, or is lost, or its receipt is lost."""
    assert world.store is not None
    rest = world._replace(puts=tuple(each for each in world.puts if each != number))
    node_id, bucket, target = DESCRIPTORS[number].node_id, world.store.bucket, world.nodes[number]
    lost = rest._replace(losses=rest.losses - 1)
    if not target.is_alive:
        yield _store(rest, store_quorum.PutFailed(node_id))
        return
    verdict = check_put(_index(world), DESCRIPTORS[number], key=KEYS[bucket], bucket=bucket, now_ms=world.now_ms)
    if verdict.take is Take.WRONG_BUCKET:
        yield _store(rest, store_quorum.PutFailed(node_id))
        return
    kept = target if bucket in target.deleted else target._replace(held=target.held | {bucket})
    stored = _with(rest, number, kept)._replace(stored_at=world.stored_at | {number})
    yield _store(stored, store_quorum.ReceiptVerified(node_id))
    if world.losses:
        yield _store(lost, store_quorum.PutFailed(node_id))
        yield _store(_with(lost, number, kept), store_quorum.PutFailed(node_id))


def _synced(world: World, number: int, peers: list[int], slow: int | None, rules: Rules) -> World:
    """One anti-entropy round of a node with all living others, one of which may be too slow to answer."""
    own = world.nodes[number]
    state, effects = sync_round.start([DESCRIPTORS[peer].node_id for peer in peers])
    for peer in peers:
        lists = {KEYS[bucket]: (MESSAGE,) for bucket in sorted(world.nodes[peer].held)}
        blobs = missing_blobs(lists, {KEYS[bucket]: frozenset({MESSAGE}) for bucket in own.held | own.deleted})
        node_id = DESCRIPTORS[peer].node_id
        answer = sync_round.NodeLost(node_id) if peer == slow else sync_round.ListsReceived(node_id, blobs)
        state, effects = sync_round.step(state, answer)
    while state.phase is not sync_round.Phase.FINISHED:
        wants = [each for each in effects if isinstance(each, sync_round.SendWant)]
        for want in wants:
            bucket = next(each for each, key in KEYS.items() if key == want.blob.inbox_key)
            own = own._replace(held=own.held | {bucket})
            state, effects = sync_round.step(state, sync_round.BlockStored(want.blob))
    finish = next(each for each in effects if isinstance(each, sync_round.Finish))
    # A mutant that is content with fewer answers reports them as all.
    answered = finish.asked if rules.is_round_enough(finish.answered, finish.asked) else finish.answered
    after, _ = serving.step(own.serving, SyncFinished(answered, finish.asked), now_ms=world.now_ms)
    return _with(world, number, own._replace(serving=after))


def _begin_read(world: World, bucket: int) -> World:
    index = _index(world)
    order = [each.node_id for each in place(index, KEYS[bucket], RESPONSIBLE_WITHIN)]
    known = (MESSAGE,) if bucket in world.known else ()
    state, effects = reading.start(order, known=known)
    begun = world._replace(
        read=state, read_bucket=bucket, read_began_ms=world.now_ms, storage_nodes=len(index), slow=1, awaited=()
    )
    return _execute_read(begun, effects)


def _answers(world: World, rules: Rules) -> Iterator[World]:
    number = world.awaited[0]
    rest = world._replace(awaited=world.awaited[1:])
    node_id, bucket, target = DESCRIPTORS[number].node_id, world.read_bucket, world.nodes[number]
    if not target.is_alive:
        yield _read(rest, reading.NodeSilent(node_id))
        return
    rank = rank_of(_index(world), KEYS[bucket], DESCRIPTORS[number], within=COMPLETE_WITHIN)
    listed = (MESSAGE,) if bucket in target.held else ()
    yield _read(rest, reading.ListReceived(node_id, listed, rules.complete(target.serving, rank)))
    if world.slow:
        yield _read(rest._replace(slow=0), reading.NodeSilent(node_id))


def _read(world: World, event: reading.Event) -> World:
    assert world.read is not None
    state, effects = reading.step(world.read, event)
    return _execute_read(world._replace(read=state), effects)


def _execute_read(world: World, effects: tuple[reading.Effect, ...]) -> World:
    for effect in effects:
        match effect:
            case reading.AskList(node_id):
                world = world._replace(awaited=(*world.awaited, NUMBERS[node_id]))
            case reading.FetchBodies(node_id, _):
                target = world.nodes[NUMBERS[node_id]]
                sends = target.is_alive and world.read_bucket in target.held
                sent = frozenset({MESSAGE}) if sends else frozenset()
                world = _read(world, reading.BodiesReceived(node_id, (MESSAGE,), sent))
            case reading.Finish():
                world = _finish_read(world, effect)
    return world


def _finish_read(world: World, finish: reading.Finish) -> World:
    bucket = world.read_bucket
    if finish.hashes:
        world = world._replace(received=world.received + 1, known=world.known | {bucket})
        for node_id in finish.delete_at:
            world = _deleted(world, node_id, bucket)
    event = ReadFinished(world.read_began_ms, finish.counted, world.storage_nodes, finish.is_whole)
    after = [
        buckets.step(each, event, now_ms=world.now_ms, poll_interval_ms=HOUR_MS) if each.number == bucket else each
        for each in world.buckets
    ]
    # When the next read is due does not matter here: it may begin at any moment.
    held = tuple(replace(each, next_read_at_ms=0, reads_when_old=0) for each in after)
    return world._replace(buckets=held, read=None, read_bucket=0, read_began_ms=0, storage_nodes=0, slow=0, awaited=())


def _deleted(world: World, node_id: NodeId, bucket: int) -> World:
    number = NUMBERS[node_id]
    target = world.nodes[number]
    if not target.is_alive:
        return world
    return _with(world, number, target._replace(held=target.held - {bucket}, deleted=target.deleted | {bucket}))

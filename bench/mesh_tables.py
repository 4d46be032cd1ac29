"""The tables of `bench.mesh`: each row is of the round whose ratio is the middle one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.measure import Cost
from bench.mesh_baselines import KademliaCosts
from bench.mesh_floor import FloorCosts
from bench.results import Table, bar
from restante.policy.mesh.placement import COPIES

IN_FLIGHT: Final = 64
MESSAGES_A_BUCKET: Final = 4
BUCKETS_A_POLL: Final = 8
"""Buckets in one request of a poll: the current one, which has mail, and seven without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OurCosts:
    store: Cost
    answer: Cost
    poll: Cost
    bucket: Cost
    sent_ms: float
    all_signed_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What was measured one after the other."""

    peer: KademliaCosts
    ours: OurCosts
    floor: FloorCosts

    def copies_per_s(self) -> float:
        return COPIES * self.ours.store.per_second

    def peer_copies_per_s(self) -> float:
        return self.peer.set.per_second * self.peer.copies

    def store_ratio(self) -> float:
        return self.copies_per_s() / self.peer_copies_per_s()


def middle(rounds: Sequence[Round], by: Callable[[Round], float]) -> Round:
    return sorted(rounds, key=by)[len(rounds) // 2]


def stores_table(count: int, rounds: Sequence[Round]) -> Table:
    table = Table(
        f"Stores, {IN_FLIGHT} in flight: signed and on disk at five nodes, against `kademlia` set",
        [
            *("nodes", "stores/s", "signed copies/s", "sets/s", "copies a set", "copies/s in memory", "ratio", "bar"),
            *("processor µs a copy", "of `kademlia`"),
        ],
    )
    shown = middle(rounds, Round.store_ratio)
    ours, peer, ratio = shown.ours, shown.peer, shown.store_ratio()
    table.add(
        [
            str(count),
            f"{ours.store.per_second:,.0f}",
            f"{shown.copies_per_s():,.0f}",
            f"{peer.set.per_second:,.0f}",
            f"{peer.copies:.1f}",
            f"{shown.peer_copies_per_s():,.0f}",
            f"{ratio:.2f} x",
            bar(ratio >= 3, "at least 3 x a copy"),
            f"{ours.store.processor_us / COPIES:,.0f}",
            f"{peer.set.processor_us / peer.copies:,.0f}",
        ]
    )
    return table


def alone_table(count: int, rounds: Sequence[Round], sync_ms: float) -> Table:
    table = Table(
        "One store in flight",
        ["nodes", "P50 ms, two nodes signed", "P50 ms, all five signed", "one sync, ms", "bar"],
    )
    ours = middle(rounds, lambda each: each.ours.sent_ms).ours
    limit_ms = 3 * sync_ms + 2
    passed = bar(ours.sent_ms <= limit_ms, f"sent: at most 3 syncs + 2 ms = {limit_ms:.2f} ms")
    table.add([str(count), f"{ours.sent_ms:.2f}", f"{ours.all_signed_ms:.2f}", f"{sync_ms:.3f}", passed])
    return table


def reads_table(count: int, rounds: Sequence[Round]) -> Table:
    table = Table(
        f"Reads, {IN_FLIGHT} in flight, against `kademlia` get",
        [
            *("nodes", "gets/s", "gets/s, alpha 1", "what", "signed and verified/s", "ratio to gets", "bar"),
            *("processor µs each", "of a get"),
        ],
    )
    kinds: tuple[tuple[str, Callable[[OurCosts], Cost], int, int], ...] = (
        ("answers, one key a request", lambda ours: ours.answer, 1, 3),
        (f"answers, a poll of {BUCKETS_A_POLL} keys a request", lambda ours: ours.poll, BUCKETS_A_POLL, 3),
        (f"whole buckets of {MESSAGES_A_BUCKET} messages", lambda ours: ours.bucket, 1, 1),
    )
    for what, cost_in, each, least in kinds:

        def ratio_of(one: Round, cost_in: Callable[[OurCosts], Cost] = cost_in, each: int = each) -> float:
            return each * cost_in(one.ours).per_second / one.peer.get.per_second

        shown = middle(rounds, ratio_of)
        cost, peer, ratio = cost_in(shown.ours), shown.peer, ratio_of(shown)
        table.add(
            [
                *(str(count), f"{peer.get.per_second:,.0f}", f"{peer.narrow_get.per_second:,.0f}", what),
                *(f"{each * cost.per_second:,.0f}", f"{ratio:.2f} x", bar(ratio >= least, f"at least {least} x")),
                *(f"{cost.processor_us / each:,.0f}", f"{peer.get.processor_us:,.0f}"),
            ]
        )
    return table


def floor_table(count: int, rounds: Sequence[Round]) -> Table:
    """Bare nodes in the rounds that the other tables show."""
    table = Table(
        "Bare nodes: what Python, TLS, one sync and one signature cost before there is a mesh",
        ["nodes", "what", "bare/s", "ratio to `kademlia`", "processor µs each", "of ours"],
    )
    storing = middle(rounds, Round.store_ratio)
    answering = middle(rounds, lambda each: each.ours.answer.per_second / each.peer.get.per_second)
    stored, answered, kept = storing.floor.store, answering.floor.answer, storing.floor.kept
    for what, rate, theirs, bare_us, ours_us in (
        (
            *("copies", COPIES * stored.per_second, storing.peer_copies_per_s()),
            *(stored.processor_us / COPIES, storing.ours.store.processor_us / COPIES),
        ),
        (
            *("copies, in our store", COPIES * kept.per_second, storing.peer_copies_per_s()),
            *(kept.processor_us / COPIES, storing.ours.store.processor_us / COPIES),
        ),
        (
            *("answers, one a request", answered.per_second, answering.peer.get.per_second),
            *(answered.processor_us, answering.ours.answer.processor_us),
        ),
    ):
        table.add([str(count), what, f"{rate:,.0f}", f"{rate / theirs:.2f} x", f"{bare_us:,.0f}", f"{ours_us:,.0f}"])
    return table


def cost_table(count: int, rounds: Sequence[Round]) -> Table:
    table = Table(
        "Cost of a stored copy by number of nodes, client and nodes together",
        ["nodes", "processor µs", "of which the client"],
        plot=(0, 1),
    )
    store = middle(rounds, Round.store_ratio).ours.store
    table.add([str(count), f"{store.processor_us / COPIES:,.0f}", f"{store.first_share:.0%}"])
    return table

"""A synthetic fleet's behaviour: when people write, where mail is stored, who is away, which node is down or lies.

Everything is a function of scenario, seed and position (kernels/synthetic_dice): no state, no order. kernels/
synthetic_journals turns it into journal events.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from restante.crypto.identity import Identity
from restante.fleet.kernels.synthetic_dice import Dice, Flags, Floats, Longs
from restante.fleet.kernels.synthetic_evidence import identity_of
from restante.model.error_codes import Code
from restante.model.kinds import KIND_RULES, Kind
from restante.model.setting_ranges import check_ranges, ranged
from restante.wire.inbox_keys import node_id_of

MAX_MESSAGES: Final = 10_000_000_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
CONVERSATION: Final = 8
"""Messages of a session come in conversations of this many."""
SITES: Final = 3
"""Nodes are spread over data centres; an outage takes a whole one. A sender then uses a node of the next."""
QUANTILES_PER_DAY: Final = 96

BY_HOUR: Final = (3, 2, 1, 1, 1, 2, 5, 12, 20, 24, 25, 26, 27, 25, 24, 24, 25, 27, 30, 33, 34, 28, 18, 9)
"""How much is written in each hour of a working day (UTC), relative to the others."""
WEEKEND: Final = 0.65
WEEKEND_DAYS: Final = (5, 6)

KIND_SHARES: Final = (
    (Kind.TEXT, 0.58, 1_696),
    (Kind.READ_RECEIPT, 0.17, 1_696),
    (Kind.MEDIA, 0.11, 65_536),
    (Kind.CHAT, 0.08, 1_696),
    (Kind.DISAPPEARING, 0.03, 1_696),
    (Kind.CONTROL, 0.03, 1_696),
)
"""Kind, share of all messages, size of the padded envelope."""
KINDS: Final = tuple(kind for kind, _, _ in KIND_SHARES)
DISAPPEARING_TTL_S: Final = 3_600

CAUSES: Final = (
    (Code.NETWORK_UNREACHABLE, 0.35),
    (Code.TTL_EXPIRED, 0.20),
    (Code.STORAGE_FAILED, 0.15),
    (Code.RECIPIENT_NOT_FOUND, 0.15),
    (Code.DHT_LOOKUP_FAILED, 0.10),
    (Code.MESSAGE_TOO_LARGE, 0.05),
)
"""Why a lost message was lost, and the share of each cause."""
CAUSE_CODES: Final = tuple(code for code, _ in CAUSES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The size of the fleet, the length of the period, and how many messages, clients and nodes have which fault."""

    messages: int = ranged(100_000, low=1, high=MAX_MESSAGES, unit="messages", clause="13.2")
    sessions: int = ranged(1_000, low=1, high=1_000_000_000, unit="sessions", clause="13.2")
    clients: int = ranged(100, low=1, high=10_000_000, unit="clients", clause="13.2")
    nodes: int = ranged(12, low=1, high=100_000, unit="nodes", clause="13.2")
    days: int = ranged(21, low=1, high=92, unit="days", clause="13.2")
    start_ms: int = ranged(1_767_225_600_000, low=0, high=253_402_300_799_999, unit="ms", clause="13.1")
    spacing_ms: int = ranged(4_000, low=1, high=DAY_MS, unit="ms", clause="13.1")
    """Between two messages of one conversation."""
    duplicates: float = ranged(0.01, low=0.0, high=1.0, unit="share", clause="13.2")
    reordered: float = ranged(0.02, low=0.0, high=1.0, unit="share", clause="13.2")
    lost: float = ranged(0.0005, low=0.0, high=1.0, unit="share", clause="13.2")
    collisions: float = ranged(0.0, low=0.0, high=1.0, unit="share", clause="13.2")
    outages: float = ranged(0.06, low=0.0, high=1.0, unit="share", clause="13.2")
    """Probability that a data centre is down for about an hour on a day. It needs at least three nodes."""
    absences: float = ranged(0.15, low=0.0, high=1.0, unit="share", clause="13.2")
    """Probability that a recipient is away for about half an hour on a day."""
    churn: float = ranged(0.2, low=0.0, high=1.0, unit="share", clause="13.2")
    """Share of sessions that begin late, and of sessions that end early."""
    skewed: float = ranged(0.0, low=0.0, high=1.0, unit="share", clause="13.2")
    """Share of clients whose clocks are three days slow. All others differ by a fraction of a second."""
    liars: float = ranged(0.0, low=0.0, high=1.0, unit="share", clause="13.2")
    """Share of nodes that acknowledge some messages and do not store them."""
    seed: int = ranged(7, low=0, high=2**31 - 1, unit="", clause="13.2")

    def __post_init__(self) -> None:
        check_ranges(self, "scenario")

    @property
    def end_ms(self) -> int:
        return self.start_ms + self.days * DAY_MS

    @property
    def messages_per_session(self) -> int:
        return -(-self.messages // self.sessions)


class Fleet:
    """The draws of one scenario as functions of positions: message, session, client, node, time."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.dice = Dice(scenario.seed)
        self._times = _times_by_quantile(scenario)
        self._first_liar = scenario.nodes - round(scenario.liars * scenario.nodes)
        self._conversations = -(-scenario.messages_per_session // CONVERSATION)
        # Conversations of a session must not overlap, not even in a short session's busiest hour.
        room = scenario.days * DAY_MS // (100 * CONVERSATION * self._conversations)
        self.spacing_ms = max(1, min(scenario.spacing_ms, room))

    def accepted_at(self, session: Longs, sequence: Longs) -> Longs:
        """Return when a session's message was accepted. Later numbers of a session are later."""
        conversation, turn = sequence // CONVERSATION, sequence % CONVERSATION
        about = session * self._conversations + conversation
        churn, dice = self.scenario.churn, self.dice
        shift = 0.3 * dice.uniform("shift", session) + 0.7 * dice.uniform("conversation", about)
        quantile = (conversation + shift) / self._conversations
        begin = np.where(dice.meets("late", session, churn), 0.7 * dice.uniform("begin", session), 0.0)
        end = np.where(dice.meets("left", session, churn), 1 - 0.7 * dice.uniform("end", session) * (1 - begin), 1.0)
        place = (begin + quantile * (end - begin)) * (len(self._times) - 1)
        began = np.interp(place, np.arange(len(self._times)), self._times)
        pause = dice.uniform("pause", session * self.scenario.messages_per_session + sequence)
        drawn: Longs = began.astype(np.int64) + turn * self.spacing_ms + (pause * self.spacing_ms / 2).astype(np.int64)
        return drawn

    def sender(self, session: Longs) -> Longs:
        return session % self.scenario.clients

    def recipient(self, session: Longs) -> Longs:
        """Another client than the sender, if there are two."""
        others = max(1, self.scenario.clients - 1)
        return (self.sender(session) + 1 + session // self.scenario.clients % others) % self.scenario.clients

    def kind(self, message: Longs) -> Longs:
        """Return places in KINDS."""
        return _chosen(self.dice.uniform("kind", message), [share for _, share, _ in KIND_SHARES])

    def cause(self, message: Longs) -> Longs:
        """Return places in CAUSES."""
        return _chosen(self.dice.uniform("cause", message), [share for _, share in CAUSES])

    def node(self, message: Longs) -> Longs:
        """Return the node a message is first sent to. Some nodes are more popular than others."""
        drawn: Longs = (self.scenario.nodes * self.dice.uniform("node", message) ** 1.3).astype(np.int64)
        return drawn

    def next_node(self, node: Longs) -> Longs:
        """Return a node of another data centre."""
        return (node + 1) % self.scenario.nodes

    def is_down(self, node: Longs, at_ms: Longs) -> Flags:
        if self.scenario.nodes < SITES:
            return np.zeros(len(node), dtype=np.bool_)
        day = (at_ms - self.scenario.start_ms) // DAY_MS
        today, yesterday = (self._is_within(self.outage(node % SITES, each), at_ms) for each in (day, day - 1))
        return today | yesterday

    def outage(self, site: Longs, day: Longs) -> tuple[Longs, Longs]:
        """Return begin and end of each site's outage on a day; an empty time if there is none."""
        about = site + SITES * (day + 1)
        share = self.scenario.outages if self.scenario.nodes >= SITES else 0.0
        return self._window("outage", about, day, share, median_ms=0.8 * HOUR_MS)

    def returns_at(self, client: Longs, at_ms: Longs) -> Longs:
        """Return when a client that is away at this time is back; `at_ms` if it is not away."""
        back = at_ms
        day = (at_ms - self.scenario.start_ms) // DAY_MS
        for each in (day - 1, day):
            about = client + self.scenario.clients * (each + 1)
            window = self._window("absence", about, each, self.scenario.absences, median_ms=0.4 * HOUR_MS)
            back = np.where(self._is_within(window, at_ms), np.maximum(back, window[1]), back)
        return back

    def client_offset_ms(self, client: Longs) -> Longs:
        """Return how far a client's clock is ahead."""
        small = (150 * self.dice.normal("clock", client)).astype(np.int64)
        drawn: Longs = np.where(self.dice.meets("skew", client, self.scenario.skewed), -3 * DAY_MS, small)
        return drawn

    def lies_about(self, node: Longs, message: Longs) -> Flags:
        """Return whether the node acknowledges the message without storing it: liars do so with a tenth."""
        return (node >= self._first_liar) & self.dice.meets("lie", message, 0.1)

    def liar(self, node: int) -> Identity:
        """Return the keys of a node that lies. The others sign nothing, and need none."""
        return identity_of(self.dice.binary("node key", np.array([node]), 32)[0].as_py())

    def node_ids(self, node: Longs) -> Any:
        """Return the ids of nodes; a liar's is that of its key."""
        ids = self.dice.binary("node", np.arange(self.scenario.nodes), 32).to_pylist()
        for each in range(self._first_liar, self.scenario.nodes):
            ids[each] = node_id_of(self.liar(each).node_key)
        return pa.array(ids, pa.binary()).take(pa.array(node))

    def _window(self, name: str, about: Longs, day: Longs, share: float, *, median_ms: float) -> tuple[Longs, Longs]:
        happens = self.dice.meets(name, about, share)
        offset = (self.dice.uniform(f"{name} begin", about) * DAY_MS).astype(np.int64)
        begin = self.scenario.start_ms + day * DAY_MS + offset
        length = np.minimum(self.dice.lognormal(f"{name} length", about, median=median_ms, sigma=0.6), 6 * HOUR_MS)
        return begin, begin + np.where(happens, length, 0)

    @staticmethod
    def _is_within(window: tuple[Longs, Longs], at_ms: Longs) -> Flags:
        inside: Flags = (window[0] <= at_ms) & (at_ms < window[1])
        return inside


def ttl_s(kinds: Longs) -> Longs:
    """Return the usual TTL of each kind, by its place in KINDS."""
    usual = [KIND_RULES[kind].ttl_default_s or DISAPPEARING_TTL_S for kind in KINDS]
    drawn: Longs = np.array(usual, dtype=np.int64)[kinds]
    return drawn


def _chosen(uniform: Floats, shares: list[float]) -> Longs:
    edges = np.cumsum(shares)[:-1]
    drawn: Longs = np.searchsorted(edges, uniform, side="right")
    return drawn


def _times_by_quantile(scenario: Scenario) -> Any:
    """Return the times by which 0, 1/n, 2/n … of all messages are accepted, after the rhythm of days and weeks."""
    first_weekday = (scenario.start_ms // DAY_MS + 3) % 7  # 1970-01-01 was a Thursday
    weights = np.concatenate(
        [
            np.array(BY_HOUR, dtype=np.float64) * (WEEKEND if (first_weekday + day) % 7 in WEEKEND_DAYS else 1.0)
            for day in range(scenario.days)
        ]
    )
    reached = np.append(0.0, np.cumsum(weights) / weights.sum())
    hours = scenario.start_ms + np.arange(len(reached)) * float(HOUR_MS)
    return np.interp(np.linspace(0.0, 1.0, scenario.days * QUANTILES_PER_DAY + 1), reached, hours)

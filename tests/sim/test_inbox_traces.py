"""Whatever the network does, the application sees what was sent, once each, in order within a session."""

import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from restante.core.inbox_events import InboxEventType
from support.inbox.decrypted_messages import shown
from support.inbox.lossy_peers import SETTINGS, Peers
from support.spec.clauses import clause

MINUTE_MS = 60_000

which = st.integers(0, 30)
happenings = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 9)),
    st.tuples(st.just("deliver"), which),
    st.tuples(st.just("deliver"), st.integers(1, 4)),
    st.tuples(st.just("deliver all"), st.randoms(use_true_random=False)),
    st.tuples(st.just("deliver twice"), which),
    st.tuples(st.just("lose"), which),
    st.tuples(st.just("collide"), which),
    st.tuples(st.just("replay"), which),
    st.tuples(st.just("wait"), st.sampled_from([1_000, MINUTE_MS, 5 * MINUTE_MS, 12 * MINUTE_MS])),
    st.tuples(st.just("acknowledge"), st.booleans()),
    st.tuples(st.just("answer"), st.booleans()),
    st.tuples(st.just("change session"), st.just(0)),
    st.tuples(st.just("crash"), st.just(0)),
)


def play(peers: Peers, what: str, how: Any) -> None:
    if what in {"deliver", "deliver all", "deliver twice", "lose", "collide", "replay"}:
        on_the_network(peers, what, how)
    else:
        at_the_peers(peers, what, how)


def on_the_network(peers: Peers, what: str, how: Any) -> None:
    network, recipient = peers.network, peers.recipient
    if not network and what not in {"collide", "replay"}:
        return
    match what:
        case "deliver":
            recipient.receive([network.pop(how % len(network))])
        case "deliver twice":
            recipient.receive([network[how % len(network)]] * 2)
        case "deliver all":
            how.shuffle(network)
            peers.network = []
            recipient.receive(network)
        case "lose":
            del network[how % len(network)]
        case "collide" | "replay" if peers.sender.kept:
            # Only what has come can be collided with: before that, only its sender knows it.
            known = peers.sender.kept[how % len(peers.sender.kept)].envelope
            recipient.receive([known, peers.forged(known, new_id=what == "replay")])


def at_the_peers(peers: Peers, what: str, how: Any) -> None:
    match what:
        case "write":
            peers.network += [peers.sender.write() for _ in range(how)]
        case "wait":
            peers.clock.advance(how)
            peers.recipient.pass_time()
        case "acknowledge":
            ids = peers.recipient.receipts()
            peers.sender.receipted(ids if how else ())
        case "answer":
            if how:
                peers.answer_asks()
            peers.recipient.asks = []
        case "change session":
            peers.network += peers.sender.change_session()
        case "crash":
            peers.recipient.crash()


@clause("1.1", "1.2", "8.7", "9.3", "9.5")
@settings(max_examples=120, deadline=None)
@example([("deliver", 2), ("wait", 12 * MINUTE_MS), ("deliver", 0), ("change session", 0), ("deliver", 3)])
@given(st.lists(happenings, min_size=4, max_size=40))
def test_the_application_sees_what_was_sent_once_each_in_order_but_for_what_is_marked(
    happened: list[tuple[str, object]],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        peers = Peers(Path(directory) / "recipient.db")
        play(peers, "write", 5)
        for what, how in happened:
            play(peers, what, how)
        peers.settle()
        entries = shown(peers.recipient.file, now_ms=peers.clock.now_ms())
        assert Counter(entry.plaintext for entry in entries) == Counter(peers.sender.sent)
        in_order = [entry for entry in entries if not entry.is_late]
        for session in {entry.session_id for entry in in_order}:
            numbers = [entry.sequence_number for entry in in_order if entry.session_id == session]
            assert all(earlier < later for earlier, later in pairwise(numbers))
        told = Counter(change.notice for change in peers.recipient.changes)
        assert told[InboxEventType.NEW_MESSAGE] == len(entries)
        if any(entry.is_late for entry in entries):
            assert told[InboxEventType.GAP], "nothing is late unless a gap was skipped, and that was told"
        peers.recipient.file.database.close()


@clause("1.1", "1.2")
@settings(max_examples=40, deadline=None)
@example([("deliver", SETTINGS.order.max_gap - 1)], SETTINGS.order.max_gap)
@given(
    st.lists(st.tuples(st.sampled_from(["deliver", "deliver twice"]), which), max_size=60),
    st.integers(1, SETTINGS.order.max_gap),
)
def test_disorder_and_repeats_alone_leave_the_sent_sequence(happened: list[tuple[str, int]], count: int) -> None:
    """Without loss, delay or another session there is no gap: exactly what was sent, in exactly that order.

    No message is farther ahead than the recipient waits for, even if the last one comes first.
    """
    with tempfile.TemporaryDirectory() as directory:
        peers = Peers(Path(directory) / "recipient.db")
        play(peers, "write", count)
        for what, how in happened:
            play(peers, what, how)
        peers.recipient.receive(peers.network)
        entries = shown(peers.recipient.file)
        assert [entry.plaintext for entry in entries] == peers.sender.sent
        assert {change.notice for change in peers.recipient.changes} == {InboxEventType.NEW_MESSAGE}
        peers.recipient.file.database.close()

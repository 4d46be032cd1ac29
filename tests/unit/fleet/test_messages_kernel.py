"""Beside the columns of the message table, which its parity test holds, the kernel tells seals and signatures."""

from collections import defaultdict
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from restante.fleet.kernels.message_lifecycles import KINDS, MESSAGE_EVENTS, lives_of
from restante.model.journal import STATE_AFTER, JournalKind
from support.fleet.journal_files import message, node_id, sealed

pytestmark = pytest.mark.unit


class Fact(NamedTuple):
    """`writer` 0 and 1 have the same first 8 bytes, as the ids of their facts have."""

    writer: int
    message: int
    kind: JournalKind
    at_ms: int
    seal: int | None = None
    node: int | None = None


TELLING = (
    JournalKind.ATTEMPTED,
    JournalKind.DELIVERY_CONFIRMED,
    JournalKind.REENCRYPTED,
    JournalKind.ACCEPTED,
    JournalKind.RELEASED,
)
ANY_FACTS = st.lists(
    st.builds(
        Fact,
        st.sampled_from([0, 0, 0, 1, 2]),
        st.integers(0, 2),
        st.sampled_from(TELLING),
        st.integers(0, 50),
        st.none() | st.integers(0, 2),
        st.none() | st.integers(0, 1),
    ),
    min_size=1,
    max_size=30,
)


def lives(facts: list[Fact]) -> dict[bytes, dict[str, Any]]:
    """What the kernel says of facts that are numbered as they are listed and come the other way round."""
    rows = [
        {
            "message_id": message(fact.message),
            "event_id": writer_of(fact)[:8] + number.to_bytes(8, "big"),
            "writer": writer_of(fact),
            "at_ms": fact.at_ms,
            "kind": KINDS.index(fact.kind),
            "payload_hash": seal_of(fact),
            "node": None if fact.node is None else node_id(fact.node),
        }
        for number, fact in enumerate(facts, 1)
    ]
    return {row["message_id"]: row for row in lives_of(pa.Table.from_pylist(rows[::-1], MESSAGE_EVENTS)).to_pylist()}


def writer_of(fact: Fact) -> bytes:
    return b"clients " * 2 if fact.writer == 0 else b"clients another!" if fact.writer == 1 else b"zebras  " * 2


def seal_of(fact: Fact) -> bytes | None:
    is_sealed = fact.kind in STATE_AFTER or fact.kind is JournalKind.REENCRYPTED
    return sealed(fact.seal) if is_sealed and fact.seal is not None else None


@given(ANY_FACTS)
@example([Fact(0, 0, JournalKind.ACCEPTED, 1, 1), Fact(0, 0, JournalKind.REENCRYPTED, 2, 2)])
def test_every_hash_of_a_message_is_the_current_one_or_among_the_others(facts: list[Fact]) -> None:
    seals: dict[bytes, set[bytes]] = defaultdict(set)
    for fact in facts:
        seals[message(fact.message)] |= {seal for seal in [seal_of(fact)] if seal is not None}
    for name, life in lives(facts).items():
        current, others = life["payload_hash"], set(life["other_hashes"])
        assert current not in others
        assert {current, *others} - {None} == seals[name]


@given(ANY_FACTS)
@example(
    [
        Fact(0, 0, JournalKind.ATTEMPTED, 10),
        Fact(1, 0, JournalKind.ATTEMPTED, 30),
        Fact(0, 0, JournalKind.DELIVERY_CONFIRMED, 50, None, 1),
    ]
)
def test_a_signature_is_timed_from_the_last_try_of_the_writer_that_got_it(facts: list[Fact]) -> None:
    signed: dict[bytes, list[tuple[bytes, int, int]]] = defaultdict(list)
    tried: dict[tuple[int, int], int] = {}
    for fact in facts:
        own = fact.writer, fact.message
        if fact.kind is JournalKind.ATTEMPTED:
            tried[own] = fact.at_ms
        if fact.kind is JournalKind.DELIVERY_CONFIRMED and fact.node is not None:
            took_ms = max(fact.at_ms - tried.get(own, fact.at_ms), 0)
            signed[message(fact.message)].append((node_id(fact.node), fact.at_ms, took_ms))
    for name, life in lives(facts).items():
        found = [(one["node"], one["at_ms"], one["took_ms"]) for one in life["confirmed"]]
        assert sorted(found) == sorted(signed[name])

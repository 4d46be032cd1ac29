"""crypto/ratchet against an implementation not written here: `DoubleRatchet` from PyPI, with the same primitives."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restante.crypto.ratchet_codec import decode_ratchet, encode_ratchet
from restante.model.errors import RemoteProtocolError
from support.crypto.ratchet_pairs import NOW_MS, OracleSide, Side, initiator, responder
from support.spec.clauses import clause


@dataclass(frozen=True)
class Send:
    by_initiator: bool


@dataclass(frozen=True)
class Arrive:
    """The n-th message on its way to that side comes in: out of order unless n is 0."""

    to_initiator: bool
    place: int


@dataclass(frozen=True)
class Lose:
    to_initiator: bool
    place: int


places = st.integers(0, 6)
moves = st.lists(
    st.builds(Send, st.booleans())
    | st.builds(Arrive, st.booleans(), places)
    | st.builds(Arrive, st.booleans(), st.just(0))
    | st.builds(Lose, st.booleans(), places),
    min_size=8,
    max_size=90,
)


def play(script: list[Send | Arrive | Lose], first: Side | OracleSide, second: Side | OracleSide) -> int:
    """Run the script; every message that arrives must open to what was written. How many did."""
    ways: dict[bool, list[tuple[bytes, bytes, bytes]]] = {True: [], False: []}
    heard = False
    opened = 0
    for count, move in enumerate(script):
        match move:
            case Send(by_initiator):
                if by_initiator or heard:
                    text, bound = b"message %d" % count, b"id %d" % count
                    message = (first if by_initiator else second).send(text, bound)
                    ways[not by_initiator].append((message, text, bound))
            case Arrive(to_initiator, place) if place < len(ways[to_initiator]):
                message, text, bound = ways[to_initiator].pop(place)
                assert (first if to_initiator else second).receive(message, bound) == text
                heard = heard or not to_initiator
                opened += 1
            case Lose(to_initiator, place) if place < len(ways[to_initiator]):
                ways[to_initiator].pop(place)
            case _:
                pass
    for to_initiator in (True, False):
        for message, text, bound in reversed(ways[to_initiator]):
            assert (first if to_initiator else second).receive(message, bound) == text
            opened += 1
    return opened


@clause("8.2")
@settings(max_examples=150, deadline=None)
@given(moves)
def test_the_oracle_reads_and_answers_what_we_begin(script: list[Send | Arrive | Lose]) -> None:
    play([Send(True), Arrive(False, 0), *script], initiator(), OracleSide(initiates=False))


@clause("8.2")
@settings(max_examples=150, deadline=None)
@given(moves)
def test_we_read_and_answer_what_the_oracle_begins(script: list[Send | Arrive | Lose]) -> None:
    play([Send(True), Arrive(False, 0), *script], OracleSide(initiates=True), responder())


@settings(max_examples=100, deadline=None)
@given(moves)
def test_we_understand_ourselves(script: list[Send | Arrive | Lose]) -> None:
    play([Send(True), Arrive(False, 0), *script], initiator(), responder())


class Restarting(Side):
    """Loses its memory after each message, and each time first fails to commit: all it has is what it wrote down."""

    def send(self, plaintext: bytes, associated_data: bytes = b"") -> bytes:
        before = encode_ratchet(self.state)
        super().send(b"never left", associated_data)
        self.state = decode_ratchet(before)
        message = super().send(plaintext, associated_data)
        self.state = decode_ratchet(encode_ratchet(self.state))
        return message

    def receive(self, message: bytes, associated_data: bytes = b"", *, now_ms: int = NOW_MS) -> bytes:
        before = encode_ratchet(self.state)
        super().receive(message, associated_data, now_ms=now_ms)
        self.state = decode_ratchet(before)
        plaintext = super().receive(message, associated_data, now_ms=now_ms)
        self.state = decode_ratchet(encode_ratchet(self.state))
        return plaintext


@clause("8.2")
@settings(max_examples=60, deadline=None)
@given(moves)
def test_a_side_that_crashes_at_every_message_is_still_understood(script: list[Send | Arrive | Lose]) -> None:
    play([Send(True), Arrive(False, 0), *script], Restarting(initiator().state, 3), OracleSide(initiates=False))
    play([Send(True), Arrive(False, 0), *script], OracleSide(initiates=True), Restarting(responder().state, 4))


@pytest.mark.parametrize("late", range(6))
def test_the_first_message_to_arrive_need_not_be_the_first_sent(late: int) -> None:
    for ours in (True, False):
        first = initiator() if ours else OracleSide(initiates=True)
        second = OracleSide(initiates=False) if ours else responder()
        sends = [Send(True) for _ in range(6)]
        assert play([*sends, Arrive(False, late), Send(False), Arrive(True, 0)], first, second) == 7


def test_both_refuse_what_was_bound_to_something_else() -> None:
    ours, oracle = initiator(), OracleSide(initiates=False)
    message = ours.send(b"text", b"bound to this")
    oracle.receive(message, b"bound to this")
    reply = oracle.send(b"reply", b"bound to that")
    with pytest.raises(RemoteProtocolError):
        ours.receive(reply, b"bound to this")
    assert ours.receive(reply, b"bound to that") == b"reply"

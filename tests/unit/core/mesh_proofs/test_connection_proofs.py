"""Proofs of one connection: made once, checked once, and never good for anything else."""

from dataclasses import replace

import pytest

from restante.core.mesh_proofs.connection_proofs import MOST_KEPT, CheckedProofs, OwnProofs
from restante.crypto.blinded_keys import BlindedSigner, in_period
from restante.crypto.identity import Identity
from restante.wire.frames.mesh_reading import FetchEntry
from restante.wire.frames.mesh_types import MeshFrameType
from support.spec.clauses import clause

OWNER = Identity(b"o" * 32)
HERE = {"challenge": b"c" * 32, "connection": b"n" * 32}
FETCH, SUBSCRIBE = MeshFrameType.FETCH, MeshFrameType.MESH_SUBSCRIBE


class Dice:
    """Random bytes that never repeat, and how often they were drawn."""

    def __init__(self) -> None:
        self.draws = 0

    def draw(self, size: int) -> bytes:
        self.draws += 1
        return self.draws.to_bytes(size, "big")


def signer_of(bucket: int) -> BlindedSigner:
    return BlindedSigner(OWNER, place=in_period(bucket))


@pytest.fixture
def dice() -> Dice:
    return Dice()


def proved(own: OwnProofs, bucket: int, dice: Dice, frame_type: MeshFrameType = FETCH) -> FetchEntry:
    return own.entry(signer_of(bucket), bucket, frame_type, draw=dice.draw)


@clause("7.4")
def test_a_second_poll_on_a_connection_sends_the_proof_of_the_first(dice: Dice) -> None:
    own = OwnProofs(**HERE)
    first = proved(own, 7, dice)
    assert proved(own, 7, dice) == first
    assert dice.draws == 1
    assert proved(own, 8, dice) != first
    assert proved(own, 7, dice, SUBSCRIBE) != first
    assert dice.draws == 3


@clause("6.5", "7.4")
def test_a_checked_proof_is_good_for_the_same_entry_frame_and_connection_only(dice: Dice) -> None:
    entry, other = proved(OwnProofs(**HERE), 7, dice), proved(OwnProofs(**HERE), 8, dice)
    checked = CheckedProofs(**HERE)
    assert checked.are_valid([entry], FETCH)
    assert checked.are_valid([entry, other], FETCH)
    assert not checked.are_valid([entry], SUBSCRIBE)
    assert not checked.are_valid([entry, replace(entry, after=1)], FETCH)
    assert not checked.are_valid([replace(entry, bucket=8)], FETCH)
    assert not checked.are_valid([replace(entry, blinded=other.blinded)], FETCH)
    assert not checked.are_valid([replace(entry, signature=other.signature)], FETCH)
    assert not CheckedProofs(challenge=b"d" * 32, connection=b"n" * 32).are_valid([entry], FETCH)
    assert not CheckedProofs(challenge=b"c" * 32, connection=b"m" * 32).are_valid([entry], FETCH)
    assert checked.are_valid([entry], FETCH)


@clause("6.8", "7.12")
def test_the_proofs_of_a_large_request_are_checked_some_at_a_time(dice: Dice) -> None:
    own, checked = OwnProofs(**HERE), CheckedProofs(**HERE)
    entries = [proved(own, bucket, dice) for bucket in range(40)]
    assert [checked.check_some(entries, FETCH, most=16) for _ in range(3)] == [False, False, True]
    wrong = [*entries[:4], replace(entries[4], signature=bytes(64))]
    assert CheckedProofs(**HERE).check_some([*wrong, *entries[5:]], FETCH, most=16), "no more is checked for it"


@clause("7.12")
def test_both_ends_keep_a_bounded_number_of_proofs(dice: Dice) -> None:
    own, checked = OwnProofs(**HERE), CheckedProofs(**HERE)
    entries = [proved(own, bucket, dice) for bucket in range(MOST_KEPT + 1)]
    assert checked.are_valid(entries, FETCH)
    assert checked.are_valid(entries, FETCH)
    assert proved(own, MOST_KEPT, dice) == entries[-1]
    assert dice.draws == MOST_KEPT + 1
    assert proved(own, 0, dice) != entries[0]
    assert len(own._made) == len(checked._checked) == MOST_KEPT

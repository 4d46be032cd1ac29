"""policy/mesh/network_time: one vote a family."""

from hypothesis import given
from hypothesis import strategies as st

from restante.policy.mesh.network_time import NetworkTime, PeerOffset, agree, measure_offset
from support.spec.clauses import clause

HOUR_MS = 3_600_000


def peers(*offsets_ms: int) -> list[PeerOffset]:
    return [PeerOffset(bytes([number]), offset) for number, offset in enumerate(offsets_ms)]


@clause("7.11")
def test_network_time_is_the_own_clock_and_the_median_offset() -> None:
    assert agree(peers(5, -HOUR_MS, 9)) == NetworkTime(offset_ms=5, is_agreed=True)
    assert agree(peers(5, 7, 9, 10**12)).offset_ms == 8
    assert agree(peers(5, 7, 9)).at(1_000) == 1_007


@clause("7.11")
def test_fewer_than_three_families_leave_the_own_clock() -> None:
    assert agree([PeerOffset(b"one", HOUR_MS)] * 20 + [PeerOffset(b"two", HOUR_MS)]) == NetworkTime()
    assert agree(peers(HOUR_MS), needs_families=1).offset_ms == HOUR_MS


@clause("7.11")
def test_one_family_has_one_vote_and_fifteen_families_vote() -> None:
    liar = [PeerOffset(b"liar", 10**9)] * 50
    assert agree([*liar, *peers(1, 2, 3, 4)]).offset_ms == 3
    assert agree(peers(*range(15), *[10**9] * 100)).offset_ms == 7


@clause("7.11")
def test_a_clock_off_by_more_than_ten_minutes_is_reported() -> None:
    assert agree(peers(600_001, 600_001, 600_001)).is_own_clock_wrong
    assert not agree(peers(-600_000, -600_000, -600_000)).is_own_clock_wrong


@clause("7.11")
@given(st.lists(st.integers(-1000, 1000), min_size=4, max_size=15), st.integers(-(10**12), 10**12))
def test_a_minority_of_liars_moves_the_median_no_further_than_the_honest(honest: list[int], lie: int) -> None:
    liars = [PeerOffset(b"liar%d" % number, lie) for number in range((len(honest) - 1) // 2)]
    agreed = agree([*peers(*honest), *liars][:15]).offset_ms
    assert min(honest) <= agreed <= max(honest)


def test_an_offset_is_measured_at_the_middle_of_the_round_trip() -> None:
    assert measure_offset(sent_at_ms=1_000, peer_time_ms=5_050, received_at_ms=1_100) == 4_000

"""The clock that moves when told and the dice that fall the same way every time."""

from hypothesis import given
from hypothesis import strategies as st

from restante.testing.deterministic import FakeClock, SeededEntropy


def test_the_clock_stands_still_until_it_is_moved() -> None:
    clock = FakeClock(at_ms=1_000)
    assert [clock.now_ms(), clock.now_ms()] == [1_000, 1_000]
    clock.advance(250)
    assert clock.now_ms() == 1_250


@given(seed=st.integers(0, 2**32), sizes=st.lists(st.integers(0, 40), max_size=10))
def test_equal_seeds_draw_equal_bytes_of_the_size_asked_for(seed: int, sizes: list[int]) -> None:
    one, other = SeededEntropy(seed), SeededEntropy(seed)
    drawn = [one.draw(size) for size in sizes]
    assert drawn == [other.draw(size) for size in sizes]
    assert [len(raw) for raw in drawn] == sizes


@given(seed=st.integers(0, 2**32))
def test_equal_seeds_roll_equal_dice_from_minus_one_to_one(seed: int) -> None:
    one, other = SeededEntropy(seed), SeededEntropy(seed)
    rolled = [one.dice() for _ in range(50)]
    assert rolled == [other.dice() for _ in range(50)]
    assert all(-1.0 <= number <= 1.0 for number in rolled)


def test_dice_fall_evenly() -> None:
    entropy = SeededEntropy(3)
    rolled = [entropy.dice() for _ in range(10_000)]
    for low in (-1.0, -0.5, 0.0, 0.5):
        assert 2_300 < sum(low <= number < low + 0.5 for number in rolled) < 2_700


def test_another_seed_draws_other_bytes() -> None:
    assert len({SeededEntropy(seed).draw(16) for seed in range(100)}) == 100

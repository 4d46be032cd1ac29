"""Numbers as people read them."""

import pytest

from restante.cli.show import duration, plain, quantity, size, span


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [
        (0, "0 s"),
        (1, "1 ms"),
        (1_000, "1 s"),
        (1_500, "1,500 ms"),
        (90_000, "90 s"),
        (512_000, "512 s"),
        (600_000, "10 min"),
        (3_600_000, "1 h"),
        (2_592_000_000, "30 d"),
        (0.5, "0.5 ms"),
    ],
)
def test_a_duration_uses_the_largest_unit_without_a_fraction(milliseconds: float, expected: str) -> None:
    assert duration(milliseconds) == expected


@pytest.mark.parametrize(
    ("number_of_bytes", "expected"),
    [
        (262_144, "256 KiB"),
        (50_000_000, "50 MB"),
        (10_000_000_000, "10 GB"),
        (1_073_741_824, "1 GiB"),
        (100_000, "100 kB"),
        (121, "121 bytes"),
    ],
)
def test_a_size_keeps_to_the_powers_it_was_written_in(number_of_bytes: int, expected: str) -> None:
    assert size(number_of_bytes) == expected


def test_a_quantity_has_its_unit() -> None:
    assert quantity(10_000, "entries") == "10,000 entries"
    assert quantity(0.2, "") == "0.2"
    assert quantity(60_000, "ms") == "1 min"
    assert quantity(262_144, "bytes") == "256 KiB"


def test_a_span_names_a_common_unit_once() -> None:
    assert span(5, 50, "attempts") == "5 .. 50 attempts"
    assert span(100, 10_000, "ms") == "100 ms .. 10 s"
    assert span(0.0, 0.5, "") == "0 .. 0.5"


def test_whole_numbers_lose_their_point() -> None:
    assert repr(plain(3600.0)) == "3600"
    assert repr(plain(0.1)) == "0.1"

"""Numbers as people read them."""

import pytest

from restante.views.formatting import (
    away,
    bar,
    duration,
    moment,
    percentage,
    plain,
    printable,
    quantity,
    roughly,
    safe_text,
    size,
    span,
)


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


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [(0, "0 s"), (999, "0 s"), (59_999, "59 s"), (60_000, "1 min"), (86_399_999, "23 h"), (90_000_000_000, "1,041 d")],
)
def test_a_rough_duration_is_cut_to_the_largest_unit_it_fills(milliseconds: int, expected: str) -> None:
    assert roughly(milliseconds) == expected


@pytest.mark.parametrize(
    ("at_ms", "expected"),
    [(1_000_000, "now"), (1_000_999, "now"), (1_001_000, "in 1 s"), (999_000, "1 s ago"), (700_000, "5 min ago")],
)
def test_a_moment_is_told_by_its_distance_from_now(at_ms: int, expected: str) -> None:
    assert away(at_ms, 1_000_000) == expected


@pytest.mark.parametrize(
    ("at_ms", "expected"),
    [
        (0, "1970-01-01 00:00:00"),
        (1_800_000_000_999, "2027-01-15 08:00:00"),
        (2**62, "4611686018427387904 ms"),
        (-(2**62), "-4611686018427387904 ms"),
    ],
)
def test_a_moment_is_shown_in_utc_and_what_no_calendar_has_as_a_number(at_ms: int, expected: str) -> None:
    assert moment(at_ms) == expected


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [(0, 9, "░░░░"), (1, 1_000, "█░░░"), (1, 2, "██░░"), (999, 1_000, "███░"), (9, 9, "████"), (10, 9, "████")],
)
def test_a_bar_is_empty_only_for_nothing_and_full_only_at_the_limit(part: int, whole: int, expected: str) -> None:
    assert bar(part, whole, cells=4) == expected


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [(0, 9, "0%"), (9, 1_000, "<1%"), (10, 1_000, "1%"), (999, 1_000, "99%"), (3, 2, "150%")],
)
def test_a_share_is_never_rounded_up(part: int, whole: int, expected: str) -> None:
    assert percentage(part, whole) == expected


def test_what_could_steer_a_terminal_is_replaced() -> None:
    assert printable("chat-7 \N{SNOWMAN}\x1b[2J\r\n") == "chat-7 \N{SNOWMAN}\ufffd[2J\ufffd\ufffd"


@pytest.mark.parametrize(
    "text",
    [
        "tab\tand\nline",
        "👩\u200d💻 and 👨\u200d👩\u200d👧",
        "می\u200cشود",
        "क्\u200dष",
        "עברית\u200f!",
        "café ﷽ 字",
    ],
)
def test_a_message_keeps_tabs_lines_joiners_and_every_script(text: str) -> None:
    assert safe_text(text) == text


@pytest.mark.parametrize("character", ["\x1b", "\x07", "\r", "\x7f", "\x9b", "\u202e", "\u2066", "\u2028", "\ud800"])
def test_what_could_control_a_terminal_or_reverse_the_text_is_replaced(character: str) -> None:
    assert safe_text(f"a{character}b") == printable(f"a{character}b") == "a\N{REPLACEMENT CHARACTER}b"


def test_a_name_stays_on_one_line() -> None:
    assert printable("a\nb\tc") == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c"

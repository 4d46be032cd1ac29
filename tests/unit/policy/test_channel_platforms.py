"""policy/channel_platforms: limits and how they are counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.policy.channel_platforms import MIN_LIMIT, RULES, Counting, Format, Platform, measure
from support.spec.clauses import clause


@clause("12.3")
def test_the_limits_are_those_of_the_specification() -> None:
    limits = {platform.value: rules.limit for platform, rules in RULES.items()}
    assert limits == {
        "telegram": 4_096,
        "discord": 2_000,
        "slack": 4_000,
        "whatsapp": 65_536,
        "signal": 65_536,
        "line": 5_000,
        "irc": 512,
        "email": 100_000,
        "matrix": 4_000,
        "other": 4_000,
    }


def test_every_platform_has_rules_and_every_format_a_platform() -> None:
    assert set(RULES) == set(Platform)
    assert {rules.format for rules in RULES.values()} == set(Format)
    assert all(rules.chunk_limit >= MIN_LIMIT for rules in RULES.values())


def test_irc_leaves_room_in_its_line_for_what_the_server_puts_around_it() -> None:
    prefix = f":{'n' * 30}!{'u' * 10}@{'h' * 63} PRIVMSG {'#' * 50} :"
    assert len(prefix) + RULES[Platform.IRC].chunk_limit + len("\r\n") <= 512


@pytest.mark.parametrize(
    ("text", "units", "octets", "points"),
    [("", 0, 0, 0), ("abc", 3, 3, 3), ("\u00e9", 1, 2, 1), ("\u6f22", 1, 3, 1), ("\U0001f600", 2, 4, 1)],
)
def test_each_unit_counts_in_its_own_way(text: str, units: int, octets: int, points: int) -> None:
    assert measure(text, Counting.UTF16_UNITS) == units
    assert measure(text, Counting.UTF8_BYTES) == octets
    assert measure(text, Counting.CODE_POINTS) == points


@given(first=st.text(), second=st.text(), counting=st.sampled_from(Counting))
def test_lengths_add_up(first: str, second: str, counting: Counting) -> None:
    assert measure(first + second, counting) == measure(first, counting) + measure(second, counting)

"""core/inboxes: how long what we left is read, and when a contact is told our access secret (SPEC 8.8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.inboxes.former_inboxes import is_read, is_to_be_told
from support.spec.clauses import clause

DAY_MS = 86_400_000
LEFT_MS = 1_800_000_000_000
END_MS = LEFT_MS + 30 * DAY_MS


@clause("8.8")
@pytest.mark.parametrize("all_read_at_ms", [0, LEFT_MS, END_MS - 1, END_MS])
def test_what_we_left_is_read_for_30_days(all_read_at_ms: int) -> None:
    assert is_read(LEFT_MS, all_read_at_ms=all_read_at_ms, now_ms=LEFT_MS)
    assert is_read(LEFT_MS, all_read_at_ms=all_read_at_ms, now_ms=END_MS - 1)


@clause("8.8")
def test_afterwards_it_is_read_until_it_was_read_once_more() -> None:
    assert is_read(LEFT_MS, all_read_at_ms=END_MS - 1, now_ms=END_MS + DAY_MS), "away over the end"
    assert not is_read(LEFT_MS, all_read_at_ms=END_MS, now_ms=END_MS)
    assert not is_read(LEFT_MS, all_read_at_ms=0, now_ms=END_MS + 30 * DAY_MS), "no node keeps mail so long"


@given(st.integers(0, 10**14), st.integers(0, 10**14), st.integers(0, 10**14), st.integers(0, 10**14))
def test_who_is_not_read_any_more_is_not_read_later(left: int, read_at: int, now: int, later: int) -> None:
    if not is_read(left, all_read_at_ms=read_at, now_ms=now):
        assert not is_read(left, all_read_at_ms=read_at, now_ms=now + later)
        assert not is_read(left, all_read_at_ms=read_at + later, now_ms=now)


@clause("8.8")
@pytest.mark.parametrize(
    ("told_ago_ms", "is_confirmed", "is_outdated", "expected"),
    [
        (None, False, False, True),
        (0, False, False, False),
        (7 * DAY_MS - 1, False, False, False),
        (7 * DAY_MS, False, False, True),
        (70 * DAY_MS, True, False, False),
        (DAY_MS - 1, False, True, False),
        (DAY_MS, False, True, True),
    ],
)
def test_a_contact_is_told_once_and_again_each_week_until_it_uses_the_secret(
    told_ago_ms: int | None, is_confirmed: bool, is_outdated: bool, expected: bool
) -> None:
    told_at_ms = None if told_ago_ms is None else LEFT_MS - told_ago_ms
    verdict = is_to_be_told(told_at_ms, is_confirmed=is_confirmed, is_outdated=is_outdated, now_ms=LEFT_MS)
    assert verdict is expected

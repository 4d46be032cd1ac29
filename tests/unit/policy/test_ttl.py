"""policy/ttl: which lives are allowed, and when one ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.error_codes import Code
from restante.model.errors import OutOfRange
from restante.model.kinds import KIND_RULES, DeliveryClass, Kind, Priority, TtlType
from restante.policy.ttl import expiry_ms, is_expired, resolve_ttl_s, transport_expiry_ms
from support.spec.clauses import clause

# kind: default, min, max in seconds, written out from the table of SPEC 2.3
HOUR, DAYS_7, DAYS_30, DAYS_90 = 3_600, 604_800, 2_592_000, 7_776_000
TTL_TABLE = [
    (Kind.TEXT, DAYS_30, HOUR, DAYS_90),
    (Kind.MEDIA, DAYS_7, HOUR, DAYS_30),
    (Kind.READ_RECEIPT, 86_400, HOUR, DAYS_7),
    (Kind.DISAPPEARING, None, 5, DAYS_30),
    (Kind.DRAWING, DAYS_7, HOUR, DAYS_30),
    (Kind.DRAWING_DELETE, DAYS_7, HOUR, DAYS_30),
    (Kind.CHAT, DAYS_7, HOUR, DAYS_30),
    (Kind.CHAT_LEAVE, DAYS_7, HOUR, DAYS_30),
    (Kind.VOICE_LEAVE, DAYS_7, HOUR, DAYS_30),
    (Kind.CONTROL, DAYS_30, HOUR, DAYS_30),
    (Kind.TYPING, 30, 10, 60),
    (Kind.POSITION, 30, 1, 60),
    (Kind.HEARTBEAT, 30, 1, 60),
    (Kind.VOICE_FRAME, 30, 1, 60),
]

LIMITS = {kind: (default, low, high) for kind, default, low, high in TTL_TABLE}

moments = st.integers(min_value=0, max_value=2**53)
lives = st.integers(min_value=1, max_value=DAYS_90)


@clause("2.3")
def test_every_kind_has_a_row_in_the_table() -> None:
    assert {kind for kind, *_ in TTL_TABLE} == set(Kind)


@clause("2.3")
def test_only_these_kinds_are_real_time_or_relative_and_each_has_its_priority() -> None:
    real_time = {kind for kind, rule in KIND_RULES.items() if rule.delivery is DeliveryClass.REAL_TIME}
    relative = {kind for kind, rule in KIND_RULES.items() if rule.ttl_type is TtlType.RELATIVE}
    high = {kind for kind, rule in KIND_RULES.items() if rule.priority is Priority.HIGH}
    low = {kind for kind, rule in KIND_RULES.items() if rule.priority is Priority.LOW}
    assert real_time == {Kind.TYPING, Kind.POSITION, Kind.HEARTBEAT, Kind.VOICE_FRAME}
    assert relative == {Kind.DISAPPEARING}
    assert high == real_time | {Kind.READ_RECEIPT, Kind.CONTROL}
    assert low == {Kind.MEDIA}


@clause("2.3", "2.5")
@pytest.mark.parametrize(("kind", "default", "low", "high"), TTL_TABLE)
def test_a_ttl_is_taken_at_both_ends_of_its_range_and_refused_one_second_beyond(
    kind: Kind, default: int | None, low: int, high: int
) -> None:
    assert resolve_ttl_s(kind, low) == low
    assert resolve_ttl_s(kind, high) == high
    if default is not None:
        assert resolve_ttl_s(kind, None) == default
    for outside in (low - 1, high + 1):
        with pytest.raises(OutOfRange, match=rf"ttl_s of {kind} = {outside} is outside {low}\.\.{high} s$"):
            resolve_ttl_s(kind, outside)


@clause("2.3", "2.5")
def test_a_disappearing_message_without_a_ttl_is_refused_and_the_text_says_what_to_choose() -> None:
    with pytest.raises(OutOfRange, match=r"no default, so the sender must choose.*5\.\.2592000 s") as caught:
        resolve_ttl_s(Kind.DISAPPEARING, None)
    assert caught.value.code is Code.OUT_OF_RANGE
    assert isinstance(caught.value, ValueError)


@clause("2.5")
@given(kind=st.sampled_from(Kind), asked=st.integers() | st.integers(0, 70))
def test_a_ttl_is_never_clamped(kind: Kind, asked: int) -> None:
    _, low, high = LIMITS[kind]
    if low <= asked <= high:
        assert resolve_ttl_s(kind, asked) == asked
    else:
        with pytest.raises(OutOfRange):
            resolve_ttl_s(kind, asked)


@clause("2.6")
def test_an_absolute_life_is_counted_from_creation_whether_read_or_not() -> None:
    for read_at in (None, 9_000):
        ends = expiry_ms(ttl_type=TtlType.ABSOLUTE, created_at_ms=1_000, ttl_s=5, first_read_at_ms=read_at)
        assert ends == 6_000


@clause("2.6")
def test_a_relative_life_is_counted_from_the_first_reading() -> None:
    ends = expiry_ms(ttl_type=TtlType.RELATIVE, created_at_ms=1_000, ttl_s=5, first_read_at_ms=9_000)
    assert ends == 14_000


@clause("2.6")
@given(created=moments, ttl=lives, now=moments)
def test_an_unread_relative_message_is_never_expired_for_its_reader(created: int, ttl: int, now: int) -> None:
    ends = expiry_ms(ttl_type=TtlType.RELATIVE, created_at_ms=created, ttl_s=ttl, first_read_at_ms=None)
    assert not is_expired(ends, now)


@clause("2.6")
@pytest.mark.parametrize(("now_ms", "expected"), [(5_999, False), (6_000, True), (6_001, True)])
def test_a_message_is_expired_from_the_very_millisecond_of_its_expiry(now_ms: int, expected: bool) -> None:
    assert is_expired(6_000, now_ms) is expected


@clause("2.6")
def test_a_sender_carries_an_absolute_message_until_its_ttl_is_over() -> None:
    assert transport_expiry_ms(ttl_type=TtlType.ABSOLUTE, created_at_ms=1_000, ttl_s=5) == 6_000


def test_a_sender_carries_a_relative_message_for_thirty_days_however_short_its_ttl() -> None:
    assert transport_expiry_ms(ttl_type=TtlType.RELATIVE, created_at_ms=1_000, ttl_s=5) == 2_592_001_000

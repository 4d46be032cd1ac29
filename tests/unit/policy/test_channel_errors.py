"""policy/channel_errors: the one classifier of platform errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.policy.channel_errors import ChannelError, classify_channel_error
from support.spec.clauses import clause

PERMANENT = [
    "chat not found",
    "user not found",
    "bot was blocked",
    "bot was kicked",
    "chat_id is empty",
    "no conversation reference found",
    "ambiguous recipient",
    "not a member",
    "invalid recipient",
]
CLASSES = [
    *((text, ChannelError.PERMANENT) for text in PERMANENT),
    ("ambiguous: three contacts match this recipient", ChannelError.PERMANENT),
    ("message is too long", ChannelError.TOO_LONG),
    ("can't parse entities", ChannelError.FORMAT),
    ("can\N{RIGHT SINGLE QUOTATION MARK}t parse entities", ChannelError.FORMAT),
    ("too many requests", ChannelError.RATE_LIMITED),
    ("connection reset by peer", ChannelError.TRANSIENT),
    ("internal server error", ChannelError.TRANSIENT),
    ("", ChannelError.TRANSIENT),
]


@clause("12.5")
@pytest.mark.parametrize(("text", "expected"), CLASSES)
def test_each_text_has_its_class_in_any_case_and_inside_other_words(text: str, expected: ChannelError) -> None:
    for said in (text, text.upper(), text.title(), f"Error 400: Bad Request: {text} (code 7)\ntrace"):
        assert classify_channel_error(said) is expected
        assert classify_channel_error(said, status=400) is expected


@clause("12.5")
@pytest.mark.parametrize(
    "text",
    [
        "recipient list is ambiguous",
        "ambiguous column name\nrecipient: none",
        "chat  not found",
        "the message is long",
        "user was not found",
    ],
)
def test_a_text_that_only_resembles_a_pattern_is_transient(text: str) -> None:
    assert classify_channel_error(text) is ChannelError.TRANSIENT


@clause("12.5")
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (413, ChannelError.TOO_LONG),
        (429, ChannelError.RATE_LIMITED),
        (None, ChannelError.TRANSIENT),
        (400, ChannelError.TRANSIENT),
        (403, ChannelError.TRANSIENT),
        (404, ChannelError.TRANSIENT),
        (500, ChannelError.TRANSIENT),
        (503, ChannelError.TRANSIENT),
    ],
)
def test_a_status_alone_is_enough_only_for_too_long_and_rate_limited(
    status: int | None, expected: ChannelError
) -> None:
    assert classify_channel_error("refused", status) is expected


@clause("12.5")
def test_a_telling_status_outranks_a_text_that_may_quote_the_message() -> None:
    assert classify_channel_error("wait before sending 'chat not found'", 429) is ChannelError.RATE_LIMITED
    assert classify_channel_error("413 on 'chat not found'", 413) is ChannelError.TOO_LONG


@clause("12.5")
@pytest.mark.parametrize("text", PERMANENT)
def test_a_permanent_text_outranks_the_other_texts(text: str) -> None:
    assert classify_channel_error(f"too many requests; message is too long; {text}") is ChannelError.PERMANENT


@clause("12.5")
@given(text=st.text(), status=st.none() | st.integers())
def test_every_text_and_status_has_a_class(text: str, status: int | None) -> None:
    assert classify_channel_error(text, status) in set(ChannelError)


@clause("12.5")
@given(before=st.text(max_size=50), pattern=st.sampled_from(PERMANENT), after=st.text(max_size=50))
def test_a_permanent_pattern_is_found_wherever_it_stands(before: str, pattern: str, after: str) -> None:
    assert classify_channel_error(before + pattern + after) is ChannelError.PERMANENT


def test_only_the_beginning_of_a_huge_text_is_read() -> None:
    assert classify_channel_error("x" * 8_178 + "chat not found") is ChannelError.PERMANENT
    assert classify_channel_error("x" * 8_179 + "chat not found") is ChannelError.TRANSIENT
    assert classify_channel_error("ambiguous " * 2_000_000) is ChannelError.TRANSIENT

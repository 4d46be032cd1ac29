"""Parts of a text that was too long: each fits, none is empty, and together they are the text."""

from hypothesis import given
from hypothesis import strategies as st

from restante.policy.channel_platforms import Counting, measure
from restante.runtime.channels.plain_text_parts import next_part


@given(
    text=st.text(st.sampled_from("ab \n.é👍🏽e\u0301"), min_size=1, max_size=400),
    limit=st.integers(64, 200),
    counting=st.sampled_from(Counting),
)
def test_parts_fit_and_rejoin_to_the_text_but_for_blanks(text: str, limit: int, counting: Counting) -> None:
    offset: int | None = 0
    parts = []
    while offset is not None:
        part = next_part(text, offset=offset, limit=limit, counting=counting)
        assert part.text
        assert part.next_offset is None or part.next_offset >= offset + len(part.text)
        assert measure(part.text, counting) <= limit
        parts.append(part.text)
        offset = part.next_offset
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_a_part_ends_between_words_where_it_can() -> None:
    part = next_part("one two three four", offset=0, limit=9, counting=Counting.CODE_POINTS)
    assert (part.text, part.next_offset) == ("one two", 8)

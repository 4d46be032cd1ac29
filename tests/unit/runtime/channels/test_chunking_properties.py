"""runtime/channels: what holds for the chunks of any Markdown, on every platform, at any limit."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from restante.policy.channel_platforms import MIN_LIMIT, Platform
from restante.runtime.channels.chunking import Chunk, Rendered, chunk, rechunk, render
from support.channels.markdown_cases import (
    DOCUMENTS,
    HTML_TAGS,
    assert_balanced,
    grapheme_starts,
    parsed_html,
    seen_text,
    squeezed,
    units,
)
from support.spec.clauses import clause

PLATFORMS = st.sampled_from(list(Platform))
LIMITS = st.integers(min_value=MIN_LIMIT, max_value=400)
EXAMPLES = 150


def cut(markdown: str, platform: Platform, limit: int) -> tuple[Rendered, list[Chunk]]:
    rendered = render(markdown, platform)
    return rendered, chunk(rendered, limit=limit)


@clause("12.3")
@settings(max_examples=EXAMPLES)
@given(markdown=DOCUMENTS, platform=PLATFORMS, limit=LIMITS)
@example(markdown="> " * 19 + "```\n" + ("> " * 19 + "x\n") * 30, platform=Platform.DISCORD, limit=MIN_LIMIT)
@example(markdown="[" + "x" * 90 + "](https://e.example/" + "&" * 300 + ")", platform=Platform.MATRIX, limit=80)
def test_no_chunk_is_longer_than_the_limit_in_the_platforms_own_count(
    markdown: str, platform: Platform, limit: int
) -> None:
    for each in cut(markdown, platform, limit)[1]:
        assert units(each.text, platform) <= limit
        plain_as = Platform.OTHER if platform is Platform.TELEGRAM else platform
        assert units(each.plain, plain_as) <= limit


@clause("12.3")
@settings(max_examples=EXAMPLES)
@given(markdown=DOCUMENTS, platform=PLATFORMS, limit=LIMITS)
def test_tags_and_fences_are_balanced_in_every_chunk(markdown: str, platform: Platform, limit: int) -> None:
    for each in cut(markdown, platform, limit)[1]:
        assert_balanced(each.text, platform)


@clause("12.3")
@settings(max_examples=EXAMPLES)
@given(markdown=DOCUMENTS, platform=PLATFORMS, limit=LIMITS)
def test_the_chunks_together_are_the_whole_visible_text_but_for_blanks_at_cuts(
    markdown: str, platform: Platform, limit: int
) -> None:
    rendered, chunks = cut(markdown, platform, limit)
    position = 0
    for each in chunks:
        assert position <= each.start < each.end
        assert not rendered.visible[position : each.start].strip()
        assert squeezed(each.plain) == squeezed(rendered.visible[each.start : each.end])
        position = each.end
    assert not rendered.visible[position:].strip()


@settings(max_examples=EXAMPLES)
@given(markdown=DOCUMENTS, platform=st.sampled_from(list(HTML_TAGS)), limit=LIMITS)
def test_an_html_parser_reads_the_visible_text_out_of_every_chunk(
    markdown: str, platform: Platform, limit: int
) -> None:
    rendered, chunks = cut(markdown, platform, limit)
    for each in chunks:
        read = squeezed(parsed_html(each.text, platform).text)
        shown_bare = squeezed(rendered.visible[each.start : each.end])
        assert read == (squeezed(seen_text(rendered, each)) or ("" if "<hr>" in each.text else shown_bare))


@clause("12.3")
@settings(max_examples=EXAMPLES)
@given(markdown=DOCUMENTS, platform=PLATFORMS, limit=LIMITS)
@example(markdown="\U0001f1e6\U0001f1e7" * 60, platform=Platform.IRC, limit=65)
@example(markdown="a" + "\u0301" * 500, platform=Platform.TELEGRAM, limit=MIN_LIMIT)
def test_no_grapheme_is_split_unless_it_is_longer_than_a_chunk(markdown: str, platform: Platform, limit: int) -> None:
    rendered, chunks = cut(markdown, platform, limit)
    starts = grapheme_starts(rendered.visible)
    for place, each in enumerate(chunks):
        assert each.splits_grapheme or each.end in starts
        assert (place and chunks[place - 1].splits_grapheme) or each.start in starts
        if each.splits_grapheme:
            assert not starts & set(range(each.start + 1, each.end + 1))


@settings(max_examples=EXAMPLES)
@given(markdown=DOCUMENTS, platform=PLATFORMS, limit=LIMITS)
def test_a_chunk_is_never_blank(markdown: str, platform: Platform, limit: int) -> None:
    rendered, chunks = cut(markdown, platform, limit)
    assert all(each.text.strip() and each.plain.strip() for each in chunks)
    assert rendered.is_empty == (not chunks)


@clause("12.3")
@settings(max_examples=EXAMPLES // 2)
@given(markdown=DOCUMENTS, platform=PLATFORMS)
def test_a_refused_chunk_is_cut_again_into_the_same_text(markdown: str, platform: Platform) -> None:
    rendered, chunks = cut(markdown, platform, 300)
    for each in chunks:
        again = rechunk(rendered, each, limit=100)
        assert rechunk(rendered, each, limit=300) == [each]
        assert all(units(part.text, platform) <= 100 for part in again)
        assert squeezed("".join(rendered.visible[part.start : part.end] for part in again)) == squeezed(
            rendered.visible[each.start : each.end]
        )


@clause("12.3")
@pytest.mark.parametrize(("platform", "letters"), [(Platform.OTHER, 100), (Platform.MATRIX, 76)])
def test_a_blank_line_of_code_that_a_refused_chunk_begins_with_stays(platform: Platform, letters: int) -> None:
    rendered, chunks = cut(f"```\n{'a' * letters}\n\nb\n```", platform, 100)
    assert [each.plain for each in chunks] == ["a" * letters, "\nb"]
    assert rechunk(rendered, chunks[1], limit=100) == [chunks[1]]


OWN_LIMITS = [
    (Platform.TELEGRAM, 4_096),
    (Platform.DISCORD, 2_000),
    (Platform.SLACK, 4_000),
    (Platform.WHATSAPP, 65_536),
    (Platform.SIGNAL, 65_536),
    (Platform.LINE, 5_000),
    (Platform.IRC, 340),
    (Platform.EMAIL, 100_000),
    (Platform.MATRIX, 4_000),
    (Platform.OTHER, 4_000),
]


@clause("12.3")
@pytest.mark.parametrize(("platform", "limit"), OWN_LIMITS)
@pytest.mark.parametrize("character", ["x", "\u00e9", "\u6f22", "\U0001f600"])
def test_a_text_of_one_kind_of_character_fills_a_chunk_to_the_platforms_limit(
    platform: Platform, limit: int, character: str
) -> None:
    cost = units(character, platform)
    first, second = chunk(render(character * (limit // cost + 1), platform))
    wrapped = units(first.text, platform) - units(character, platform) * (first.end - first.start)
    assert first.end == (limit - wrapped) // cost
    assert second.end - second.start + first.end == limit // cost + 1

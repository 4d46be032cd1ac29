"""Every example of the CommonMark specification renders for every platform, in balance and without losing text."""

import json
from pathlib import Path

import pytest

from restante.policy.channel_platforms import RULES, Platform
from restante.runtime.channels.chunking import chunk, render
from support.channels.markdown_cases import assert_balanced, squeezed, units
from support.spec.clauses import clause

EXAMPLES = json.loads((Path(__file__).parent / "commonmark_examples.json").read_text("utf-8"))


def test_the_corpus_is_whole() -> None:
    assert [example["example"] for example in EXAMPLES] == list(range(1, 653))


@clause("12.2", "12.3")
@pytest.mark.parametrize("limit", [None, 64])
@pytest.mark.parametrize("platform", Platform)
def test_every_example_renders_balanced_and_within_the_limit(platform: Platform, limit: int | None) -> None:
    for example in EXAMPLES:
        rendered = render(example["markdown"], platform)
        chunks = chunk(rendered, limit=limit)
        for each in chunks:
            assert_balanced(each.text, platform)
            assert units(each.text, platform) <= (limit or RULES[platform].chunk_limit), example["example"]
        assert squeezed("".join(each.plain for each in chunks)) == squeezed(rendered.visible), example["example"]


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


@pytest.mark.parametrize("platform", Platform)
def test_all_examples_in_one_document_keep_the_words_of_each(platform: Platform) -> None:
    """A rule stands between two examples, so that none continues the one before it."""
    plain = [example["markdown"] for example in EXAMPLES if example["section"] == "Paragraphs"]
    shown = "".join(each.plain for each in chunk(render("\n\n***\n\n".join(plain), platform)))
    assert letters(shown) == letters("".join(plain))

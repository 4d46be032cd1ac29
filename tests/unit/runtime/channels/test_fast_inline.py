"""runtime/channels/rendering: what is read the short way is what markdown-it reads, and work grows with the text."""

import re
import sys
from types import FrameType

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from restante.policy.channel_platforms import Platform
from restante.runtime.channels.chunking import chunk, render
from restante.runtime.channels.rendering.fast_inline import Step, quick_steps
from restante.runtime.channels.rendering.markdown_parser import MAX_NESTING, Document
from restante.runtime.channels.text_breaks import grapheme_boundary
from support.channels.markdown_cases import DOCUMENTS, grapheme_starts

INLINE = st.lists(
    st.sampled_from(
        [
            *("*", "**", "_", "__", "~~", "~", "`", "``", "[", "]", "!", "\\", "&", "<", ">", "\n", " ", "  ", "\t"),
            *("a", "b c", "word", ".", "(", ")", "1", "\u00e9", "\u6f22", "\U0001f642", "\u0301", "\u3000", "\u2014"),
            *("](https://e.example/a)", "[a](https://e.example)", "[*a*](https://e.example/b_c?d=e&f;)", "[r]"),
            *(
                "<https://e.example/a>",
                "<https://xn--mnchen-3ya.example>",
                "<a@b.example>",
                "&amp;",
                "&#42;",
                "&x",
                "\\\n",
            ),
            *("*a*", "**b**", "`c`", "~~d~~", "__e__", " *f ", "g* ", " x ", ": "),
        ]
    ),
    max_size=25,
).map("".join)
BLOCKS = st.lists(
    st.sampled_from(
        [
            *(
                "a",
                "word",
                "1. ",
                "2) ",
                "- ",
                "* ",
                "+ ",
                "> ",
                "# ",
                "---",
                "===",
                "|a|b|",
                "|-|-|",
                ":-:",
                "```",
                "~~~",
            ),
            *(
                "\n",
                "\n\n",
                "\n",
                " ",
                "  ",
                "    ",
                "\t",
                "\na\n",
                "\n- b",
                "\n  c",
                "\n> ",
                "[r]: /u",
                "\u00e9",
                "x | y",
            ),
        ]
    ),
    max_size=25,
).map("".join)


def judge() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTING}).enable(["table", "strikethrough"])
    return parser.disable(["html_block", "html_inline"])


JUDGE = judge()


def read_by_markdown_it(text: str, env: dict[str, object]) -> list[Step]:
    (whole,) = JUDGE.parseInline(text, env)
    return [
        (token.type.replace("hardbreak", "softbreak"), token.content, str(token.attrs.get("href", "")))
        for token in whole.children or []
        if token.type != "text" or token.content
    ]


@settings(max_examples=500)
@given(text=INLINE, has_references=st.booleans())
@example(text="**Note:** the *second* `x` of [*it*](https://e.example/a)", has_references=True)
@example(text="[a] ![b] snake_case 2 * 3 \\* `` ` ``", has_references=False)
def test_text_read_the_short_way_is_read_as_markdown_it_reads_it(text: str, has_references: bool) -> None:
    steps = quick_steps(text, has_references=has_references)
    env: dict[str, object] = {"references": {"R": {"href": "/u", "title": ""}}} if has_references else {}
    assert steps is None or steps == read_by_markdown_it(text, env)


@pytest.mark.parametrize(
    "text",
    [
        "plain words, (brackets) and - signs: 100% & more!",
        "a *b* **c** _d_ __e__ ~~f~~ `g` [h](https://e.example/i_j?k=1)",
        "**Note:** a **bold *and* so on** line\nand a snake_case_name",
        "- [ ] as a box, [x] and 2 * 3 < 4 > 1",
        "<https://e.example> and \\*stars\\*",
    ],
)
def test_what_people_mostly_write_is_read_the_short_way(text: str) -> None:
    assert quick_steps(text, has_references=False) is not None


@settings(max_examples=200)
@given(markdown=BLOCKS | DOCUMENTS)
@example(markdown="- a\nb\n- c\n\n  d\n1. e\n")
@example(markdown="> a\nb\n- c\n===\n")
def test_prose_makes_the_blocks_that_markdown_it_makes(markdown: str) -> None:
    ours = [(token.type, token.content, token.level, token.hidden) for token in Document(markdown).blocks]
    theirs = [(token.type, token.content, token.level, token.hidden) for token in JUDGE.parse(printable(markdown))]
    assume(all(level < MAX_NESTING - 3 for _, _, level, _ in theirs))  # deeper ones it loses and we do not
    assert ours == theirs


def printable(markdown: str) -> str:
    """Neither side is asked about characters that no message contains."""
    return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]", "\ufffd", markdown)


class CallCount:
    """Counts calls of functions, in Python and in C, as a measure of work that no busy machine disturbs."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, _frame: FrameType, event: str, _argument: object) -> None:
        self.calls += event in ("call", "c_call")


def calls_for(markdown: str, platform: Platform, *, limit: int) -> int:
    count = CallCount()
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        chunk(render(markdown, platform), limit=limit)
    finally:
        sys.setprofile(before)
    return count.calls


SHAPES = {
    "page": "Some *words* and **more** of [them](https://e.example/a), `too`.\n\n- one\n- two\n\n",
    "one paragraph": "Words *and* words. ",
    "quotes": "> a\n> > b\n\n",
    "tables": "|a|b|\n|-|-|\n|c|d|\n\n",
    "opening brackets": "[",
    "images never closed": "![[",
    "links never closed": "[a](",
    "stars": "*",
    "marks never closed": "*a _b ",
    "marks inside words": "a**b",
    "backticks": "`a``",
    "angles": "<a:",
    "entities": "&a",
    "nested items": "- ",
    "nested quotes": ">",
    "references": "[a]: b 'c\n",
    "one grapheme": "\u0301",
    "families": "\U0001f469\u200d",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_text_is_at_most_about_twice_the_work(shape: str) -> None:
    once = SHAPES[shape] * (2_000 // len(SHAPES[shape]))
    first, second = (calls_for(text, Platform.DISCORD, limit=100) for text in (once, once * 2))
    assert second <= 2.4 * first


@pytest.mark.parametrize("flags", ["\U0001f1e6", "\U0001f1e6\u0301", "\U0001f1e6\U0001f1e7 "])
def test_a_boundary_among_flags_is_found_without_looking_at_all_of_them(flags: str) -> None:
    text = "\u0600" + flags * 30
    starts = grapheme_starts(text)
    for position in range(len(text)):
        assert grapheme_boundary(text, 0, position) == max(start for start in starts if start <= position)


@given(
    text=st.text(
        st.sampled_from("a\n\U0001f1e6\U0001f1e7\u0301\u200d\u0600\U0001f469\u1100\u1161\u0915\u094d"), max_size=30
    )
)
def test_the_last_boundary_is_that_of_the_whole_text(text: str) -> None:
    starts = grapheme_starts(text)
    for position in range(len(text)):
        assert grapheme_boundary(text, 0, position) == max(start for start in starts if start <= position)


@pytest.mark.parametrize("lead", ["> ", ">", "- ", "1. ", "- > "])
def test_what_is_nested_too_deep_is_text_and_not_lost(lead: str) -> None:
    (only,) = chunk(render(lead * 60 + "word", Platform.OTHER))
    assert only.plain.endswith("word")


def test_no_more_chunks_are_cut_than_asked_for() -> None:
    rendered = render("line\n" * 50, Platform.IRC)
    assert len(chunk(rendered)) == 50
    assert chunk(rendered, at_most=3) == chunk(rendered)[:3]

"""runtime/channels/rendering: what each platform gets for each construct, and what it never gets."""

import re

import commonmark
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from restante.model.errors import OutOfRange
from restante.policy.channel_platforms import MIN_LIMIT, Platform
from restante.runtime.channels.chunking import chunk, rechunk, render
from restante.runtime.channels.rendering.markdown_parser import (
    MAX_INLINE_MARKS,
    MAX_LINES,
    MAX_TABLE_BARS,
    QuickLinks,
)
from support.channels.markdown_cases import ZERO_WIDTH, parsed_html
from support.spec.clauses import clause

TG, DC, SL, WA = Platform.TELEGRAM, Platform.DISCORD, Platform.SLACK, Platform.WHATSAPP
MX, ML, IRC, PLAIN = Platform.MATRIX, Platform.EMAIL, Platform.IRC, Platform.OTHER


def text_for(platform: Platform, markdown: str) -> str:
    return "\n".join(each.text for each in chunk(render(markdown, platform)))


@clause("12.2")
@pytest.mark.parametrize("platform", Platform)
def test_a_byte_order_mark_is_not_part_of_the_text(platform: Platform) -> None:
    assert text_for(platform, "\ufeff# Title\n\ntext") == text_for(platform, "# Title\n\ntext")


@clause("12.2")
@pytest.mark.parametrize("mark", [">", "-"])
@pytest.mark.parametrize("before", ["", "first\n", "> ", "**bold**\\\n"])
def test_an_escaped_mark_begins_no_quote_and_no_list(mark: str, before: str) -> None:
    for platform in (WA, SL):
        last = text_for(platform, f"{before}\\{mark} text").split("\n")[-1]
        shown = "&gt;" if (platform, mark) == (SL, ">") else mark
        assert last.removeprefix("> ") == f"{ZERO_WIDTH}{shown} text"


@clause("12.2")
@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        (
            "**b** *i* ~~s~~ `c`",
            {
                TG: "<b>b</b> <i>i</i> <s>s</s> <code>c</code>",
                DC: "**b** *i* ~~s~~ `c`",
                SL: "*b* _i_ ~s~ `c`",
                WA: "*b* _i_ ~s~ `c`",
                MX: "<p><strong>b</strong> <em>i</em> <del>s</del> <code>c</code></p>",
                ML: "<p><strong>b</strong> <em>i</em> <del>s</del> <code>c</code></p>",
                IRC: "\x02b\x02 \x1di\x1d \x1es\x1e \x11c\x11",
                PLAIN: "b i s c",
            },
        ),
        (
            "[the page](https://e.example/a_b?x=1&y=2)",
            {
                TG: '<a href="https://e.example/a_b?x=1&amp;y=2">the page</a>',
                DC: "[the page](<https://e.example/a_b?x=1&y=2>)",
                SL: "<https://e.example/a_b?x=1&amp;y=2|the page>",
                WA: "the page (https://e.example/a_b?x=1&y=2)",
                MX: '<p><a href="https://e.example/a_b?x=1&amp;y=2">the page</a></p>',
                IRC: "the page (https://e.example/a_b?x=1&y=2)",
                PLAIN: "the page (https://e.example/a_b?x=1&y=2)",
            },
        ),
        (
            "<https://e.example/a_b>",
            {
                TG: '<a href="https://e.example/a_b">https://e.example/a_b</a>',
                DC: "<https://e.example/a_b>",
                SL: "<https://e.example/a_b|https://e.example/a_b>",
                PLAIN: "https://e.example/a_b",
            },
        ),
        (
            "![a cat](https://i.example/cat.png)",
            {TG: '<a href="https://i.example/cat.png">a cat</a>', PLAIN: "a cat (https://i.example/cat.png)"},
        ),
        (
            "# Head\n\ntext",
            {TG: "<b>Head</b>\n\ntext", DC: "# Head\n\ntext", SL: "*Head*\n\ntext", MX: "<h1>Head</h1><p>text</p>"},
        ),
        (
            "```python\nif a < b:\n    pass\n```",
            {
                TG: '<pre><code class="language-python">if a &lt; b:\n    pass</code></pre>',
                DC: "```python\nif a < b:\n    pass\n```",
                SL: "```\nif a &lt; b:\n    pass\n```",
                WA: "```\nif a < b:\n    pass\n```",
                PLAIN: "if a < b:\n    pass",
            },
        ),
        (
            "> one\n> > two",
            {
                TG: "<blockquote>one\n\ntwo</blockquote>",
                DC: "> one\n> \n> > two",
                MX: "<blockquote><p>one</p><blockquote><p>two</p></blockquote></blockquote>",
                IRC: "> one\n> > two",
            },
        ),
        (
            "- a\n  1. b\n  2. c\n- d",
            {
                TG: "\u2022 a\n  1. b\n  2. c\n\u2022 d",
                DC: "- a\n  1. b\n  2. c\n- d",
                MX: "<ul><li>a<ol><li>b</li><li>c</li></ol></li><li>d</li></ul>",
                PLAIN: "\u2022 a\n  1. b\n  2. c\n\u2022 d",
            },
        ),
        (
            "| a | long |\n|---|---|\n| 1 | **2** |",
            {
                TG: "<pre><code>a | long\n--+-----\n1 | 2</code></pre>",
                DC: "```\na | long\n--+-----\n1 | 2\n```",
                PLAIN: "a | long\n--+-----\n1 | 2",
            },
        ),
        ("one  \ntwo\nthree", {TG: "one\ntwo\nthree", MX: "<p>one<br>two<br>three</p>", IRC: "one\ntwo\nthree"}),
        ("a\n\n---\n\nb", {TG: "a\n\n---\n\nb", MX: "<p>a</p><hr><p>b</p>"}),
    ],
)
def test_each_construct_has_its_form_on_each_platform(markdown: str, expected: dict[Platform, str]) -> None:
    assert {platform: text_for(platform, markdown) for platform in expected} == expected


@pytest.mark.parametrize("platform", Platform)
@pytest.mark.parametrize("markdown", ["", " \n\t\n", "[a]: https://e.example", "<!-- -->".replace("<!-- -->", "\n\n")])
def test_nothing_to_see_is_nothing_to_send(platform: Platform, markdown: str) -> None:
    rendered = render(markdown, platform)
    assert rendered.is_empty
    assert chunk(rendered) == []


@pytest.mark.parametrize("platform", [TG, MX, ML])
@given(text=st.text(st.sampled_from("<>&\"'/ab=! -")))
def test_html_in_markdown_is_shown_as_text_never_passed_on(platform: Platform, text: str) -> None:
    for markdown in (text, f"<b {text}>", f"<div>{text}</div>", f"`{text}`", f"[{text}](https://e.example/{text})"):
        for each in chunk(render(markdown, platform)):
            assert all(href.startswith("https://e.example/") for href in parsed_html(each.text, platform).hrefs)


@pytest.mark.parametrize("platform", Platform)
@pytest.mark.parametrize(
    "href",
    ["javascript:alert(1)", "JaVaScRiPt:x", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "//e.example", "x"],
)
def test_only_safe_schemes_become_links(platform: Platform, href: str) -> None:
    text = text_for(platform, f"[label]({href}) ![image]({href}) <{href}>")
    assert "label" in text
    assert "href" not in text
    assert "](<" not in text
    assert not re.search(r"<[^>]*\|", text)


@given(text=st.text(st.sampled_from("*_~`<>[]()#@|\\-+ab1.!:/ ")))
def test_discords_escapes_leave_nothing_but_text_for_another_parser(text: str) -> None:
    """As a fence's neighbour nothing of the source is markup, so nothing of the result may be."""
    source = "".join(f"&#{ord(character)};" for character in text)
    (*_, written) = [each.text for each in chunk(render(f"x {source} x", DC))]
    kinds = {node.t for node, entering in commonmark.Parser().parse(written).walker() if entering}
    assert kinds <= {"document", "paragraph", "text", "softbreak"}


@pytest.mark.parametrize(
    "markdown",
    ["@everyone", "**@**everyone", "a @here", "<@1>", "<@&1>", "`` ` ``@everyone", "[x](https://e.example/@everyone)"],
)
def test_discord_is_never_told_to_wake_everyone(markdown: str) -> None:
    text = text_for(DC, markdown)
    assert not re.search(r"@everyone|@here|(?<!\\)<@", text)


def test_marks_that_merge_do_not_make_a_mention() -> None:
    assert "@everyone" not in text_for(DC, "**@****everyone****")


@given(text=st.text(st.sampled_from("<>&!@#UC|abc ")))
def test_slack_gets_no_angle_bracket_but_those_of_our_links(text: str) -> None:
    written = text_for(SL, f"{text} `{text}`")
    assert all(found.startswith(("http", "mailto:")) for found in re.findall("<([^>]*)", written))


def test_a_literal_mark_touches_no_word_where_it_cannot_be_escaped() -> None:
    for platform in (SL, WA):
        written = text_for(platform, r"\*not bold\* snake_case_name 2 \* 3")
        assert written.replace(ZERO_WIDTH, "") == "*not bold* snake_case_name 2 * 3"
        assert "*not" not in written
        assert "bold*" not in written
        assert "snake_case_name" in written


@pytest.mark.parametrize("markdown", ["a&#13;&#10;QUIT :x", "a&#10;QUIT", "`a\nb`", "a\rQUIT", "a\x00\x02b"])
def test_no_line_end_or_control_code_reaches_irc_through_text(markdown: str) -> None:
    for each in chunk(render(markdown, IRC)):
        assert not re.search("[\x00-\x10\x12-\x1c\x1f]", each.text)


@clause("12.3")
def test_a_fence_is_closed_and_opened_again_with_its_language() -> None:
    code = "\n".join(f"line {number}" for number in range(40))
    chunks = chunk(render(f"> ```python\n> {code.replace(chr(10), chr(10) + '> ')}\n> ```", DC), limit=100)
    assert len(chunks) > 3
    for each in chunks:
        assert each.text.startswith("> ```python\n> line ")
        assert each.text.endswith("\n> ```")
    lines = [line.removeprefix("> ") for each in chunks for line in each.text.split("\n")]
    assert [line for line in lines if not line.startswith("```")] == code.split("\n")


@clause("12.3")
def test_a_link_that_is_cut_is_a_link_on_both_sides() -> None:
    first, second = chunk(render(f"[{'word ' * 30}](https://e.example)", TG), limit=120)
    assert parsed_html(first.text, TG).hrefs == parsed_html(second.text, TG).hrefs == ["https://e.example"]


def test_an_ordered_list_goes_on_with_its_number() -> None:
    _, second = chunk(render(f"5. {'a' * 60}\n6. {'b' * 60}", MX), limit=110)
    assert second.text == f'<ol start="6"><li>{"b" * 60}</li></ol>'


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("a" * 40 + "\n\n" + "b" * 20 + ". " + "c" * 30, "a" * 40),
        ("a" * 40 + "\n" + "b" * 10 + ". " + "c" * 30, "a" * 40),
        ("a" * 40 + ". " + "b" * 10 + " " + "c" * 30, "a" * 40 + "."),
        ("a" * 40 + " " + "b" * 50, "a" * 40),
        ("a" * 80, "a" * 64),
        ("a" * 63 + "e\u0301" + "b" * 20, "a" * 63),
    ],
)
@clause("12.3")
def test_the_best_place_in_reach_is_taken(text: str, first: str) -> None:
    assert chunk(render(text, PLAIN), limit=MIN_LIMIT)[0].text == first


def test_plain_text_stands_by_for_a_refused_format() -> None:
    (only,) = chunk(render("> **a** [b](https://e.example) <i>", TG))
    assert only.plain == "> a b (https://e.example) <i>"


def test_a_limit_too_small_for_marks_is_refused_with_the_range() -> None:
    rendered = render("text", TG)
    with pytest.raises(OutOfRange, match=r"limit of a chunk = 63 is outside 64\.\.4096"):
        chunk(rendered, limit=MIN_LIMIT - 1)
    with pytest.raises(OutOfRange):
        rechunk(rendered, chunk(rendered)[0], limit=0)


@pytest.mark.parametrize(
    "markdown",
    [
        "*a*\n" * (MAX_LINES + 1),
        "**a** " * (MAX_INLINE_MARKS // 2),
        "|a|b|\n|-|-|\n" + "|*a*|b|\n" * (MAX_TABLE_BARS // 3),
    ],
    ids=["lines", "marks", "cells"],
)
def test_a_document_beyond_the_budgets_is_shown_as_written(markdown: str) -> None:
    shown = "".join(each.plain for each in chunk(render(markdown, PLAIN)))
    assert "".join(shown.split()) == "".join(markdown.split()).replace("*a*", "a" if "|" in markdown else "*a*")


@given(rest=st.text(st.sampled_from("abzAZ09._~/?=&+,;:-%@#|[]()\u00e9 ")))
@example(rest="e.example/a_b?x=1&y=%41")
@example(rest="..")
def test_the_short_way_for_plain_addresses_gives_the_address_that_markdown_it_gives(rest: str) -> None:
    usual, ours = MarkdownIt("commonmark"), QuickLinks("commonmark")
    for url in (f"https://{rest}", f"http://e.example/{rest}"):
        assert ours.normalizeLink(url) == usual.normalizeLink(url)

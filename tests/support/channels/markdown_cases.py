"""Markdown made to hurt, and judges that share no code with the renderer: an HTML parser, counting, graphemes."""

from html.parser import HTMLParser

import regex
from hypothesis import strategies as st

from restante.policy.channel_platforms import RULES, Platform
from restante.runtime.channels.chunking import DIALECTS, Chunk, Rendered
from restante.runtime.channels.rendering.text_runs import Role

ZERO_WIDTH = "\u200b"
TELEGRAM_TAGS = {"b", "i", "s", "a", "code", "pre", "blockquote"}
MATRIX_TAGS = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "p", "a", "ul", "ol", "li"),
    *("strong", "em", "del", "code", "pre", "br", "hr"),
}
VOID = {"br", "hr"}
HTML_TAGS = {Platform.TELEGRAM: TELEGRAM_TAGS, Platform.MATRIX: MATRIX_TAGS, Platform.EMAIL: MATRIX_TAGS}
FENCED = (Platform.DISCORD, Platform.SLACK, Platform.WHATSAPP)

WORDS = st.sampled_from(
    [
        *(
            "word",
            "longer_word",
            "Sentence. Next",
            "*em*",
            "**strong**",
            "***both***",
            "~~gone~~",
            "`code`",
            "`` ` ``",
            "** x",
            "_",
        ),
        *(
            "[label](https://e.example/a_b?x=1&y=2)",
            "[x](javascript:alert(1))",
            "<https://auto.example/a_b>",
            "<a@b.example>",
        ),
        *(
            "![alt](https://i.example/p.png)",
            "[![alt](https://i.example/p)](https://e.example)",
            "[**l**](http://e.example/(a))",
        ),
        *(
            "<b>",
            "</blockquote>",
            "<!channel>",
            "<@U1>",
            "@everyone",
            "@here",
            "&amp;",
            "&#10;",
            "&#13;&#10;QUIT",
            "&lt;script&gt;",
        ),
        *(
            "e\u0301",
            "a" + "\u0301" * 90,
            "\U0001f469\u200d\U0001f469\u200d\U0001f466",
            "\U0001f1e6\U0001f1e7\U0001f1e8",
            "\u0915\u094d\u0937",
        ),
        *(
            "\u6f22\u5b57\u3002",
            "x" * 150,
            "\U0001f600" * 40,
            "\\*",
            "\\",
            "```",
            "|",
            "\r",
            "\u200d",
            "*\u0301*",
            "\x02",
            "\x1b[0m",
        ),
    ]
)
LINES = st.lists(WORDS | st.text(max_size=8), min_size=1, max_size=8).map(" ".join)
BLOCKS: st.SearchStrategy[str] = st.deferred(
    lambda: st.one_of(
        LINES,
        LINES.map(lambda line: f"# {line}"),
        LINES.map(lambda line: f"{line}\n==="),
        st.tuples(LINES, st.sampled_from(["", "py", "c++ x", "<b>", "`"])).map(
            lambda pair: f"```{pair[1]}\n{pair[0]}\n  {pair[0]}\n```"
        ),
        st.just("---"),
        st.lists(LINES, min_size=1, max_size=3).map(
            lambda rows: "| a | b |\n|---|---|\n" + "\n".join(f"| {row} | {row} |" for row in rows)
        ),
        BLOCKS.map(lambda block: "> " + block.replace("\n", "\n> ")),
        BLOCKS.map(lambda block: "- " + block.replace("\n", "\n  ")),
        BLOCKS.map(lambda block: "7. " + block.replace("\n", "\n   ")),
        st.tuples(LINES, LINES).map(lambda pair: f"{pair[0]}  \n{pair[1]}"),
    )
)
DOCUMENTS = st.lists(BLOCKS, min_size=1, max_size=5).map("\n\n".join) | st.text(max_size=300)


class StrictHtml(HTMLParser):
    """Refuses a tag that is unknown, left open or closed out of turn; collects the text."""

    def __init__(self, allowed: set[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.allowed = allowed
        self.open: list[str] = []
        self.text = ""
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.allowed, tag
        assert {name for name, _ in attrs} <= {"href", "class", "start"}, attrs
        self.hrefs += [value or "" for name, value in attrs if name == "href"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"comment {data}")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(f"declaration {decl}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"instruction {data}")


def parsed_html(text: str, platform: Platform) -> StrictHtml:
    parser = StrictHtml(HTML_TAGS[platform])
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


def units(text: str, platform: Platform) -> int:
    """The length as the platform counts it, told apart from the product's own counting."""
    if platform is Platform.TELEGRAM:
        text = parsed_html(text, platform).text
    if platform in (Platform.IRC, Platform.SIGNAL):
        return len(text.encode("utf-8"))
    if platform in (Platform.MATRIX, Platform.EMAIL):
        return len(text)
    return sum(2 if ord(character) > 0xFFFF else 1 for character in text)


def assert_balanced(text: str, platform: Platform) -> None:
    if platform in HTML_TAGS:
        parsed_html(text, platform)
    elif platform in FENCED:
        assert text.count("```") % 2 == 0
    elif platform is Platform.IRC:
        assert "\n" not in text
        assert "\r" not in text
        assert all(text.count(toggle) % 2 == 0 for toggle in "\x02\x1d\x1e\x11")


def grapheme_starts(text: str) -> set[int]:
    return {found.start() for found in regex.finditer(r"\X", text)} | {len(text)}


def squeezed(text: str) -> str:
    """Without blanks, quote signs and what is only there to set marks apart."""
    return "".join(text.split()).replace(">", "").replace(ZERO_WIDTH, "")


def seen_text(rendered: Rendered, chunk: Chunk) -> str:
    """The visible text of a chunk in its own format: all of it, except what that format says by other means."""
    hidden = set(DIALECTS[RULES[rendered.platform].format].hidden)
    if rendered.platform in (Platform.MATRIX, Platform.EMAIL):
        hidden.add(Role.RULE)
    seen = ""
    for run, start in zip(rendered.message.runs, rendered.message.starts, strict=True):
        if run.role not in hidden:
            seen += run.text[max(0, chunk.start - start) : max(0, chunk.end - start)]
    return seen

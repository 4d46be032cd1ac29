"""The page about the channels' formats shows what the renderer does."""

from support.docs.channel_formats_page import FORMATS_PAGE, formats_page


def test_the_page_about_the_formats_is_current() -> None:
    assert FORMATS_PAGE.read_text("utf-8") == formats_page(), "run: make docs"

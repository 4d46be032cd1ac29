"""The page about the channels' formats shows what the renderer does."""

from channel_formats_page import FORMATS_PAGE, formats_page


def test_the_page_about_the_formats_is_current() -> None:
    assert FORMATS_PAGE.read_text("utf-8") == formats_page(), "run: python tests/channel_formats_page.py"

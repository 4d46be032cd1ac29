"""The page about the settings says what the code does."""

from pathlib import Path

from restante.cli.configuration_page import CHANNEL_MEANINGS, MEANINGS, configuration_page
from restante.model.setting_ranges import ranges_of
from restante.policy.channel_rate_limit import ChannelLimits
from restante.runtime.settings_loader import known_settings

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


def test_every_setting_is_explained_and_nothing_else() -> None:
    assert list(MEANINGS) == [setting.key for setting in known_settings()]


def test_every_option_of_all_channels_is_explained_and_nothing_else() -> None:
    assert list(CHANNEL_MEANINGS) == [declared.name for declared, _ in ranges_of(ChannelLimits)]


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == configuration_page(), "run: make docs"


def test_the_page_shows_a_setting_with_its_default_range_and_clause() -> None:
    assert "| `base_ms` | 1000 (1 s) | 100 .. 10000 ms | 4.1 |" in configuration_page()

"""Which source of a setting wins, and what is refused."""

from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.error_codes import Code
from restante.model.errors import ConfigurationInvalid, OutOfRange, RestanteError
from restante.model.setting_ranges import ranges_of
from restante.policy.settings import Settings
from restante.runtime.settings_loader import Setting, find_file, known_settings, load
from restante.runtime.testing_clock import MADE_FOR_TESTS
from support.spec.clauses import clause


def from_toml(directory: Path, text: str) -> Settings:
    file = directory / "restante.toml"
    file.write_text(text, "utf-8")
    return load(file=file, environ={}, overrides={}).settings


def from_environ(**variables: str) -> Settings:
    return load(file=None, environ=variables, overrides={}).settings


def from_flags(overrides: dict[str, str]) -> Settings:
    return load(file=None, environ={}, overrides=overrides).settings


def test_without_any_source_the_defaults_hold() -> None:
    assert load(file=None, environ={}, overrides={}).settings == Settings()


def test_every_field_of_every_section_has_a_range_and_so_is_a_setting() -> None:
    for section in fields(Settings):
        made_by = get_type_hints(Settings)[section.name]
        assert [declared.name for declared, _ in ranges_of(made_by)] == [declared.name for declared in fields(made_by)]
    assert {setting.type for setting in known_settings()} == {int, float}


def test_flags_win_over_the_environment_and_that_over_the_file_and_that_over_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "any.toml"
    file.write_text("[retry]\nbase_ms = 200\nmax_delay_ms = 70_000\nmax_attempts = 6\n", "utf-8")
    environ = {"RESTANTE_RETRY__MAX_DELAY_MS": "80000", "RESTANTE_RETRY__MAX_ATTEMPTS": "7", "HOME": "x"}
    loaded = load(file=file, environ=environ, overrides={"retry.max_attempts": "8"})
    retry = loaded.settings.retry
    assert (retry.jitter, retry.base_ms, retry.max_delay_ms, retry.max_attempts) == (0.2, 200, 80_000, 8)
    assert {key: source for key, source in loaded.sources.items() if key.startswith("retry.")} == {
        "retry.base_ms": str(file),
        "retry.max_delay_ms": "RESTANTE_RETRY__MAX_DELAY_MS",
        "retry.jitter": "default",
        "retry.max_attempts": "--set retry.max_attempts",
    }


@clause("13.1")
def test_the_place_of_the_journal_comes_from_flags_variables_and_the_file_in_this_order(tmp_path: Path) -> None:
    file = tmp_path / "any.toml"
    file.write_text("[journal]\nship_to = '/by/file'\nship_interval_ms = 500\n", "utf-8")
    variable = {"RESTANTE_JOURNAL__SHIP_TO": "s3://by/variable"}
    flag = {"journal.ship_to": "/by/flag"}
    assert load(file=None, environ={}, overrides={}).ship_to is None
    assert load(file=file, environ={}, overrides={}).ship_to == "/by/file"
    assert load(file=file, environ=variable, overrides={}).ship_to == "s3://by/variable"
    loaded = load(file=file, environ=variable, overrides=flag)
    assert (loaded.ship_to, loaded.sources["journal.ship_to"]) == ("/by/flag", "--set journal.ship_to")
    assert loaded.settings.journal.ship_interval_ms == 500


def test_a_section_with_two_words_can_be_set_from_every_source(tmp_path: Path) -> None:
    assert from_toml(tmp_path, "[channel_retry]\nmax_attempts = 9").channel_retry.max_attempts == 9
    assert from_environ(RESTANTE_CHANNEL_RETRY__MAX_ATTEMPTS="9").channel_retry.max_attempts == 9
    assert from_flags({"channel_retry.max_attempts": "9"}).channel_retry.max_attempts == 9


def test_an_integer_is_taken_where_a_fraction_is_wanted(tmp_path: Path) -> None:
    assert repr(from_toml(tmp_path, "[retry]\njitter = 0").retry.jitter) == "0.0"
    assert repr(from_flags({"retry.jitter": "0"}).retry.jitter) == "0.0"


RANGES = [
    pytest.param("retry.base_ms", 100, 10_000, marks=clause("4.1")),
    pytest.param("retry.max_delay_ms", 60_000, 86_400_000, marks=clause("4.1")),
    pytest.param("retry.max_attempts", 5, 50, marks=clause("4.1")),
    pytest.param("channel_retry.max_attempts", 1, 50, marks=clause("4.2")),
]


@pytest.mark.parametrize(("key", "low", "high"), RANGES)
def test_a_value_at_either_end_of_its_range_is_taken_and_one_beyond_refused(key: str, low: int, high: int) -> None:
    from_flags({key: str(low)})
    from_flags({key: str(high)})
    for beyond in (low - 1, high + 1):
        with pytest.raises(OutOfRange) as refused:
            from_flags({key: str(beyond)})
        assert refused.value.code is Code.OUT_OF_RANGE
        assert f"{key} = {beyond} is outside {low}..{high}" in str(refused.value)


@clause("9.2")
def test_the_dedup_window_cannot_be_shorter_than_seven_days() -> None:
    assert from_flags({"dedup.window_ms": "604800000"}).dedup.window_ms == 604_800_000
    with pytest.raises(OutOfRange, match=r"dedup\.window_ms"):
        from_flags({"dedup.window_ms": "604799999"})


@clause("4.1")
@pytest.mark.parametrize("jitter", ["-0.1", "0.51", "nan", "inf"])
def test_jitter_stays_between_nothing_and_a_half(jitter: str) -> None:
    with pytest.raises(OutOfRange, match=r"retry\.jitter .* 0\.0\.\.0\.5"):
        from_flags({"retry.jitter": jitter})


@pytest.mark.parametrize("setting", known_settings(), ids=lambda setting: setting.key)
def test_the_error_for_a_range_names_the_key_as_the_file_does(setting: Setting) -> None:
    with pytest.raises(OutOfRange) as refused:
        from_flags({setting.key: str(setting.type(setting.allowed.high + 1))})
    assert refused.value.key == setting.key


def test_the_error_for_a_range_says_who_set_the_value(tmp_path: Path) -> None:
    with pytest.raises(OutOfRange) as by_file:
        from_toml(tmp_path, "[retry]\nbase_ms = 5")
    assert by_file.value.__notes__ == [f"set by {tmp_path / 'restante.toml'}"]
    with pytest.raises(OutOfRange) as by_variable:
        from_environ(RESTANTE_RETRY__BASE_MS="5")
    assert by_variable.value.__notes__ == ["set by RESTANTE_RETRY__BASE_MS"]
    with pytest.raises(OutOfRange) as by_flag:
        from_flags({"retry.base_ms": "5"})
    assert by_flag.value.__notes__ == ["set by --set retry.base_ms"]


def test_an_unknown_key_is_refused_with_the_nearest_and_all_of_its_section(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid) as refused:
        from_toml(tmp_path, "[retry]\nbase_m = 200")
    assert str(refused.value) == (
        f"unknown setting retry.base_m ({tmp_path / 'restante.toml'}). Did you mean retry.base_ms? "
        "Section retry has base_ms, max_delay_ms, jitter, max_attempts"
    )


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("RESTANTE_RETRY__BAES_MS", "Did you mean retry.base_ms?"),
        ("RESTANTE_RETRI__BASE_MS", "Did you mean retry?"),
        ("RESTANTE_RETRY_BASE_MS", "Did you mean RESTANTE_RETRY__BASE_MS?"),
    ],
)
def test_a_slip_in_a_variable_name_is_refused_and_not_ignored(variable: str, expected: str) -> None:
    with pytest.raises(ConfigurationInvalid) as refused:
        from_environ(**{variable: "200"})
    assert variable in str(refused.value)
    assert expected in str(refused.value)


def test_variables_that_are_no_settings_are_left_alone() -> None:
    assert from_environ(RESTANTE_CONFIG="x.toml", RESTANTE_HOME="x", OTHER__KEY="1") == Settings()


@pytest.mark.parametrize("text", ["[retri]\nbase_ms = 200", "[retri]", "retri = 5"])
def test_an_unknown_section_is_refused_with_the_nearest(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"unknown section retri .*Did you mean retry\?.* dead_letters"):
        from_toml(tmp_path, text)


@pytest.mark.parametrize("key", ["retry", "retry.", ".base_ms", "", "retry.base_ms.more", "nonsense"])
def test_a_flag_without_section_and_key_is_refused(key: str) -> None:
    with pytest.raises(ConfigurationInvalid, match="unknown"):
        from_flags({key: "200"})


@pytest.mark.parametrize(
    "value", ["true", '"200"', "200.0", "[200]", "{ n = 200 }", "2026-01-01"], ids=lambda value: value.split()[0]
)
def test_a_value_of_another_type_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"retry\.base_ms must be an integer of ms, not .*restante\.toml"):
        from_toml(tmp_path, f"[retry]\nbase_ms = {value}")


def test_a_truth_value_is_no_fraction(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"retry\.jitter must be a number, not True"):
        from_toml(tmp_path, "[retry]\njitter = true")


@pytest.mark.parametrize("text", ["", "fast", "1.5", "1e3", "0x10", "1 s", "true"])
def test_a_text_that_is_no_integer_is_refused_with_its_source(text: str) -> None:
    with pytest.raises(ConfigurationInvalid) as by_variable:
        from_environ(RESTANTE_RETRY__BASE_MS=text)
    assert f"not {text!r} (RESTANTE_RETRY__BASE_MS)" in str(by_variable.value)
    with pytest.raises(ConfigurationInvalid) as by_flag:
        from_flags({"retry.base_ms": text})
    assert f"not {text!r} (--set retry.base_ms)" in str(by_flag.value)


def test_a_section_that_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"retry in .*must be a table: write \[retry\]"):
        from_toml(tmp_path, "retry = 5")


def test_broken_toml_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"restante\.toml is not valid TOML: .*line 3"):
        from_toml(tmp_path, "[retry]\nbase_ms = 200\nmax_attempts 7\njitter = 0.1\n")


def test_a_number_too_long_to_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match="is not valid TOML"):
        from_toml(tmp_path, f"[retry]\nbase_ms = {'9' * 5_000}\n")


def test_a_file_that_is_no_text_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_bytes(b"[retry]\n# \xff\n")
    with pytest.raises(ConfigurationInvalid, match=r"x\.toml is not UTF-8 text \(at line 2\)"):
        load(file=file, environ={}, overrides={})


@pytest.mark.parametrize("name", ["absent.toml", "."])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationInvalid, match="cannot read"):
        load(file=tmp_path / name, environ={}, overrides={})


@given(text=st.text(max_size=40))
def test_whatever_is_set_either_settings_or_our_own_error_come_out(text: str) -> None:
    try:
        made = from_flags({"retry.base_ms": text})
    except RestanteError:
        return
    assert made.retry.base_ms == int(text)


def test_the_file_asked_for_comes_before_the_variable_and_that_before_the_usual_place(tmp_path: Path) -> None:
    usual = tmp_path / "restante.toml"
    usual.touch()
    asked, named = Path("asked.toml"), {"RESTANTE_CONFIG": "named.toml"}
    assert find_file(asked, named, tmp_path) == asked
    assert find_file(None, named, tmp_path) == Path("named.toml")
    assert find_file(None, {"RESTANTE_CONFIG": ""}, tmp_path) == usual
    assert find_file(None, {}, tmp_path) == usual
    assert find_file(None, {}, tmp_path / "elsewhere") is None


def test_a_client_directory_made_for_tests_may_move_its_clock_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "restante.toml"
    file.write_text("[testing]\nclock_offset_ms = 7_200_000\n", "utf-8")
    for home in (None, tmp_path):
        with pytest.raises(ConfigurationInvalid, match="made for tests"):
            load(file=file, environ={}, overrides={}, home=home)
    (tmp_path / MADE_FOR_TESTS).touch()
    assert load(file=file, environ={}, overrides={}, home=tmp_path).clock_offset_ms == 7_200_000
    file.write_text("[testing]\nclock = 1\n", "utf-8")
    with pytest.raises(ConfigurationInvalid, match="clock_offset_ms"):
        load(file=file, environ={}, overrides={}, home=tmp_path)

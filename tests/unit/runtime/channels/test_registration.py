"""Channels in a configuration file: what is taken, what is refused and how it is said, and where secrets come from."""

import sys
from pathlib import Path

import pytest

from restante.model.errors import ConfigurationInvalid, OutOfRange
from restante.policy.channel_platforms import Platform
from restante.runtime.channels.adapters.matrix import MatrixAdapter
from restante.runtime.channels.adapters.telegram import TelegramAdapter
from restante.runtime.channels.channel_config import BUILT_IN, registered_channels
from restante.runtime.channels.secret import Secret, from_environment, from_file
from restante.runtime.settings_loader import load

OPS = '[channels.ops]\nadapter = "telegram"\n'
HOOK = '[channels.hook]\nadapter = "webhook"\nsecret_env = "HOOK"\n'


def written(directory: Path, text: str) -> Path:
    file = directory / "restante.toml"
    file.write_text(text)
    return file


def test_channels_stand_beside_settings_in_one_file(tmp_path: Path) -> None:
    file = written(tmp_path, f'[retry]\nbase_ms = 200\n{OPS}token_env = "T"\nchat_interval_ms = 50\n')
    assert load(file=file, environ={}, overrides={}).settings.retry.base_ms == 200
    [ops] = registered_channels(file, {"T": "x"}).values()
    assert (ops.name, ops.adapter, ops.platform) == ("ops", "telegram", Platform.TELEGRAM)
    assert ops.limits.chat_interval_ms == 50
    assert isinstance(ops.make(), TelegramAdapter)


def test_without_a_file_or_a_section_there_are_no_channels(tmp_path: Path) -> None:
    assert registered_channels(None, {}) == {}
    assert registered_channels(written(tmp_path, ""), {}) == {}


def test_a_platform_can_be_named_where_an_adapter_leads_anywhere(tmp_path: Path) -> None:
    file = written(tmp_path, HOOK + 'url = "http://x"\nplatform = "discord"\nrecognises_repeats = true\n')
    [hook] = registered_channels(file, {"HOOK": "s"}).values()
    assert hook.platform is Platform.DISCORD
    assert hook.make().recognises_repeats


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("channels = 3", "must be tables"),
        ("[channels]\nops = 3", r"channels\.ops must be a table with an adapter"),
        ("[channels.ops]\nx = 1", "must be a table with an adapter"),
        ('[channels."Ops!"]\nadapter = "smtp"', "a channel's name has up to 32"),
        ('[channels.ops]\nadapter = "telegrm"', "Did you mean telegram"),
        ('[channels.ops]\nadapter = "no_such_module:X"', "no_such_module cannot be imported: ModuleNotFoundError"),
        ('[channels.ops]\nadapter = "json:Nothing"', "the module json has no Nothing"),
        (
            '[channels.ops]\nadapter = "json:JSONDecoder"',
            r"channels\.ops: json:JSONDecoder must be a class that derives",
        ),
        ('[channels.ops]\nadapter = "json:loads"', r"channels\.ops: json:loads must be a class that derives"),
        ('[channels.ops]\nadapter = ":X"', "your own is named module:Class"),
        ('[channels.ops]\nadapter = ".x:X"', r"the module \.x cannot be imported: TypeError"),
        (OPS, r"channels\.ops lacks token"),
        (OPS + 'token = "12:abc"', r"channels\.ops\.token is a secret: name a file in token_file"),
        (OPS + 'token_env = "T"\ntoken_file = "t"', "given twice: by token_file and token_env"),
        (OPS + "token_env = 5", r"channels\.ops\.token_env must be text"),
        (OPS + 'token_env = "T"\nsilnt = true', "Did you mean silent"),
        (OPS + 'token_env = "T"\nsilent = "yes"', r"channels\.ops\.silent must be true or false, not 'yes'"),
        (OPS + 'token_env = "T"\ntimeout_ms = 1.5', r"timeout_ms must be an integer, not 1\.5"),
        (HOOK + "url = true", r"channels\.hook\.url must be text"),
        (HOOK + 'url = "http://x"\nplatform = "fax"', "must be one of telegram, discord"),
    ],
)
def test_what_is_wrong_is_said_with_its_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationInvalid, match=said):
        registered_channels(written(tmp_path, text), {})


OWN_ADAPTER = """
from restante.ports.channel_adapter import ChannelAdapter
class Mine(ChannelAdapter):
    def __init__({parameters}): ...
"""


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise RuntimeError('no display')", "own_adapter cannot be imported: RuntimeError: no display"),
        ("class Mine(:", "own_adapter cannot be imported: SyntaxError: "),
        (OWN_ADAPTER.format(parameters="self, *, path"), r"the option path of own_adapter:Mine has no type"),
        (OWN_ADAPTER.format(parameters="self, *, path: 'Pth'"), "own_adapter:Mine cannot be read: NameError: .*Pth"),
        (OWN_ADAPTER.format(parameters="self, path: str"), "path of own_adapter:Mine must be keyword-only"),
    ],
)
def test_what_is_wrong_with_an_own_adapter_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, said: str
) -> None:
    (tmp_path / "own_adapter.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_adapter", raising=False)
    file = written(tmp_path, '[channels.ops]\nadapter = "own_adapter:Mine"')
    with pytest.raises(ConfigurationInvalid, match=rf"channels\.ops: .*{said}"):
        registered_channels(file, {})


def test_a_number_outside_its_range_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutOfRange, match=r"channels\.ops\.timeout_ms = 1 is outside 100\.\.120000 ms"):
        registered_channels(written(tmp_path, OPS + 'token_env = "T"\ntimeout_ms = 1'), {})


@pytest.mark.parametrize("adapter", BUILT_IN)
def test_every_adapter_of_ours_can_be_named_and_says_what_it_lacks(tmp_path: Path, adapter: str) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"channels\.one lacks"):
        registered_channels(written(tmp_path, f'[channels.one]\nadapter = "{adapter}"'), {})


def test_a_secret_is_read_when_the_adapter_is_made_and_not_before(tmp_path: Path) -> None:
    file = written(tmp_path, '[channels.m]\nadapter = "matrix"\nhomeserver = "http://x"\ntoken_file = "m.token"\n')
    [channel] = registered_channels(file, {}).values()
    with pytest.raises(ConfigurationInvalid, match=r"channels\.m\.token: cannot read .*m\.token"):
        channel.make()
    (tmp_path / "m.token").write_text("abc\n")
    (tmp_path / "m.token").chmod(0o644)
    with pytest.raises(ConfigurationInvalid, match="other users can read"):
        channel.make()
    (tmp_path / "m.token").chmod(0o600)
    assert isinstance(channel.make(), MatrixAdapter)


def test_a_secret_is_the_first_line_and_shows_itself_to_nobody(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("top secret \nand a note\n")
    path.chmod(0o600)
    secret = from_file(path, "key")
    assert secret.reveal() == "top secret"
    assert "top" not in f"{secret} {secret!r}"
    with pytest.raises(TypeError):
        secret.__reduce__()


@pytest.mark.parametrize("raw", [b"", b"\n", b"\xff\xfe"])
def test_an_empty_or_unreadable_secret_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "s"
    path.write_bytes(raw)
    path.chmod(0o600)
    with pytest.raises(ConfigurationInvalid, match="key: "):
        from_file(path, "key")


def test_a_variable_that_is_not_set_is_refused_by_its_name_only() -> None:
    assert isinstance(from_environment("A", {"A": "x"}, "key"), Secret)
    for environ in ({}, {"A": ""}):
        with pytest.raises(ConfigurationInvalid, match="key: the variable A is not set, or empty"):
            from_environment("A", environ, "key")

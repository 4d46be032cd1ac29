"""What a node's file may say, and how a mistake in it is told."""

import tomllib
from pathlib import Path

import pytest

from restante.cli.node.config_template import OF_CLIENTS, node_toml
from restante.model.errors import ConfigurationInvalid, OutOfRange, RestanteError
from restante.model.node_descriptor import Role
from restante.node.config import NODE_SECTIONS, NodeConfig, load_node_config
from restante.node.safe_logging import Format, Level
from restante.policy.settings import Settings
from restante.runtime.endpoints import Endpoint
from restante.runtime.settings_loader import known_settings
from restante.runtime.testing_clock import MADE_FOR_TESTS


def loaded(directory: Path, text: str, **overrides: str) -> NodeConfig:
    file = directory / "node.toml"
    file.write_text(text, "utf-8")
    return load_node_config(file, environ={}, overrides={key.replace("__", "."): v for key, v in overrides.items()})


def test_an_empty_file_gives_a_node_on_loopback_with_the_default_limits(tmp_path: Path) -> None:
    assert loaded(tmp_path, "") == NodeConfig(
        listen=Endpoint(host="127.0.0.1", port=7431),
        status=Endpoint(host="127.0.0.1", port=7432),
        log_level=Level.INFO,
        log_format=Format.AUTO,
        settings=Settings(),
    )


def test_the_template_says_the_same_as_an_empty_file(tmp_path: Path) -> None:
    assert loaded(tmp_path, node_toml()) == loaded(tmp_path, "")


def test_the_template_names_every_setting_of_a_node_with_its_default() -> None:
    text = node_toml()
    active = tomllib.loads("\n".join(line.removeprefix("# ") if " = " in line else line for line in text.splitlines()))
    assert active.pop("node") == {
        "listen": "127.0.0.1:7431",
        "status": "127.0.0.1:7432",
        "log_level": "info",
        "log_format": "auto",
        "roles": ["mailbox"],
    }
    assert (active["mesh"].pop("bootstrap"), active["mesh"].pop("network")) == ([], "public")
    assert active["journal"].pop("ship_to").startswith("/")
    ours = [each for each in known_settings() if each.section in NODE_SECTIONS and each.key not in OF_CLIENTS]
    assert {f"{section}.{name}": value for section, values in active.items() for name, value in values.items()} == {
        setting.key: setting.default for setting in ours
    }


def test_the_file_is_heard_and_a_flag_goes_before_it(tmp_path: Path) -> None:
    text = "[node]\nlisten = '[::]:9'\nlog_level = 'error'\n[relay]\nidle_timeout_ms = 90_000\nput_rate_per_s = 7\n"
    config = loaded(tmp_path, text, relay__put_rate_per_s="8")
    assert (config.listen, config.log_level) == (Endpoint(host="::", port=9), Level.ERROR)
    assert (config.settings.relay.idle_timeout_ms, config.settings.relay.put_rate_per_s) == (90_000, 8)


@pytest.mark.parametrize(
    ("text", "problem", "expected"),
    [
        ("[relay]\nidle_timeout_ms = 5", OutOfRange, "relay.idle_timeout_ms = 5 is outside 50..3600000 ms"),
        ("[mailbox]\nmax_blobs = 1", OutOfRange, "mailbox.max_blobs = 1 is outside 100..10000000 blobs"),
        ("[relay]\nidle = 5", ConfigurationInvalid, "unknown setting relay.idle"),
        (
            "[relay]\nmax_connections = '5'",
            ConfigurationInvalid,
            "relay.max_connections must be an integer of connections",
        ),
        ("[retry]\nbase_ms = 500", ConfigurationInvalid, "unknown section retry"),
        (
            "[nod]",
            ConfigurationInvalid,
            "Did you mean node? A node's sections are node, relay, mailbox, mesh, circuits, journal",
        ),
        ("[node]\nlisten = 7431", ConfigurationInvalid, "node.listen must be a text in quotes, not 7431"),
        ("[node]\nlisten = 'here'", ConfigurationInvalid, "node.listen: 'here' is not an endpoint"),
        ("[node]\nlog_level = 'loud'", ConfigurationInvalid, "must be one of debug, info, warning, error, not 'loud'"),
        ("[node]\nlisen = 'x'", ConfigurationInvalid, "Did you mean node.listen? Section node has listen, status"),
        ("[journal]\nship_to = 1", ConfigurationInvalid, "journal.ship_to must be a text in quotes, not 1"),
        ("[journal]\nship_to = 'here'", ConfigurationInvalid, "journal.ship_to must be an absolute path or an address"),
        ("[node]\nroles = ['post']", ConfigurationInvalid, "node.roles must be a list of mailbox, storage, hop"),
        ("[node]\nroles = []", ConfigurationInvalid, "node.roles must be a list of mailbox, storage, hop"),
        ("[mesh]\nbootstrap = ['x']", ConfigurationInvalid, "mesh.bootstrap: a relay or node is named KEY@HOST:PORT"),
        ("[mesh]\nbootstrap = 'x'", ConfigurationInvalid, "mesh.bootstrap must be a list"),
        ("[mesh]\nnetwork = 'mine'", ConfigurationInvalid, "mesh.network must be one of public, private, not 'mine'"),
        ("[mesh]\nping_interval_ms = 1", OutOfRange, "mesh.ping_interval_ms = 1 is outside 50..600000 ms"),
        ("[testing]\nclock_offset_ms = 1", ConfigurationInvalid, "only for a directory that was made for tests"),
        ("node = 1", ConfigurationInvalid, "must be a table: write [node]"),
        ("[node", ConfigurationInvalid, "is not valid TOML"),
    ],
)
def test_a_mistake_is_named_with_its_key_what_is_allowed_and_the_file(
    tmp_path: Path, text: str, problem: type[RestanteError], expected: str
) -> None:
    with pytest.raises(problem) as caught:
        loaded(tmp_path, text)
    told = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert expected in told
    assert str(tmp_path / "node.toml") in told


def test_a_directory_made_for_tests_may_move_the_clock_within_bounds(tmp_path: Path) -> None:
    (tmp_path / MADE_FOR_TESTS).touch()
    assert loaded(tmp_path, "[testing]\nclock_offset_ms = -7_200_000").clock_offset_ms == -7_200_000
    for wrong in ("clock_offset_ms = 'x'", "clock_offset_ms = 99_999_999_999_999", "clock = 1"):
        with pytest.raises(ConfigurationInvalid, match="clock_offset_ms"):
            loaded(tmp_path, f"[testing]\n{wrong}")


def test_roles_and_bootstrap_decide_whether_a_node_is_in_the_mesh(tmp_path: Path) -> None:
    assert not loaded(tmp_path, "").is_in_mesh
    assert loaded(tmp_path, "[node]\nroles = ['storage', 'hop']").roles == Role.STORAGE | Role.HOP
    assert loaded(tmp_path, "[node]\nroles = ['storage']").is_in_mesh
    joined = loaded(tmp_path, f"[mesh]\nbootstrap = ['{'ab' * 32}@127.0.1.1:7431']\nnetwork = 'private'")
    assert joined.is_in_mesh
    assert joined.is_private
    assert [str(each) for each in joined.bootstrap] == [f"{'ab' * 32}@127.0.1.1:7431"]

"""Reads a node's `node.toml`: its endpoints, its log and its limits.

The numbers are the sections of `policy.settings` that concern a node; flags and variables go before the file, as for
every command. The texts of the section `[node]` are read here, and come from the file only.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from restante.model.errors import ConfigurationInvalid, Malformed
from restante.model.node_descriptor import Role
from restante.model.places import RelayPlace
from restante.node.safe_logging import Format, Level
from restante.policy.settings import Settings
from restante.runtime.endpoints import Endpoint, parse_endpoint, parse_relay_place
from restante.runtime.settings_loader import did_you_mean, load_tables, read_toml
from restante.runtime.testing_clock import TESTING, take_clock_offset

NODE: Final = "node"
NODE_SECTIONS: Final = ("relay", "mailbox", "mesh", "circuits", "journal")
PUBLIC, PRIVATE = "public", "private"

DEFAULT_LISTEN: Final = "127.0.0.1:7431"
DEFAULT_STATUS: Final = "127.0.0.1:7432"

Words = TypeVar("Words", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    listen: Endpoint
    status: Endpoint
    log_level: Level
    log_format: Format
    settings: Settings
    roles: Role = Role.MAILBOX
    ship_to: str | None = None
    bootstrap: tuple[RelayPlace, ...] = ()
    is_private: bool = False
    clock_offset_ms: int = 0

    @property
    def is_in_mesh(self) -> bool:
        """Whether the node takes part in the mesh at all."""
        return bool(self.bootstrap or self.roles & (Role.STORAGE | Role.HOP))


def load_node_config(file: Path, *, environ: Mapping[str, str], overrides: Mapping[str, str]) -> NodeConfig:
    """Read `file`. Every error names the key, what is allowed and the file."""
    tables = read_toml(file)
    for section in tables:
        known = (NODE, *NODE_SECTIONS, TESTING)
        if section not in known:
            hint = did_you_mean(section, known)
            raise ConfigurationInvalid(
                f"unknown section {section} ({file}).{hint} A node's sections are {', '.join(known)}"
            )
    own = tables.pop(NODE, {})
    if not isinstance(own, dict):
        raise ConfigurationInvalid(f"{NODE} in {file} must be a table: write [{NODE}] and its keys below")
    readers = _readers()
    for name in own:
        if name not in readers:
            hint = did_you_mean(name, readers, prefix=f"{NODE}.")
            raise ConfigurationInvalid(
                f"unknown setting {NODE}.{name} ({file}).{hint} Section {NODE} has {', '.join(readers)}"
            )
    network, bootstrap = _take_mesh_texts(tables, file)
    offset_ms = take_clock_offset(tables, source=str(file), directory=file.parent)
    given = {name: read(f"{NODE}.{name}", own.get(name, default), file) for name, (default, read) in readers.items()}
    loaded = load_tables(tables, source=str(file), environ=environ, overrides=overrides)
    return NodeConfig(
        settings=loaded.settings,
        ship_to=loaded.ship_to,
        bootstrap=bootstrap,
        is_private=network == PRIVATE,
        clock_offset_ms=offset_ms,
        **given,
    )


def _take_mesh_texts(tables: dict[str, Any], file: Path) -> tuple[str, tuple[RelayPlace, ...]]:
    """Take the settings of [mesh] that are no numbers out of the tables: `network` and `bootstrap`."""
    mesh = tables.get("mesh")
    if not isinstance(mesh, dict):
        return PUBLIC, ()
    network = mesh.pop("network", PUBLIC)
    if network not in (PUBLIC, PRIVATE):
        raise ConfigurationInvalid(f"mesh.network must be one of {PUBLIC}, {PRIVATE}, not {network!r} ({file})")
    named = mesh.pop("bootstrap", [])
    if not isinstance(named, list):
        raise ConfigurationInvalid(f'mesh.bootstrap must be a list such as ["KEY@HOST:PORT"], not {named!r} ({file})')
    return network, tuple(_bootstrap(text, file) for text in named)


def _bootstrap(text: object, file: Path) -> RelayPlace:
    try:
        return parse_relay_place(_text("mesh.bootstrap", text, file))
    except Malformed as problem:
        raise ConfigurationInvalid(f"mesh.bootstrap: {problem} ({file})") from None


def _readers() -> dict[str, tuple[object, Callable[[str, object, Path], Any]]]:
    """Return each key of the section with its default and its parser."""
    return {
        "listen": (DEFAULT_LISTEN, _endpoint),
        "status": (DEFAULT_STATUS, _endpoint),
        "log_level": (Level.INFO, lambda key, value, file: _word(key, value, file, Level)),
        "roles": (["mailbox"], _roles),
        "log_format": (Format.AUTO, lambda key, value, file: _word(key, value, file, Format)),
    }


def _roles(key: str, value: object, file: Path) -> Role:
    known = {str(role.name).lower(): role for role in Role}
    if not isinstance(value, list) or not value or not all(each in known for each in value):
        raise ConfigurationInvalid(f"{key} must be a list of {', '.join(known)}, not {value!r} ({file})")
    roles = Role(0)
    for each in value:
        roles |= known[each]
    return roles


def _text(key: str, value: object, file: Path) -> str:
    if not isinstance(value, str):
        raise ConfigurationInvalid(f"{key} must be a text in quotes, not {value!r} ({file})")
    return value


def _endpoint(key: str, value: object, file: Path) -> Endpoint:
    try:
        return parse_endpoint(_text(key, value, file))
    except Malformed as problem:
        raise ConfigurationInvalid(f"{key}: {problem} ({file})") from None


def _word(key: str, value: object, file: Path, words: type[Words]) -> Words:
    text = _text(key, value, file)
    if text not in list(words):
        raise ConfigurationInvalid(f"{key} must be one of {', '.join(words)}, not {text!r} ({file})")
    return words(text)

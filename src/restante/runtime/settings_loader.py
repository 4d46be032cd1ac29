"""Load the settings. Flags override the environment, which overrides one TOML file, which overrides the defaults.

Keys are the fields of `policy.settings.Settings`; those classes check their ranges. Anything else is refused.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, get_type_hints

from restante.model.errors import ConfigurationInvalid, OutOfRange
from restante.model.setting_ranges import Range, ranges_of
from restante.policy.settings import Settings
from restante.runtime.journal.segment_directory import check_depot
from restante.runtime.testing_clock import take_clock_offset

PREFIX: Final = "RESTANTE_"
FILE_VARIABLE: Final = "RESTANTE_CONFIG"
DEFAULT_FILE: Final = "restante.toml"
DEFAULT_SOURCE: Final = "default"
CHANNELS_SECTION: Final = "channels"
"""This section has adapters under names of the user's choice; runtime/channels/channel_config reads it."""
SHIP_TO: Final = "journal.ship_to"
SHIP_TO_VARIABLE: Final = f"{PREFIX}JOURNAL__SHIP_TO"
"""The one setting that is a text: where the journal is shipped to. Without it, nothing is shipped automatically."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One numeric setting, as its class declares it."""

    section: str
    name: str
    type: type[int] | type[float]
    default: int | float
    allowed: Range

    @property
    def key(self) -> str:
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        return f"{PREFIX}{self.section.upper()}__{self.name.upper()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The settings in force and the source of each, by key."""

    settings: Settings
    sources: Mapping[str, str]
    ship_to: str | None = None
    clock_offset_ms: int = 0


@dataclass(frozen=True, slots=True)
class _Given:
    value: int | float
    source: str


@dataclass(frozen=True, slots=True)
class _Text:
    value: str
    source: str


def _sections() -> dict[str, type[Any]]:
    return {section.name: get_type_hints(Settings)[section.name] for section in fields(Settings)}


def known_settings() -> tuple[Setting, ...]:
    """Return all settings, in the order of their classes."""
    return tuple(
        Setting(
            section=section,
            name=declared.name,
            type=get_type_hints(made_by)[declared.name],
            default=getattr(made_by(), declared.name),
            allowed=allowed,
        )
        for section, made_by in _sections().items()
        for declared, allowed in ranges_of(made_by)
    )


def find_file(explicit: Path | None, environ: Mapping[str, str], directory: Path) -> Path | None:
    """Return the file to read: `explicit`, else the one in RESTANTE_CONFIG, else restante.toml if it exists."""
    if explicit is not None:
        return explicit
    if environ.get(FILE_VARIABLE):
        return Path(environ[FILE_VARIABLE])
    usual = directory / DEFAULT_FILE
    return usual if usual.exists() else None


def load(
    *, file: Path | None, environ: Mapping[str, str], overrides: Mapping[str, str], home: Path | None = None
) -> Loaded:
    """Return the settings in force with the source of each. `home` is the client's directory that they are for."""
    tables = {} if file is None else read_toml(file)
    offset_ms = take_clock_offset(tables, source=str(file), directory=home)
    loaded = load_tables(tables, source=str(file), environ=environ, overrides=overrides)
    return replace(loaded, clock_offset_ms=offset_ms)


def load_tables(
    tables: Mapping[str, Any], *, source: str, environ: Mapping[str, str], overrides: Mapping[str, str]
) -> Loaded:
    """Return the settings for a file that was parsed already. Errors call it `source`."""
    known = {setting.key: setting for setting in known_settings()}
    ship_to = _ship_to(tables, source, environ, overrides)
    given = _from_tables(known, tables, source) | _from_environ(known, environ) | _from_flags(known, overrides)
    sources = {key: given[key].source if key in given else DEFAULT_SOURCE for key in known}
    sources[SHIP_TO] = DEFAULT_SOURCE if ship_to is None else ship_to.source
    return Loaded(
        settings=_build(given),
        sources=MappingProxyType(sources),
        ship_to=None if ship_to is None else _checked(ship_to),
    )


def _checked(ship_to: _Text) -> str:
    try:
        return check_depot(SHIP_TO, ship_to.value)
    except ConfigurationInvalid as problem:
        problem.add_note(f"set by {ship_to.source}")
        raise


def _ship_to(
    tables: Mapping[str, Any], source: str, environ: Mapping[str, str], overrides: Mapping[str, str]
) -> _Text | None:
    if SHIP_TO in overrides:
        return _Text(overrides[SHIP_TO], f"--set {SHIP_TO}")
    if SHIP_TO_VARIABLE in environ:
        return _Text(environ[SHIP_TO_VARIABLE], SHIP_TO_VARIABLE)
    section, _, name = SHIP_TO.partition(".")
    journal = tables.get(section)
    if not isinstance(journal, dict) or name not in journal:
        return None
    if not isinstance(journal[name], str):
        raise ConfigurationInvalid(f"{SHIP_TO} must be a text in quotes, not {journal[name]!r} ({source})")
    return _Text(journal[name], source)


def _build(given: Mapping[str, _Given]) -> Settings:
    made = {}
    for section, made_by in _sections().items():
        values = {key.partition(".")[2]: one.value for key, one in given.items() if key.partition(".")[0] == section}
        try:
            made[section] = made_by(**values)
        except OutOfRange as problem:
            if problem.key in given:
                problem.add_note(f"set by {given[problem.key].source}")
            raise
    return Settings(**made)


def _from_tables(known: Mapping[str, Setting], tables: Mapping[str, Any], source: str) -> dict[str, _Given]:
    given = {}
    for section, values in tables.items():
        if section == CHANNELS_SECTION:
            continue
        if not isinstance(values, dict):
            _section_keys(known, section, source)
            raise ConfigurationInvalid(f"{section} in {source} must be a table: write [{section}] and its keys below")
        for name, value in values.items():
            if f"{section}.{name}" == SHIP_TO:
                continue
            setting = _setting(known, section, name, source)
            given[setting.key] = _Given(_number(setting, value, source), source)
        _section_keys(known, section, source)
    return given


def read_toml(file: Path) -> dict[str, Any]:
    """Parse a TOML file. Errors name the file and the line."""
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as problem:
        raise ConfigurationInvalid(f"cannot read {file}: {problem.strerror}") from None
    except UnicodeDecodeError as problem:
        line = problem.object.count(b"\n", 0, problem.start) + 1
        raise ConfigurationInvalid(f"{file} is not UTF-8 text (at line {line})") from None
    except ValueError as problem:  # not only TOMLDecodeError: a number of 5,000 digits raises the plain class
        raise ConfigurationInvalid(f"{file} is not valid TOML: {problem}") from None


def _from_environ(known: Mapping[str, Setting], environ: Mapping[str, str]) -> dict[str, _Given]:
    given = {}
    by_slip = {setting.variable.replace("__", "_"): setting for setting in known.values()}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable == SHIP_TO_VARIABLE:
            continue
        section, separator, name = variable.removeprefix(PREFIX).lower().partition("__")
        if separator:
            setting = _setting(known, section, name, variable)
            given[setting.key] = _Given(_parse(setting, environ[variable], variable), variable)
        elif variable in by_slip:
            raise ConfigurationInvalid(f"unknown variable {variable}. Did you mean {by_slip[variable].variable}?")
    return given


def _from_flags(known: Mapping[str, Setting], overrides: Mapping[str, str]) -> dict[str, _Given]:
    given = {}
    for key, text in overrides.items():
        if key == SHIP_TO:
            continue
        section, _, name = key.partition(".")
        source = f"--set {key}"
        setting = _setting(known, section, name, source)
        given[setting.key] = _Given(_parse(setting, text, source), source)
    return given


def _setting(known: Mapping[str, Setting], section: str, name: str, source: str) -> Setting:
    key = f"{section}.{name}"
    if key in known:
        return known[key]
    names = _section_keys(known, section, source)
    hint = did_you_mean(name, names, prefix=f"{section}.")
    raise ConfigurationInvalid(f"unknown setting {key} ({source}).{hint} Section {section} has {', '.join(names)}")


def _section_keys(known: Mapping[str, Setting], section: str, source: str) -> list[str]:
    """Return the keys of a section. Raise if the section does not exist."""
    keys = (*known, SHIP_TO)
    names = [name for of, _, name in (key.partition(".") for key in keys) if of == section]
    if not names:
        sections = list(dict.fromkeys(setting.section for setting in known.values()))
        hint = did_you_mean(section, sections)
        raise ConfigurationInvalid(
            f"unknown section {section} ({source}).{hint} The sections are {', '.join(sections)}"
        )
    return names


def did_you_mean(word: str, known: Iterable[str], *, prefix: str = "") -> str:
    """Return a hint that names the closest known word, or an empty text."""
    nearest = get_close_matches(word, list(known), n=1)
    return f" Did you mean {prefix}{nearest[0]}?" if nearest else ""


def _number(setting: Setting, value: object, source: str) -> int | float:
    """Check a value of the file. TOML has types: a text is not a number, and 1.0 is not an integer."""
    if isinstance(value, bool) or not isinstance(value, (int, setting.type)):
        raise _wrong_type(setting, value, source)
    return setting.type(value)


def _parse(setting: Setting, text: str, source: str) -> int | float:
    """Parse a value of the environment or of a flag, which are always text."""
    try:
        return setting.type(text)
    except ValueError:
        raise _wrong_type(setting, text, source) from None


def _wrong_type(setting: Setting, value: object, source: str) -> ConfigurationInvalid:
    wanted = "an integer" if setting.type is int else "a number"
    unit = f" of {setting.allowed.unit}" if setting.allowed.unit else ""
    return ConfigurationInvalid(f"{setting.key} must be {wanted}{unit}, not {value!r} ({source})")

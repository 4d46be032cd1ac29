"""Read channels from the configuration file: `[channels.NAME]`, an adapter, its options (SPEC 12.7).

    [channels.ops]
    adapter = "telegram"
    token_file = "telegram.token"

An adapter is a class with keyword-only options. Options are checked against their annotations. An option of type
`Secret` is given as NAME_file or NAME_env, never in the file itself.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import Any, Final, get_args, get_type_hints

from restante.model.errors import ConfigurationInvalid, EnvironmentUnsuitable
from restante.policy.channel_platforms import Platform
from restante.policy.channel_rate_limit import ChannelLimits
from restante.ports.channel_adapter import ChannelAdapter
from restante.runtime.channels.secret import Secret, from_environment, from_file
from restante.runtime.settings_loader import CHANNELS_SECTION, did_you_mean, read_toml

BUILT_IN: Final[Mapping[str, str]] = {
    "apprise": "restante.runtime.channels.adapters.apprise:AppriseAdapter",
    "matrix": "restante.runtime.channels.adapters.matrix:MatrixAdapter",
    "mqtt": "restante.runtime.channels.adapters.mqtt:MqttAdapter",
    "smtp": "restante.runtime.channels.adapters.smtp:SmtpAdapter",
    "telegram": "restante.runtime.channels.adapters.telegram:TelegramAdapter",
    "webhook": "restante.runtime.channels.adapters.webhook:WebhookAdapter",
}
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_LIMITS: Final = tuple(one.name for one in fields(ChannelLimits))
_WORDS: Final = {str: "text", int: "an integer", float: "a number", bool: "true or false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """One channel. `make` reads its secrets and builds the adapter; it raises if that fails."""

    name: str
    adapter: str
    platform: Platform
    limits: ChannelLimits
    make: Callable[[], ChannelAdapter]


def registered_channels(file: Path | None, environ: Mapping[str, str]) -> dict[str, Registered]:
    """Return the channels of a configuration file. Everything is checked that does not need a start."""
    section = {} if file is None else read_toml(file).get(CHANNELS_SECTION, {})
    if file is None or not isinstance(section, dict):
        if section:
            raise ConfigurationInvalid(f"{CHANNELS_SECTION} in {file} must be tables: write [channels.NAME]")
        return {}
    return {name: _register(name, options, file, environ) for name, options in section.items()}


def _register(name: str, options: object, file: Path, environ: Mapping[str, str]) -> Registered:
    key = f"channels.{name}"
    if not _NAME.fullmatch(name):
        raise ConfigurationInvalid(f"{key}: a channel's name has up to 32 of a-z, 0-9, _ and - ({file})")
    if not isinstance(options, dict) or not isinstance(options.get("adapter"), str):
        raise ConfigurationInvalid(f'{key} must be a table with an adapter, such as adapter = "telegram" ({file})')
    given = dict(options)
    adapter = given.pop("adapter")
    limits = ChannelLimits(**{one: _value(f"{key}.{one}", int, given.pop(one)) for one in _LIMITS if one in given})
    limits.check(name)
    made_by = _adapter_class(key, adapter)
    wanted = _options(key, adapter, made_by)
    _refuse_unknown(key, given, wanted)
    platform = made_by.platform
    if wanted.get("platform") is Platform and "platform" in given:
        platform = _value(f"{key}.platform", Platform, given["platform"])

    plain = {
        one: _value(f"{key}.{one}", wanted[one], value)
        for one, value in given.items()
        if one in wanted and wanted[one] is not Secret
    }
    secrets = {one: _secret_source(f"{key}.{one}", one, given) for one, kind in wanted.items() if kind is Secret}
    _refuse_missing(key, made_by, {*plain, *(one for one, source in secrets.items() if source)})

    def make() -> ChannelAdapter:
        read = {
            one: _read_secret(f"{key}.{one}", source, file.parent, environ) for one, source in secrets.items() if source
        }
        return made_by(**plain, **read)

    return Registered(name=name, adapter=adapter, platform=platform, limits=limits, make=make)


def _adapter_class(key: str, adapter: str) -> type[ChannelAdapter]:
    path = BUILT_IN.get(adapter, adapter)
    module, _, name = path.partition(":")
    if not (module and name):
        hint = did_you_mean(adapter, BUILT_IN)
        raise ConfigurationInvalid(
            f"{key}: unknown adapter {adapter!r}.{hint} There are {', '.join(BUILT_IN)}; your own is named module:Class"
        )
    try:
        named = getattr(import_module(module), name, None)
    except Exception as failure:
        if adapter in BUILT_IN and isinstance(failure, ImportError):
            raise EnvironmentUnsuitable(
                f"the adapter {adapter} needs more: pip install 'restante[channels]'"
            ) from failure
        raise ConfigurationInvalid(f"{key}: the module {module} cannot be imported: {_words(failure)}") from failure
    if named is None:
        raise ConfigurationInvalid(f"{key}: the module {module} has no {name}")
    if not isinstance(named, type) or ChannelAdapter not in named.__mro__:
        raise ConfigurationInvalid(
            f"{key}: {adapter} must be a class that derives from {ChannelAdapter.__module__}.{ChannelAdapter.__name__}"
        )
    return named


def _words(failure: Exception) -> str:
    return f"{type(failure).__name__}: {failure}"


def _options(key: str, adapter: str, made_by: type[ChannelAdapter]) -> dict[str, type]:
    """Return an adapter's options with their types. For `X | None` the type is X."""
    try:
        hints = get_type_hints(made_by.__init__)
        parameters = inspect.signature(made_by).parameters.values()
    except Exception as failure:
        raise ConfigurationInvalid(f"{key}: the options of {adapter} cannot be read: {_words(failure)}") from failure
    options: dict[str, type] = {}
    for one in parameters:
        if one.kind in {one.VAR_POSITIONAL, one.VAR_KEYWORD}:
            continue
        if one.kind is not one.KEYWORD_ONLY:
            raise ConfigurationInvalid(
                f"{key}: the option {one.name} of {adapter} must be keyword-only: put * before it"
            )
        if one.name not in hints:
            raise ConfigurationInvalid(f"{key}: the option {one.name} of {adapter} has no type: annotate it")
        hint = hints[one.name]
        options[one.name] = next((part for part in get_args(hint) if part is not NoneType), hint)
    return options


def _refuse_unknown(key: str, given: Mapping[str, object], wanted: Mapping[str, type]) -> None:
    known = [
        spelled
        for one, kind in wanted.items()
        for spelled in ((f"{one}_file", f"{one}_env") if kind is Secret else (one,))
    ]
    for one in given:
        if wanted.get(one) is Secret:
            raise ConfigurationInvalid(f"{key}.{one} is a secret: name a file in {one}_file or a variable in {one}_env")
        if one not in known:
            hint = did_you_mean(one, [*known, *_LIMITS])
            raise ConfigurationInvalid(f"unknown option {key}.{one}.{hint} There are {', '.join([*known, *_LIMITS])}")


def _refuse_missing(key: str, made_by: type[ChannelAdapter], given: set[str]) -> None:
    for one in inspect.signature(made_by).parameters.values():
        if one.default is one.empty and one.kind is one.KEYWORD_ONLY and one.name not in given:
            raise ConfigurationInvalid(f"{key} lacks {one.name}")


def _value(key: str, kind: type, value: object) -> Any:
    if kind is Platform:
        if value not in list(Platform):
            raise ConfigurationInvalid(f"{key} must be one of {', '.join(Platform)}, not {value!r}")
        return Platform(str(value))
    if isinstance(value, bool) is not (kind is bool) or not isinstance(value, (int, float) if kind is float else kind):
        raise ConfigurationInvalid(f"{key} must be {_WORDS.get(kind, kind.__name__)}, not {value!r}")
    return value


def _secret_source(key: str, name: str, given: Mapping[str, object]) -> tuple[str, str] | None:
    named = [one for one in (f"{name}_file", f"{name}_env") if one in given]
    if len(named) > 1:
        raise ConfigurationInvalid(f"{key} is given twice: by {' and '.join(named)}")
    return (named[0], _value(f"{key.rpartition('.')[0]}.{named[0]}", str, given[named[0]])) if named else None


def _read_secret(key: str, source: tuple[str, str], directory: Path, environ: Mapping[str, str]) -> Secret:
    spelled, where = source
    if spelled.endswith("_env"):
        return from_environment(where, environ, key)
    return from_file(directory / where, key)

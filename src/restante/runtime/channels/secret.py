"""A token or password, read from a private file or from the environment, and never printed."""

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from restante.model.errors import ConfigurationInvalid

MAX_SECRET_BYTES: Final = 65_536


class Secret:
    """Hides its value in `repr` and refuses pickling. Only adapters call `reveal`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    def __reduce__(self) -> str:
        raise TypeError("a secret cannot be pickled")


def from_environment(variable: str, environ: Mapping[str, str], key: str) -> Secret:
    value = environ.get(variable)
    if not value:
        raise ConfigurationInvalid(f"{key}: the variable {variable} is not set, or empty")
    return Secret(value)


def from_file(path: Path, key: str) -> Secret:
    """Read the first line of a file with mode 0600 or stricter."""
    try:
        with path.open("rb") as file:
            mode = path.stat().st_mode
            raw = file.read(MAX_SECRET_BYTES)
    except OSError as problem:
        raise ConfigurationInvalid(f"{key}: cannot read {path}: {problem.strerror}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigurationInvalid(f"{key}: other users can read {path}; run chmod 600 {path}")
    try:
        value = raw.decode().split("\n", 1)[0].strip()
    except UnicodeDecodeError:
        raise ConfigurationInvalid(f"{key}: {path} is not UTF-8 text") from None
    if not value:
        raise ConfigurationInvalid(f"{key}: {path} is empty")
    return Secret(value)

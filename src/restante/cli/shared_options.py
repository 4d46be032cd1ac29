"""The options every command shares, and the settings they lead to.

Settings are read when a command asks for them, not before: `restante demo --help` works beside a broken file.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from restante.model.errors import ConfigurationInvalid
from restante.runtime.settings_loader import Loaded, find_file, load


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What stood before the command's name."""

    config: Path | None
    assignments: tuple[str, ...]

    def file(self) -> Path | None:
        return find_file(self.config, os.environ, Path())

    def load(self) -> Loaded:
        return load(file=self.file(), environ=os.environ, overrides=parse_assignments(self.assignments))


def inputs_of(ctx: typer.Context) -> Inputs:
    """The shared options of the command that is running."""
    return ctx.ensure_object(Inputs)


def parse_assignments(texts: Sequence[str]) -> dict[str, str]:
    """`KEY=VALUE` pairs; of two for one key the later wins."""
    given = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator:
            raise ConfigurationInvalid(f"--set {text} has no '='; write it like --set retry.base_ms=200")
        given[key.strip()] = value.strip()
    return given

"""The options that all commands share, and the settings that result.

A command reads the settings only when it needs them, so that `restante demo --help` works with a broken file.
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
    """The options before the name of the command."""

    config: Path | None
    assignments: tuple[str, ...]

    def file(self) -> Path | None:
        return find_file(self.config, os.environ, Path())

    def load(self, *, home: Path | None = None) -> Loaded:
        """Return the settings. Those of a client's directory may have the section [testing]."""
        return load(file=self.file(), environ=os.environ, overrides=parse_assignments(self.assignments), home=home)


def inputs_of(ctx: typer.Context) -> Inputs:
    """Return the shared options of the running command."""
    return ctx.ensure_object(Inputs)


def parse_assignments(texts: Sequence[str]) -> dict[str, str]:
    """Parse `KEY=VALUE` texts. The last one for a key wins."""
    given = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator:
            raise ConfigurationInvalid(f"--set {text} has no '='; write it like --set retry.base_ms=200")
        given[key.strip()] = value.strip()
    return given

"""Reads tests/vectors/*.json. How each vector was derived is told in tests/vectors/README.md."""

import json
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

HERE = Path(__file__).parents[2] / "vectors"


def load(name: str) -> Any:
    return json.loads((HERE / f"{name}.json").read_text("utf-8"))


def cases(name: str) -> list[ParameterSet]:
    """One parameter a vector, called by its name."""
    return [pytest.param(vector, id=vector["name"]) for vector in load(name)]

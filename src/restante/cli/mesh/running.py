"""Run a coroutine for a command; asyncio is loaded only then, so that `--help` is quick."""

from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_now(coroutine: Coroutine[Any, Any, Result]) -> Result:
    import asyncio

    return asyncio.run(coroutine)

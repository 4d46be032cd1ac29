"""Run a coroutine for a command; asyncio is loaded only then, so that `--help` is quick."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from restante.cli.client.home import hinting_unreached_mesh

Result = TypeVar("Result")


def run_now(coroutine: Coroutine[Any, Any, Result]) -> Result:
    import asyncio

    with hinting_unreached_mesh():
        return asyncio.run(coroutine)

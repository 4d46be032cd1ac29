"""Replace this process by a module run by a fresh interpreter, which then holds none of this one's modules.

A long-running service should not keep the command line's libraries in memory.
"""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from restante.model.errors import EnvironmentUnsuitable

MAX_SECRET_BYTES: Final = 65_536


def replace_process(module: str, arguments: Mapping[str, Any], *, secret: str | None) -> NoReturn:
    """Run `python -m module` in place of this process. The secret travels through a pipe, never the command line."""
    handle = -1
    if secret is not None:
        handle, write = os.pipe()
        os.write(write, secret.encode())
        os.close(write)
        os.set_inheritable(handle, True)
    raw = json.dumps({**arguments, "secret_handle": handle})
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(sys.executable, [sys.executable, "-m", module, raw])  # noqa: S606 - our own module, no shell
    except OSError as error:
        raise EnvironmentUnsuitable(f"{sys.executable} cannot be started: {error.strerror}") from error


def read_arguments(argv: list[str]) -> tuple[dict[str, Any], str | None]:
    """Return what `replace_process` passed: the arguments and the secret."""
    arguments = json.loads(argv[1])
    handle = arguments.pop("secret_handle")
    if handle < 0:
        return arguments, None
    with os.fdopen(handle, "rb") as pipe:
        return arguments, pipe.read(MAX_SECRET_BYTES).decode()

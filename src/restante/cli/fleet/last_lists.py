"""The number of the last list of keys that an operator signed for each lake, in a file beside the operator's key.

The lists lie in the lakes, where others may put back an older one.
"""

import json
from pathlib import Path
from typing import Final

from restante.model.errors import Malformed
from restante.runtime.private_file import read_private, write_private

MAX_BYTES: Final = 2**20


def last_list_file(key: Path) -> Path:
    return key.with_name(f"{key.name}.lists")


def last_serial(key: Path, lake: str) -> int:
    """Return 0 for a lake that this key signed no list for."""
    return _serials(last_list_file(key)).get(lake, 0)


def remember_serial(key: Path, lake: str, serial: int) -> None:
    file = last_list_file(key)
    write_private(file, [json.dumps({**_serials(file), lake: serial}, indent=1).encode() + b"\n"])


def _serials(file: Path) -> dict[str, int]:
    if not file.exists():
        return {}
    try:
        found = json.loads(read_private(file, what="the numbers of the operator's lists", limit_bytes=MAX_BYTES))
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(type(each) is int for each in found.values()):
        raise Malformed(f"{file.name} is damaged: it holds the number of the last list of keys for each lake")
    return found

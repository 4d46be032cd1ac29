"""The journal keys that an operator enrolled, in a file that the operator's key signs (SPEC 13.1).

The file lies in the lake, where others may write: without the operator's signature it is worth nothing. Each list has
a higher serial number than the one before, so whoever remembers the last one notices an older list that was put back.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from restante.crypto.identity import Identity, is_signed_by
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError

ENROLMENT_FILE: Final = "enrolled_keys.json"
MAX_ENROLMENT_BYTES: Final = 16 * 2**20
_VERSION: Final = 1
_DOMAIN: Final = b"restante-enrolment-v1\0"
_KEY: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Enrolment:
    """Public keys as hex. A list from before there were serial numbers, or none at all, has serial 0."""

    keys: frozenset[str] = frozenset()
    serial: int = field(default=0, compare=False)


class OlderList(RestanteError):
    """A list that the operator signed before another one."""

    def __init__(self, serial: int, last_serial: int) -> None:
        super().__init__(
            f"{ENROLMENT_FILE} is an older list, number {serial:,}: number {last_serial:,} was here before, "
            "and keys that were removed since would count again",
            code=Code.AUTHENTICATION_FAILED,
        )


def parse_journal_key(text: str) -> str:
    """Return a public key as hex in lower case."""
    key = text.strip().lower()
    if not _KEY.fullmatch(key):
        raise Malformed(f"{text!r} must be a journal's public key: 64 hexadecimal digits")
    return key


def sign_enrolment(keys: Iterable[str], operator: Identity, serial: int = 0) -> bytes:
    """Return the content of the file: a line with the keys, and a line with the signature."""
    said = {"version": _VERSION, "serial": serial, "keys": sorted(keys)}
    line = json.dumps(said, separators=(",", ":")).encode() + b"\n"
    return line + json.dumps({"signature": operator.sign(_DOMAIN + line).hex()}).encode() + b"\n"


def verify_enrolment(raw: bytes, operator_key: bytes) -> Enrolment:
    """Return the enrolled keys. Raise unless the operator signed them."""
    if len(raw) > MAX_ENROLMENT_BYTES:
        raise Malformed(f"{ENROLMENT_FILE} has at most {MAX_ENROLMENT_BYTES:,} bytes")
    line, _, rest = raw.partition(b"\n")
    signature = _object(rest).get("signature")
    if not isinstance(signature, str) or not _is_signed(operator_key, signature, line + b"\n"):
        raise RestanteError(f"{ENROLMENT_FILE} is not signed by the operator's key", code=Code.AUTHENTICATION_FAILED)
    said = _object(line)
    keys, serial = said.get("keys"), said.get("serial", 0)
    if said.get("version") != _VERSION or not isinstance(keys, list) or type(serial) is not int:
        raise Malformed(f"{ENROLMENT_FILE} is of another version")
    return Enrolment(frozenset(parse_journal_key(str(key)) for key in keys), serial)


def check_not_older(found: Enrolment, last_serial: int) -> None:
    """Raise if this list is older than one that was seen before: keys that were removed since would count again."""
    if found.serial < last_serial:
        raise OlderList(found.serial, last_serial)


def newest_serials(before: Mapping[str, int], operator_key: bytes | None, found: Enrolment | None) -> Mapping[str, int]:
    """Of each operator's key, as hex, the number of its newest list: those `before`, and that of `found`. Raise if the
    operator signed a newer one.

    A key that is not in use keeps its number: it may be put back, and so may an older list of it.
    """
    if operator_key is None or found is None:
        return before
    operator = operator_key.hex()
    check_not_older(found, before.get(operator, 0))
    return {**before, operator: found.serial}


def _is_signed(operator_key: bytes, signature: str, line: bytes) -> bool:
    try:
        return is_signed_by(operator_key, bytes.fromhex(signature), _DOMAIN + line)
    except ValueError:
        return False


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}

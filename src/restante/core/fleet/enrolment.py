"""The journal keys that an operator enrolled, in a file that the operator's key signs (SPEC 13.1).

The file lies in the lake, where others may write: without the operator's signature it is worth nothing.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
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
    """Public keys as hex."""

    keys: frozenset[str] = frozenset()


def parse_journal_key(text: str) -> str:
    """Return a public key as hex in lower case."""
    key = text.strip().lower()
    if not _KEY.fullmatch(key):
        raise Malformed(f"{text!r} must be a journal's public key: 64 hexadecimal digits")
    return key


def sign_enrolment(keys: Iterable[str], operator: Identity) -> bytes:
    """Return the content of the file: a line with the keys, and a line with the signature."""
    line = json.dumps({"version": _VERSION, "keys": sorted(keys)}, separators=(",", ":")).encode() + b"\n"
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
    keys = said.get("keys")
    if said.get("version") != _VERSION or not isinstance(keys, list):
        raise Malformed(f"{ENROLMENT_FILE} is of another version")
    return Enrolment(frozenset(parse_journal_key(str(key)) for key in keys))


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

"""Sign the fleet's actions with the operator's key, and verify them where they are applied (SPEC 13.6).

A file of actions is a header line, the actions, and a last line with the signature of all bytes before it. The header
names the file, so that one writer's actions cannot be passed to another, and when they expire.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from restante.crypto.identity import Identity, is_signed_by
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError

ACTION_LIFETIME_MS: Final = 24 * 3_600_000
"""Actions respond to events of a report; a day later another report knows better."""
MAX_LIFETIME_MS: Final = 7 * ACTION_LIFETIME_MS
MAX_FILE_BYTES: Final = 64 * 2**20
OPERATOR_KEY_BYTES: Final = 32
_VERSION: Final = 1
_DOMAIN: Final = b"restante-actions-v1\0"


def sign_actions(lines: Sequence[bytes], *, file: str, operator: Identity, expires_at_ms: int) -> bytes:
    """Return the content of a file of actions; each line ends with a line feed."""
    header = {"version": _VERSION, "file": file, "expires_at_ms": expires_at_ms}
    signed = json.dumps(header, separators=(",", ":")).encode() + b"\n" + b"".join(lines)
    return signed + json.dumps({"signature": operator.sign(_DOMAIN + signed).hex()}).encode() + b"\n"


def verify_actions(raw: bytes, *, file: str, operator_key: bytes, now_ms: int) -> list[bytes]:
    """Return the lines of a file of actions. Raise unless the operator signed it for this name and it is valid now."""
    if len(raw) > MAX_FILE_BYTES:
        raise Malformed(f"{file}: a file of actions has at most {MAX_FILE_BYTES:,} bytes")
    body, _, last = raw.rstrip(b"\n").rpartition(b"\n")
    signed = body + b"\n"
    if not is_signed_by(operator_key, _signature(last), _DOMAIN + signed):
        raise RestanteError(f"{file} is not signed by the operator's key", code=Code.AUTHENTICATION_FAILED)
    first, _, actions = signed.partition(b"\n")
    header = _object(first)
    expires_at_ms = header.get("expires_at_ms")
    if header.get("version") != _VERSION or header.get("file") != file or not isinstance(expires_at_ms, int):
        raise Malformed(f"{file}: the operator signed these actions under another name or in another version")
    if not now_ms < expires_at_ms <= now_ms + MAX_LIFETIME_MS:
        raise RestanteError(f"{file} has expired; make a new report", code=Code.TTL_EXPIRED)
    return actions.splitlines()


def _signature(line: bytes) -> bytes:
    try:
        return bytes.fromhex(str(_object(line).get("signature", "")))
    except ValueError:
        return b""


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}

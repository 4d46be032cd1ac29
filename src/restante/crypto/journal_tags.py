"""Tags that let a writer's own facts be joined without naming what they are about (SPEC 13.1)."""

import hashlib
import hmac
from typing import Final

from restante.model.ids import SESSION_TAG_BYTES, InboxKey, SessionId, SessionTag

DAY_MS: Final = 86_400_000


def session_tag(secret: bytes, session: SessionId) -> SessionTag:
    """The same for a session's whole life at one writer, unlinkable between writers."""
    return _tag(secret, b"session", session)


def inbox_tag(secret: bytes, inbox: InboxKey, *, at_ms: int) -> SessionTag:
    """A node's tag for an inbox; its key changes every day, so days cannot be joined."""
    day_key = hmac.digest(secret, b"day" + (at_ms // DAY_MS).to_bytes(8, "big"), hashlib.sha256)
    return _tag(day_key, b"inbox", inbox)


def _tag(key: bytes, purpose: bytes, value: bytes) -> SessionTag:
    return SessionTag(hmac.digest(key, purpose + value, hashlib.sha256)[:SESSION_TAG_BYTES])

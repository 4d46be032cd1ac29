"""Keyed hashes that join a writer's own journal events without revealing a session or inbox (SPEC 13.1)."""

import hashlib
import hmac
from functools import lru_cache
from typing import Final

from restante.model.ids import SESSION_TAG_BYTES, InboxKey, SessionId, SessionTag

DAY_MS: Final = 86_400_000


def session_tag(secret: bytes, session: SessionId) -> SessionTag:
    """Return the tag of a session. It is the same for the session's life, and unlinkable between writers."""
    return _tag(secret, b"session", session)


def inbox_tag(secret: bytes, inbox: InboxKey, *, at_ms: int) -> SessionTag:
    """Return a node's tag for an inbox. Its key changes daily, so that tags of different days cannot be linked."""
    return _tag_of_day(secret, inbox, at_ms // DAY_MS)


@lru_cache(maxsize=4_096)  # many messages of a day go to one inbox
def _tag_of_day(secret: bytes, inbox: InboxKey, day: int) -> SessionTag:
    day_key = hmac.digest(secret, b"day" + day.to_bytes(8, "big"), hashlib.sha256)
    return _tag(day_key, b"inbox", inbox)


def _tag(key: bytes, purpose: bytes, value: bytes) -> SessionTag:
    return SessionTag(hmac.digest(key, purpose + value, hashlib.sha256)[:SESSION_TAG_BYTES])

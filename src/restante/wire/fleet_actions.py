"""Encode and decode actions as lines of JSON, for transport from the fleet to clients and nodes (SPEC 13.6).

Bytes are hex. Only the form is checked here; the client or node that applies an action decides whether to do so.
"""

import json
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

from restante.model.errors import Malformed
from restante.model.fleet_actions import ActionKind, FleetAction
from restante.model.ids import NODE_ID_BYTES, NodeId, exactly, message_id, payload_hash, writer_id
from restante.wire.field_checks import MAX_TIME_MS

MAX_LINE_BYTES: Final = 2_048
_REASON: Final = re.compile("[a-z_]{1,40}")
_NAMES: Final = tuple(field.name for field in fields(FleetAction))
_READ_BYTES: Final[dict[str, Callable[[bytes], bytes]]] = {
    "target": writer_id,
    "message_id": message_id,
    "payload_hash": payload_hash,
    "node": lambda raw: NodeId(exactly(raw, NODE_ID_BYTES, "node")),
}
_NEEDED: Final = {
    ActionKind.RETRANSMIT: ("target", "message_id", "event_at_ms"),
    ActionKind.REPAIR: ("target", "payload_hash"),
    ActionKind.REDRIVE: ("target", "message_id", "event_at_ms"),
    ActionKind.SCOREBOARD: ("node", "score"),
}
"""The keys that each kind of action requires."""


def encode_action(action: FleetAction) -> bytes:
    """Return one line, including its line end."""
    values: dict[str, Any] = {name: getattr(action, name) for name in _NAMES}
    for name in _READ_BYTES:
        values[name] = None if values[name] is None else values[name].hex()
    return (json.dumps(values, separators=(",", ":")) + "\n").encode()


def decode_action(line: bytes) -> FleetAction:
    """Parse one line. Exactly the known keys must be present, each with a value of its type."""
    if len(line) > MAX_LINE_BYTES:
        raise Malformed(f"an action has at most {MAX_LINE_BYTES} bytes")
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        raise Malformed("an action must be a line of JSON") from None
    if not isinstance(values, dict) or values.keys() != set(_NAMES):
        raise Malformed(f"an action has exactly the keys {', '.join(_NAMES)}")
    try:
        kind = ActionKind(values["action"])
    except ValueError:
        raise Malformed(f"action: must be one of {', '.join(ActionKind)}") from None
    for name, read in _READ_BYTES.items():
        values[name] = _bytes(name, values[name], read)
    for name in ("event_at_ms", "as_of_ms"):
        _check_moment(name, values[name], may_be_null=name == "event_at_ms")
    score = values["score"]
    if score is not None and (not isinstance(score, float | int) or isinstance(score, bool) or not 0 <= score <= 1):
        raise Malformed("score: must be in 0..1")
    if not isinstance(values["reason"], str) or not _REASON.fullmatch(values["reason"]):
        raise Malformed(f"reason: must match {_REASON.pattern}")
    for name in _NEEDED[kind]:
        if values[name] is None:
            raise Malformed(f"{name}: {kind} needs it")
    return FleetAction(**values | {"action": kind})


def _bytes(name: str, value: object, read: Callable[[bytes], bytes]) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise Malformed(f"{name}: must be hex")
    try:
        return read(bytes.fromhex(value))
    except Malformed:
        raise
    except ValueError:
        raise Malformed(f"{name}: must be hex") from None


def _check_moment(name: str, value: object, *, may_be_null: bool) -> None:
    if value is None and may_be_null:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_TIME_MS:
        raise Malformed(f"{name}: must be in 0..{MAX_TIME_MS}")

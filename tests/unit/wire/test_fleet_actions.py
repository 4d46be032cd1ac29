"""Actions as lines: read back equal, anything else refused by name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.errors import Malformed
from restante.model.fleet_actions import ActionKind, FleetAction
from restante.wire.fleet_actions import decode_action, encode_action
from support.fleet.journal_files import message, node_id, writer

REDRIVE = FleetAction(
    action=ActionKind.REDRIVE,
    target=writer(1),
    message_id=message(1),
    event_at_ms=5,
    reason="daily_retry_due",
    as_of_ms=9,
)
ACTIONS = [
    REDRIVE,
    FleetAction(action=ActionKind.SCOREBOARD, node=node_id(1), score=0.5, reason="measured", as_of_ms=9),
]


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_reads_back_equal(action: FleetAction) -> None:
    assert decode_action(encode_action(action)) == action


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"action": "erase"}, "action"),
        ({"target": "zz"}, "target"),
        ({"target": None}, "target"),
        ({"message_id": "00" * 16}, "UUIDv4"),
        ({"message_id": 7}, "message_id"),
        ({"event_at_ms": -1}, "event_at_ms"),
        ({"as_of_ms": None}, "as_of_ms"),
        ({"score": 1.5}, "score"),
        ({"reason": "two words"}, "reason"),
        ({"more": 1}, "exactly the keys"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_by_its_name(change: dict[str, object], named: str) -> None:
    values = json.loads(encode_action(REDRIVE)) | change
    with pytest.raises(Malformed, match=named):
        decode_action(json.dumps(values).encode())


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(raw: bytes) -> None:
    with pytest.raises(Malformed):
        decode_action(raw)

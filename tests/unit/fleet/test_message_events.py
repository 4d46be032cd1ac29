"""How the events of messages are divided among tasks."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.fleet.kernels.message_events import COLUMNS, in_parts, of_parts
from restante.fleet.stream.rows import EVENTS
from restante.model.journal import JournalKind
from support.fleet.journal_files import message

pytestmark = pytest.mark.unit

SCHEMA = pa.schema([EVENTS.field(name) for name in COLUMNS])
ANY_EVENTS = st.lists(st.tuples(st.sampled_from(JournalKind), st.none() | st.integers(0, 5)), max_size=40)


def journal(events: list[tuple[JournalKind, int | None]]) -> pa.Table:
    rows = [
        {
            "message_id": None if number is None else message(number),
            "event_id": bytes(8) + place.to_bytes(8, "big"),
            "writer": bytes(16),
            "at_ms": place,
            "kind": kind,
            "ttl_s": 60,
        }
        for place, (kind, number) in enumerate(events)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


@given(ANY_EVENTS, st.integers(1, 4))
def test_all_events_of_a_message_are_in_one_part_and_none_is_lost(
    events: list[tuple[JournalKind, int | None]], parts: int
) -> None:
    rows = journal(events)
    made = list(in_parts(rows.to_batches(max_chunksize=7), parts))
    places: dict[bytes | None, set[int]] = {}
    for part in made:
        for name in of_parts([part])["message_id"].to_pylist():
            places.setdefault(name, set()).update(part.column("place").to_pylist())
    assert all(len(found) == 1 and max(found) < parts for found in places.values())
    assert sorted(of_parts(made)["at_ms"].to_pylist()) == rows["at_ms"].to_pylist()

"""The memory budget for partial frames: kept exactly, and the oldest frame loses (SPEC 6.8)."""

from hypothesis import given
from hypothesis import strategies as st

from restante.core.link.partial_frames import PartialFrames
from support.spec.clauses import clause

BUDGET = 1_000


@clause("6.8")
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 600), st.booleans()), max_size=60))
def test_the_total_is_what_is_held_and_never_above_the_budget(steps: list[tuple[int, int, bool]]) -> None:
    frames: PartialFrames[int] = PartialFrames(max_bytes=BUDGET)
    model: dict[int, int] = {}
    for connection, size_bytes, is_new in steps:
        victims = frames.update(connection, size_bytes, is_new_frame=is_new)
        if is_new or not size_bytes:
            model.pop(connection, None)
        if size_bytes:
            model[connection] = size_bytes
        expected = []
        while sum(model.values()) > BUDGET:
            expected.append(next(iter(model)))
            del model[expected[-1]]
        assert victims == expected
        assert frames.total_bytes == sum(model.values()) <= BUDGET


@clause("6.8")
def test_the_frame_that_began_first_is_given_up() -> None:
    frames: PartialFrames[str] = PartialFrames(max_bytes=BUDGET)
    assert frames.update("stalled", 500, is_new_frame=True) == []
    assert frames.update("honest", 400, is_new_frame=True) == []
    assert frames.update("honest", 600, is_new_frame=False) == ["stalled"]
    frames.remove("honest")
    assert frames.total_bytes == 0

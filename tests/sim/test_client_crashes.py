"""A client stops at each commit of a conversation with a lost session in it; nothing is lost or shown twice."""

from pathlib import Path

import pytest

from support.client.crashing_clients import NAMES, Crash, CrashingPair
from support.spec.clauses import clause
from support.system.soak import first_now_rest_in_soak

NEVER = 1_000_000
STRIDE = 6
"""Every so many commits in `make test`; `make soak` stops at each."""


async def converse(home: Path, crash: Crash) -> CrashingPair:
    """Both write, a session is reset while mail is on its way, and both write again."""
    pair = CrashingPair(home, crash)
    await pair.meet()
    await pair.say("alice", b"first")
    await pair.say("bob", b"second")
    await pair.round_trip()
    await pair.say("alice", b"third")
    await pair.say("bob", b"fourth")
    await pair.reset("bob")
    await pair.round_trip()
    await pair.say("bob", b"fifth")
    await pair.round_trip()
    return pair


async def stop_at(home: Path, crash: Crash) -> None:
    pair = await converse(home, crash)
    assert crash.is_stopped
    await pair.heal()
    for name, other in (NAMES, NAMES[::-1]):
        shown = pair.shown(other)
        assert len(set(shown)) == len(shown), "a message is shown twice"
        assert set(pair.accepted[name]) <= set(shown), "a message is lost"
        assert await pair.clients[name].outbox.counts() == {}
    await pair.close()


async def stop_at_each(home: Path, name: str, *, stride: int, is_after: bool) -> None:
    whole = Crash(name, NEVER, is_after=False)
    pair = await converse(home / "whole", whole)
    await pair.close()
    assert whole.commits > 10
    for at in range(1 + is_after, whole.commits + 1, stride):
        try:
            await stop_at(home / str(at), Crash(name, at, is_after=is_after))
        except AssertionError as problem:
            problem.add_note(f"{name} stopped at commit {at} of {whole.commits}, after it: {is_after}")
            raise


@clause("1.1", "3.11", "8.7", "9.3")
@pytest.mark.parametrize("stride", first_now_rest_in_soak([STRIDE, 1]))
@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("name", NAMES)
async def test_a_client_that_stops_at_any_commit_loses_nothing_and_shows_nothing_twice(
    tmp_path: Path, name: str, is_after: bool, stride: int
) -> None:
    await stop_at_each(tmp_path, name, stride=stride, is_after=is_after)

"""Fixtures of several modules: an outbox in a file with a fake clock, and channels whose file is checked at the end."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from restante.client.outbox import Outbox
from restante.testing.deterministic import FakeClock, SeededEntropy
from support.channels.fixtures import Place, place
from support.client.client_pairs import Post, client_in, introduce
from support.client.two_clients import SMALL_GAP, Two


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def outbox(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Outbox]:
    made = Outbox.open(tmp_path / "outbox.db", clock=clock, entropy=SeededEntropy(1))
    yield made
    await made.close()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    made = place(tmp_path)
    yield made
    made.assert_sound()


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    clock = FakeClock()
    alice, bob = (client_in(tmp_path / name, clock=clock, settings=SMALL_GAP) for name in ("alice", "bob"))
    made = Two(tmp_path, clock, alice, bob, Post(clock))
    await introduce(alice, bob, name="bob")
    await introduce(bob, alice, name="alice")
    yield made
    for client in (made.alice, made.bob):
        await client.close()

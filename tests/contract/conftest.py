"""An outbox in a file, with a clock that stands still."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from restante.client.outbox import Outbox
from restante.testing.deterministic import FakeClock, SeededEntropy


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def outbox(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Outbox]:
    made = Outbox.open(tmp_path / "outbox.db", clock=clock, entropy=SeededEntropy(1))
    yield made
    await made.close()

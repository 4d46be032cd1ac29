"""A client's file of its own for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.sqlite.files import ClientFile, open_client_file


@pytest.fixture
def file(tmp_path: Path) -> Iterator[ClientFile]:
    made = open_client_file(tmp_path / "client.db")
    yield made
    made.database.close()

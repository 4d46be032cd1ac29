"""inbox_key.json."""

from typing import Any

import pytest

from restante.model.ids import Address
from restante.wire.inbox_keys import relay_inbox_key
from support.wire.golden_vectors import cases


@pytest.mark.parametrize("vector", cases("inbox_key"))
def test_keys_keep_their_bytes(vector: dict[str, Any]) -> None:
    assert relay_inbox_key(Address(bytes.fromhex(vector["address"]))).hex() == vector["hex"]

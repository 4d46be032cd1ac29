"""inbox_key.json."""

from typing import Any

import pytest

from restante.model.ids import Address
from restante.wire.inbox_keys import bucket_of, mesh_inbox_key, prekey_bundle_key, relay_inbox_key
from support.spec.clauses import clause
from support.wire.golden_vectors import cases


@clause("7.2")
@pytest.mark.parametrize("vector", cases("inbox_key"))
def test_mail_is_kept_where_it_always_was(vector: dict[str, Any]) -> None:
    owner = Address(bytes.fromhex(vector["address"]))
    if vector["function"] == "mesh":
        assert bucket_of(vector["store_time_ms"]) == vector["bucket"]
        key: bytes = mesh_inbox_key(owner, vector["bucket"])
    else:
        key = {"relay": relay_inbox_key, "prekeys": prekey_bundle_key}[vector["function"]](owner)
    assert key.hex() == vector["hex"]

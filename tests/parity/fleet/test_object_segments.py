"""Segments on an object store: a store that fails is no damaged segment (SPEC 13.2)."""

import pyarrow as pa
import pytest

from restante.fleet.lake.arrow_files import segment_rows
from restante.fleet.lake.new_files import list_files
from restante.model.errors import StoreUnusable
from support.fleet.fake_s3 import SmallS3, small_s3
from support.spec.clauses import clause


def reach(store: SmallS3, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{store.server_port}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        patch.setenv(name, "test")


@clause("13.2")
def test_a_store_that_refuses_stops_the_job_and_rejects_no_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rejected segment is read again only when it changes: a failing store must not make one."""
    with small_s3() as store:
        store.refuses = True
        reach(store, monkeypatch)
        read = segment_rows(["s3://bucket/lake/segments/a.parquet"])
        with pytest.raises(StoreUnusable, match=r"^a\.parquet cannot be read from the store: ") as refused:
            list(read(iter([pa.record_batch({"id": [0]})])))
        with pytest.raises(StoreUnusable, match=r"^s3://bucket/lake cannot be listed: ") as unlisted:
            list_files("s3://bucket/lake")
    assert "\n" not in f"{refused.value}{unlisted.value}"

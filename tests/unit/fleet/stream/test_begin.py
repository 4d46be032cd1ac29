"""A stream on a lake whose tables a backfill made: refused, and nothing says afterwards that a stream keeps them."""

from pathlib import Path

import pyarrow as pa
import pytest

from restante.fleet.jobs.stream import StreamOptions, run_stream
from restante.fleet.lake.delta import DeltaFiles
from restante.fleet.lake.layout import Lake
from restante.fleet.stream.state_tables import KINDS
from restante.model.errors import ConfigurationInvalid
from restante.policy.settings import Settings
from support.spec.clauses import clause


@clause("13.2")
def test_a_stream_that_is_refused_because_of_a_backfill_leaves_no_trace(tmp_path: Path) -> None:
    lake, table = Lake(str(tmp_path)), KINDS["quarantine"]
    (tmp_path / "segments").mkdir()
    made = DeltaFiles(str(tmp_path / table.folder), table.delta)
    made.commit(1, [made.write(pa.Table.from_pylist([{}], schema=table.stored))], [])
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConfigurationInvalid, match="has tables of a backfill"):
        run_stream(lake, Settings(), StreamOptions(once=True))
    assert sorted(tmp_path.rglob("*")) == before

"""A session that cannot be opened says so before anything is started."""

import pytest

from restante.fleet.spark.session import open_session
from restante.model.errors import LocalProtocolError


def test_a_program_that_spark_submit_started_is_told_to_run_with_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4040")
    with pytest.raises(LocalProtocolError, match="run this with python"), open_session(app_name="submitted"):
        pass

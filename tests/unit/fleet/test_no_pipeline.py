"""Why there is no declarative pipeline (docs/decisions/0024), held until it stops being true."""

import subprocess
import sys


def test_spark_pipelines_cannot_be_loaded_with_our_packages() -> None:
    """In a process of its own: PySpark takes a test process without a main module for its own doctests and ends it."""
    done = subprocess.run(
        [sys.executable, "-m", "pyspark.pipelines.cli"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode != 0
    assert "grpcio-status >= " in done.stderr
    assert "must be installed" in done.stderr

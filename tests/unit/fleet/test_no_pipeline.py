"""Why there is no declarative pipeline (docs/decisions/0024), held until it stops being true."""

import importlib

import pytest


def test_spark_pipelines_cannot_be_loaded_with_our_packages() -> None:
    with pytest.raises(ImportError, match=r"Pandas >= [0-9.]+ must be installed"):
        importlib.import_module("pyspark.pipelines.cli")

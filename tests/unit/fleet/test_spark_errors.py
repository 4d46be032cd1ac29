"""Which failures of Spark's are told in a sentence, and which masters are none."""

import errno
import os

import pytest
from pyspark.errors import PySparkException

from restante.fleet.spark.errors import check_master, translate_spark_error
from restante.model.error_codes import Code
from restante.model.errors import ConfigurationInvalid, StoreUnusable

NONE = ["", "nonsense", "local[", "local[x]", "http://host", "spark://", "local-cluster[2]"]
MASTERS = ["local", "local[*]", "local[2]", "local[2,3]", "local-cluster[2,1,2048]", "spark://host:7077", "yarn"]


@pytest.mark.parametrize("master", [*MASTERS, "k8s://https://host:6443", "spark://a:7077,b:7077"])
def test_masters_that_spark_knows_are_taken(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize(
    "master", ["", "nonsense", "local[", "local[x]", "http://host", "spark://", "local-cluster[2]"]
)
def test_what_is_no_master_is_refused_before_java_is_started(master: str) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"is none of Spark's: local\[\*\]"):
        check_master(master)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (
            "java.io.IOException: No space left on device\n\tat x",
            Code.STORE_UNUSABLE,
            "a disk that Spark writes to is full",
        ),
        (
            "java.io.FileNotFoundException: /lake/tables/x (Permission denied)\n\tat y",
            Code.STORE_UNUSABLE,
            "Spark may not write there: /lake/tables/x (Permission denied)",
        ),
        (
            "Job 0 cancelled because SparkContext was shut down",
            Code.ENVIRONMENT_UNSUITABLE,
            "spark://h:1 does not answer",
        ),
    ],
)
def test_what_an_operator_can_mend_is_a_sentence_with_a_code(text: str, code: Code, said: str) -> None:
    told = translate_spark_error(PySparkException(text), "spark://h:1")
    assert told is not None
    assert told.code is code
    assert said in str(told)


def test_what_is_not_known_stays_as_it_is() -> None:
    assert translate_spark_error(PySparkException("something new"), "local") is None
    assert translate_spark_error(ValueError("No space left on device"), "local") is None


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EPERM])
def test_a_lake_that_may_not_be_written_is_told_in_one_line(number: int) -> None:
    told = translate_spark_error(OSError(number, os.strerror(number), "/lake/tables/events"), "local[*]")
    assert isinstance(told, StoreUnusable)
    assert str(told) == f"/lake/tables/events cannot be written: {os.strerror(number)}"
    assert translate_spark_error(OSError(errno.EIO, "input/output error"), "local[*]") is None

"""Which masters are this machine's own, and what follows for a session on them."""

import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from restante.fleet.spark.session import _settings, _worker_python, is_started_here, stays_here, zip_package

HERE = ["local", "local[*]", "local-cluster[2,1,2048]", "spark://127.0.0.1:7077", "spark://localhost:7077"]
ELSEWHERE = ["spark://host:7077", "spark://a:7077,b:7077", "yarn", "k8s://https://127.0.0.1:6443"]


@pytest.mark.parametrize("master", HERE)
def test_where_all_of_spark_is_on_this_machine_only_loopback_is_used(master: str, tmp_path: Path) -> None:
    assert stays_here(master)
    assert _settings(master, "x", tmp_path)["spark.driver.bindAddress"] == "127.0.0.1"


@pytest.mark.parametrize("master", ELSEWHERE)
def test_elsewhere_addresses_and_partitions_are_left_to_spark_and_python_to_the_operator(
    master: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not stays_here(master)
    assert not {"spark.driver.host", "spark.sql.shuffle.partitions"} & _settings(master, "x", tmp_path).keys()
    assert _worker_python(master) == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    assert _worker_python(master) == "/opt/python"
    assert _worker_python("local[*]") == sys.executable


def test_only_masters_without_a_cluster_are_started_here() -> None:
    assert [is_started_here(master) for master in HERE] == [True, True, True, False, False]


def test_python_tasks_are_spoken_to_over_sockets_in_the_scratch_folder_unless_their_paths_get_too_long() -> None:
    name = "spark.python.unix.domain.socket.enabled"
    assert _settings("local[*]", "x", Path("/short"))[name] == "true"
    assert name not in _settings("local[*]", "x", Path("/" + "long" * 20))
    assert name not in _settings("spark://localhost:7077", "x", Path("/short"))


def test_executors_get_the_whole_package_under_its_name(tmp_path: Path) -> None:
    with ZipFile(zip_package(tmp_path)) as archive:
        names = set(archive.namelist())
    assert {"restante/__init__.py", "restante/fleet/kernels/arrivals.py", "restante/wire/envelope_pb2.py"} <= names
    assert all(name.startswith("restante/") for name in names)

"""A Spark session that starts quietly, stays on this machine and leaves nothing behind.

Every session has a Java process of its own, which ends with it; what that process prints goes to a file in a temporary
directory and is quoted only when it fails. Which Java that is, is decided in fleet/spark/java.
"""

import os
import signal
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Any, Final
from urllib.parse import urlsplit

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

import restante
from restante.fleet.spark.errors import check_master, translate_spark_error
from restante.fleet.spark.java import bundled_java, find_java
from restante.fleet.spark.java_exit_files import SCRATCH_PREFIX
from restante.model.errors import EnvironmentUnsuitable

LOCAL: Final = "local"  # Spark's names for a master that is this process, or processes of its own
LOCAL_CLUSTER: Final = "local-cluster"
LOOPBACK: Final = "127.0.0.1"
LOCAL_SHUFFLE_PARTITIONS: Final = 4  # on one machine more would only be more small tasks
ROWS_PER_ARROW_BATCH: Final = 50_000  # each is a call into Python; more would only cost memory
NO_BYTES_LIMIT: Final = 2**31 - 1
"""Rows limit a batch already; with a limit in bytes Spark measures the batch again for every row (decision 0023)."""
LOCAL_JVM_OPTIONS: Final = "-XX:+UseParallelGC"  # pauses do not matter in a batch job, and it has the least overhead
LOCAL_READ_TASKS: Final = 12
"""Tasks for reading segments, at least: with one per core, all cores would wait for the task with the longest files."""
HEAP_SHARE: Final = 4  # of the machine's memory, so much for Java where all of Spark is in this process
HEAP_MIB: Final = (1_024, 3_072)
"""At least Spark's default. With 3 GiB, ten million events are sorted without a spill; more was never needed."""
WORKER_MEMORY: Final[Mapping[str, str]] = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),  # the most that every glibc takes
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
}
"""Python workers keep the memory that one column after the other is made in. By default most of it goes back to the
system at once, and an eighth of a worker's time was spent on getting clean pages again (decision 0022)."""
SOCKET_FOLDER_BYTES: Final = 55
"""The most that a folder's path may have for sockets in it: a socket's path has 104 bytes at most on some systems."""
SMALL_JOIN_SIDE: Final = "64m"  # a side whose partitions all have at most this is hashed; neither is sorted then
PERCENTILE_GROUPS: Final = 20_000  # hours, kinds and priorities of some weeks; beyond, Spark sorts all rows by group
OPEN_FILES_PER_TASK: Final = 40  # days that a task writes at once; with more it sorts its rows by day first
JVM_STOP_TIMEOUT_S: Final = 30
LAST_WORDS_BYTES: Final = 2_000
LAST_WORDS_LINES: Final = 8
JAVA_STACK: Final = "\tat "  # a stack trace inside Spark does not help its user

_launch: Final[Callable[..., Any]] = launch_gateway  # PySpark gives it no types


@contextmanager
def open_session(
    *, app_name: str, master: str = "local[*]", java_home: Path | None = None, has_ui: bool = False
) -> Iterator[SparkSession]:
    """Open a session on `master`. At the end its Java process and its temporary files are gone.

    `has_ui` starts Spark's UI on a free port of the loopback interface, where all of Spark is on this machine.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ or SparkSession.getActiveSession() is not None:
        yield SparkSession.builder.getOrCreate()  # of spark-submit or of the caller, with its master and settings
        return
    check_master(master)
    home = find_java(os.environ, bundled=bundled_java()) if java_home is None else java_home
    with tempfile.TemporaryDirectory(prefix=SCRATCH_PREFIX, ignore_cleanup_errors=True) as made:
        scratch = Path(made)
        with _process_state_kept(scratch):
            conf = SparkConf(loadDefaults=False).setAll(
                list(_settings(master, app_name, scratch, has_ui=has_ui).items())
            )
            gateway = _start_jvm(conf, _child_environment(master, home, scratch), scratch)
            try:
                with _environment({"PYSPARK_PYTHON": _worker_python(master)}):
                    spark = SparkSession(_context(conf, gateway, scratch))
                if not is_local(master):
                    spark.sparkContext.addPyFile(str(zip_package(scratch)))
                try:
                    yield spark
                finally:
                    _stop_session(spark, gateway.proc)
            except Exception as error:
                words = translate_spark_error(error, master)
                if words is not None:
                    raise words from error
                if gateway.proc.poll() is not None:
                    error.add_note(f"Spark's Java process ended; its last words:\n{_last_words(scratch)}")
                raise
            finally:
                _stop_jvm(gateway)


def _context(conf: SparkConf, gateway: Any, scratch: Path) -> SparkContext:
    handler = signal.getsignal(signal.SIGINT)
    try:
        return SparkContext(conf=conf, gateway=gateway)
    except Py4JError as error:
        master = conf.get("spark.master")
        raise EnvironmentUnsuitable(
            f"the Spark master {master} does not answer, or takes no job; Spark's last words:\n{_last_words(scratch)}"
        ) from error
    finally:
        # PySpark's handler asks Java to cancel the jobs while this process reads an answer of Java, which ends in a
        # traceback. An interrupt ends the session in any case.
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGINT, handler)


def _settings(master: str, app_name: str, scratch: Path, *, has_ui: bool = False) -> dict[str, str]:
    settings = {
        "spark.master": master,
        "spark.app.name": app_name,
        "spark.ui.enabled": "true" if has_ui and stays_here(master) else "false",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.sql.dataFrameDebugging.enabled": "false",  # or every step also says which line asked for it
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_PER_ARROW_BATCH),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(NO_BYTES_LIMIT),
        "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": SMALL_JOIN_SIDE,
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": str(PERCENTILE_GROUPS),
        "spark.sql.maxConcurrentOutputFileWriters": str(OPEN_FILES_PER_TASK),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **{f"spark.executorEnv.{name}": value for name, value in WORKER_MEMORY.items()},
    }
    if stays_here(master):
        settings |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.sql.shuffle.partitions": str(LOCAL_SHUFFLE_PARTITIONS),
            "spark.sql.files.minPartitionNum": str(LOCAL_READ_TASKS),
        }
        if "GC" not in os.environ.get("SPARK_SUBMIT_OPTS", ""):  # Java takes only one word for it
            settings["spark.driver.defaultJavaOptions"] = LOCAL_JVM_OPTIONS
    if is_started_here(master):
        settings["spark.local.dir"] = str(scratch)
        if len(os.fsencode(scratch)) <= SOCKET_FOLDER_BYTES:
            # Over TCP, a task in Python waits 40 ms for an acknowledgement that Linux puts off. What sockets cost Java
            # is in spark/java_exit_files.
            settings["spark.python.unix.domain.socket.enabled"] = "true"
            settings["spark.python.unix.domain.socket.dir"] = str(scratch)
    if is_local(master) and "SPARK_DRIVER_MEMORY" not in os.environ:
        settings["spark.driver.memory"] = f"{_heap_mib()}m"
    return settings


def _heap_mib() -> int:
    """What Java may take at most; Spark's name for another wish is SPARK_DRIVER_MEMORY."""
    there_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return min(max(there_mib // HEAP_SHARE, HEAP_MIB[0]), HEAP_MIB[1])


def _child_environment(master: str, java_home: Path, scratch: Path) -> dict[str, str]:
    options = (os.environ.get("SPARK_SUBMIT_OPTS", ""), f'"-Djava.io.tmpdir={scratch}"')
    changes = {"JAVA_HOME": str(java_home), "SPARK_SUBMIT_OPTS": " ".join(options).strip()}
    if stays_here(master):
        changes["SPARK_LOCAL_IP"] = LOOPBACK
    if master.startswith(LOCAL_CLUSTER):
        changes["SPARK_HOME"] = str(_spark_home_in(scratch))
    return changes


def _spark_home_in(scratch: Path) -> Path:
    """Spark as it is installed, seen through links: a local cluster writes into the directory it is started from."""
    home = scratch / "spark"
    home.mkdir()
    for part in Path(_find_spark_home()).iterdir():
        (home / part.name).symlink_to(part)
    return home


def is_local(master: str) -> bool:
    """Whether executors are threads of the driver."""
    return master.partition("[")[0] == LOCAL


def is_started_here(master: str) -> bool:
    """Whether no Spark runs yet: it is this process's own, with or without further processes, and ends with it."""
    return master.partition("[")[0] in (LOCAL, LOCAL_CLUSTER)


def stays_here(master: str) -> bool:
    """Return whether all of Spark runs on this machine, so that no other machine must reach it."""
    address = urlsplit(master)
    return is_started_here(master) or (address.scheme == "spark" and address.hostname in (LOOPBACK, "localhost"))


def _worker_python(master: str) -> str:
    """The interpreter of Python workers: this one, but elsewhere it may lie in another place (PYSPARK_PYTHON)."""
    return sys.executable if stays_here(master) else os.environ.get("PYSPARK_PYTHON", sys.executable)


def zip_package(scratch: Path) -> Path:
    """This package as executors import it: the same version everywhere, whatever is installed there."""
    package = Path(restante.__file__).parent
    target = scratch / "restante.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(package.rglob("*.py")):
            archive.write(source, source.relative_to(package.parent))
    return target


def _start_jvm(conf: SparkConf, environment: Mapping[str, str], scratch: Path) -> Any:
    """PySpark's link to a new Java process, which is its `proc`."""
    try:
        with _environment(environment), (scratch / "jvm.log").open("wb") as log, _interrupts_held() as held:
            gateway = _launch(conf, {"stdout": log, "stderr": log})
    except (PySparkException, OSError) as error:
        raise EnvironmentUnsuitable(f"Spark does not start; its last words:\n{_last_words(scratch)}") from error
    try:
        for deliver in held:
            deliver()
    except BaseException:
        _stop_jvm(gateway)
        raise
    return gateway


@contextmanager
def _interrupts_held() -> Iterator[list[Callable[[], object]]]:
    """Hold Ctrl-C back while the block runs: PySpark would leave the Java process behind that it is starting.

    What is yielded has a function for each time it came, which does what would have happened.
    """
    handler = signal.getsignal(signal.SIGINT)
    held: list[Callable[[], object]] = []
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield held
        return
    signal.signal(signal.SIGINT, lambda number, frame: held.append(lambda: handler(number, frame)))
    try:
        yield held
    finally:
        signal.signal(signal.SIGINT, handler)


def _stop_session(spark: SparkSession, process: Popen[bytes]) -> None:
    if process.poll() is None:
        spark.stop()
        return
    spark.sparkContext._jsc = None  # the JVM is gone; only this side must be stopped
    spark.sparkContext.stop()


def _stop_jvm(gateway: Any) -> None:
    process: Popen[bytes] = gateway.proc
    gateway.shutdown()
    if process.stdin is not None:
        process.stdin.close()  # the Java process ends when its input does
    try:
        process.wait(JVM_STOP_TIMEOUT_S)
    except TimeoutExpired:
        process.kill()
        process.wait()


def _last_words(scratch: Path) -> str:
    said = (scratch / "jvm.log").read_bytes().decode("utf-8", "replace").splitlines()
    lines = [line for line in said if not line.startswith(JAVA_STACK)]
    return "\n".join(lines[-LAST_WORDS_LINES:])[-LAST_WORDS_BYTES:].strip()


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """`changes` in this process's environment, for a child that takes its copy now."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _process_state_kept(scratch: Path) -> Iterator[None]:
    """Undo what PySpark leaves in a process: its link to Java, an interrupt handler, a path for imports."""
    gateway, jvm = SparkContext._gateway, SparkContext._jvm
    in_main_thread = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT)
    SparkContext._gateway = SparkContext._jvm = None
    try:
        yield
    finally:
        SparkContext._gateway, SparkContext._jvm = gateway, jvm
        if in_main_thread and handler is not None:
            signal.signal(signal.SIGINT, handler)
        # The directory is about to be deleted; another user who created it again could have modules imported from it.
        sys.path[:] = [entry for entry in sys.path if not entry.startswith(str(scratch))]

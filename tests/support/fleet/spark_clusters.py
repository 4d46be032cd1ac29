"""Spark's own cluster of one master and some workers, started from the pip package, on loopback only."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from restante.fleet.spark.java import bundled_java, find_java
from support.fleet.small_spark import SHORT_LIFE, quick_environ
from support.relay.node_processes import free_port
from support.system.mount_namespaces import with_own_tmp

LIMIT_S = 300.0  # long enough for a busy machine
PAGE = Path(__file__).parents[3] / "docs" / "howto" / "cluster.md"
USUAL_PORT = "7077"
_COMMAND = re.compile(r"^\$SPARK_HOME(/bin/spark-class .*)$", re.MULTILINE)
_LISTENING = re.compile(rb"Starting Spark master at spark://127\.0\.0\.1:\d+")
_REGISTERED = re.compile(rb"Successfully registered with master")


def cluster_environ() -> dict[str, str]:
    """For masters, workers and drivers: one Java, small and quickly started processes, nothing but loopback."""
    settings = {"spark.executor.extraJavaOptions": SHORT_LIFE, "spark.executor.memory": "512m"}
    no_second_port = "-Dspark.master.rest.enabled=false"  # always the same one, that takes jobs from anybody
    return os.environ | {
        **quick_environ(settings),
        "JAVA_HOME": str(find_java(os.environ, bundled=bundled_java())),
        "SPARK_DAEMON_JAVA_OPTS": f"{SHORT_LIFE} {no_second_port}",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


@dataclass(slots=True)
class Daemon:
    """A process with all that it starts, in a group of its own."""

    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        """With its executors and their Python workers, as when a machine loses its power."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def said(self, pattern: re.Pattern[bytes]) -> re.Match[bytes]:
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            if found := pattern.search(self.log.read_bytes()):
                return found
            assert self.process.poll() is None, self.log.read_text("utf-8")
            time.sleep(0.1)  # a log of Spark tells nobody that it has grown
        raise AssertionError(self.log.read_text("utf-8"))


@dataclass(slots=True)
class Cluster:
    master: str
    workers: list[Daemon] = field(default_factory=list)


@contextlib.contextmanager
def separate_machines(directory: Path, environ: Mapping[str, str], *, workers: int = 2) -> Iterator[Cluster]:
    """The same with workers that share no file with each other or with the driver but the installed programs.

    Each has a host name and a /tmp of its own (needs `support.system.mount_namespaces`). By one host name executors
    would read each other's shuffle files from the disk.
    """
    with standalone_cluster(directory, environ, workers=workers, are_separate=True) as cluster:
        yield cluster


@contextlib.contextmanager
def standalone_cluster(
    directory: Path, environ: Mapping[str, str], *, workers: int = 2, are_separate: bool = False
) -> Iterator[Cluster]:
    """By the commands of the page on clusters, with a port of its own."""
    port = str(free_port())
    home = str(Path(pyspark.__file__).parent)
    shown = [line.replace(USUAL_PORT, port).split() for line in _COMMAND.findall(PAGE.read_text("utf-8"))]
    master, worker = ([home + program, *words] for program, *words in shown)  # `home` may have a space in it
    daemons: list[Daemon] = []

    def start(name: str, command: list[str], *more: str, environ: Mapping[str, str] = environ) -> Daemon:
        log = directory / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, "--webui-port", "0", *more],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        daemons.append(Daemon(process, log))
        return daemons[-1]

    try:
        start("master", master).said(_LISTENING)
        for number in range(workers):
            if are_separate:
                host = f"127.0.0.{number + 2}"
                own = {**environ, "SPARK_LOCAL_IP": host, "TMPDIR": "/tmp", "SPARK_LOCAL_DIRS": "/tmp/spark"}  # noqa: S108
                more = ("--host", host, "--work-dir", "/tmp/work")  # noqa: S108 - in a namespace of its own
                start(f"worker-{number}", [*with_own_tmp(), *worker], *more, environ=own)
            else:
                start(f"worker-{number}", worker, "--work-dir", str(directory / f"work-{number}"))
        for daemon in daemons[1:]:
            daemon.said(_REGISTERED)
        yield Cluster(worker[-1], daemons[1:])
    finally:
        for daemon in daemons:
            daemon.kill()

"""Java's list of files to delete at its exit, emptied while a stream runs.

With Unix sockets, Spark 4.3 puts the socket of each result that Python reads on this list and never takes it off:
200 results leave 200 names of 70 letters. A stream that does not end would fill Java's memory with them, up to a
gigabyte a month (decision 0039); TCP instead would cost 24 ms a task (spark/session). The sockets themselves are gone,
or go with the session's directory.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

SCRATCH_PREFIX: Final = "restante-spark-"
"""How the temporary directory of a session begins. It is deleted with all files in it."""


def forget_exit_files(spark: SparkSession) -> None:
    """Give Java a new list. Only in a session of ours: in another one, Java alone deletes the files on it.

    The list is replaced, not cleared, because other threads of Java may be adding to it. Where a Java has another
    list, nothing is done: all that is lost is memory.
    """
    folder = spark.sparkContext.getConf().get("spark.python.unix.domain.socket.dir")
    if folder is None or not Path(folder).name.startswith(SCRATCH_PREFIX):
        return
    jvm: Any = spark.sparkContext._jvm
    with suppress(Py4JError):
        field = jvm.java.lang.Class.forName("java.io.DeleteOnExitHook").getDeclaredField("files")
        field.setAccessible(True)  # Spark opens java.io to itself
        field.set(None, jvm.java.util.LinkedHashSet())

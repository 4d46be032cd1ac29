"""What an operator can do something about when Spark fails, in a sentence instead of a stack of Java.

Only what is known by its text is translated; anything else stays as it is, for it is a bug or new to us.
"""

import errno
import os
import re
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from restante.model.errors import ConfigurationInvalid, EnvironmentUnsuitable, RestanteError, StoreUnusable

_MASTER: Final = re.compile(r"local(\[(\*|\d+)(,\d+)?\])?|local-cluster\[\d+,\d+,\d+\]|yarn|(spark|k8s)://\S+")
_NO_ROOM: Final = ("No space left on device", "File too large", "Disk quota exceeded")
_NOT_ALLOWED: Final = re.compile(r"[^\s()\[\]]* ?\(?(?:Permission denied|Read-only file system)\)?")
OWN_ERROR: Final = re.compile(r"restante\.[\w.]+\.(?:StoreUnusable|ConcurrentWriter): (.+)")
"""What this package raised in a process of Spark's."""
_NO_ACCESS: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_GONE: Final = ("SparkContext was shut down", "stopped SparkContext", "All masters are unresponsive")


def check_master(master: str) -> None:
    if not _MASTER.fullmatch(master):
        raise ConfigurationInvalid(
            f"--master {master!r} is none of Spark's: local[*], local-cluster[2,1,2048], spark://host:7077, yarn, k8s://..."
        )


def translate_spark_error(error: Exception, master: str) -> RestanteError | None:
    """What to say instead of `error`; None where that is not known."""
    if isinstance(error, OSError) and error.errno in _NO_ACCESS:
        return StoreUnusable(f"{error.filename or 'the lake'} cannot be written: {os.strerror(error.errno)}")
    text = _text_of(error) if isinstance(error, PySparkException | Py4JError) else ""
    if found := OWN_ERROR.search(text):
        return StoreUnusable(found[1].strip())
    if any(words in text for words in _NO_ROOM):
        return StoreUnusable("a disk that Spark writes to is full; make room and run it again, it starts over")
    if found := _NOT_ALLOWED.search(text):
        return StoreUnusable(f"Spark may not write there: {found[0].strip()}")
    if any(words in text for words in _GONE):
        return EnvironmentUnsuitable(f"the Spark master {master} does not answer, or has ended; see that it runs")
    return None


def is_for_want_of_room(error: Exception) -> bool:
    """Whether a disk is full, here or where a task ran: Java tells it by the system's words alone."""
    text = _text_of(error)
    return any(words in text for words in _NO_ROOM)


def _text_of(error: Exception) -> str:
    """A Java exception is asked for its text over the link to Java, which may be gone."""
    try:
        return str(error)
    except (Py4JError, OSError):
        return ""

"""What a node writes down about itself, and the one formatter that keeps docs/safe-logging.md.

A line is an event of a fixed list with facts of a fixed list: codes, counts, sizes and durations. The texts of
exceptions and of libraries carry peers and ids: at the default level only their kind and their place in the source are
told. The level `debug` shows them, for a machine under one's own eyes.
"""

import json
import logging
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import PurePath
from types import TracebackType
from typing import Any, Final, TextIO

LOGGER: Final = logging.getLogger("restante.node")
FACTS: Final = frozenset(
    {
        "blobs",
        "clean",
        "code",
        "connections",
        "error",
        "logger",
        "ms",
        "pid",
        "place",
        "puts",
        "reason",
        "refusals",
        "served",
        "waiting",
        "what",
    }
)
"""Every name a fact of a log line may have. A new one is added here, after a look at the page on safe logging."""
WITHHELD: Final = "withheld"


class Level(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def number(self) -> int:
        return logging.getLevelNamesMapping()[self.upper()]


class Format(StrEnum):
    """`auto` is text on a terminal and JSON anywhere else."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"


class Event(StrEnum):
    """Everything a node has to say."""

    LISTENING = "node.listening"
    STOPPING = "node.stopping"
    STOPPED = "node.stopped"
    CRASHED = "node.crashed"
    REAPED = "store.reaped"
    REAP_FAILED = "store.reap_failed"
    STORE_FAILED = "store.failed"
    STORE_RECOVERED = "store.recovered"
    SHIPPING_FAILED = "journal.ship_failed"
    SHIPPING_RECOVERED = "journal.ship_recovered"
    RELAY = "relay.event"
    STATUS_EXPOSED = "status.not_on_loopback"
    FOREIGN = "library.message"


class Reason(StrEnum):
    """A word for why, where no code says it."""

    FILE_GONE = "file_gone"
    CANNOT_WRITE = "cannot_write"
    DISK_FULL = "disk_full"
    TOO_SLOW = "too_slow"


def log(level: Level, event: Event, error: BaseException | None = None, /, **facts: object) -> None:
    """One line; of an error its kind and place, and its text at the level `debug`."""
    if LOGGER.isEnabledFor(level.number):
        LOGGER.log(level.number, event, exc_info=error, extra={"facts": facts})


def set_up_logging(*, level: Level, form: Format, stream: TextIO) -> None:
    """All that this process logs goes to `stream`, through the formatter; nothing another library set up is kept."""
    as_json = form is Format.JSON or (form is Format.AUTO and not stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(SafeFormatter(as_json=as_json, with_texts=level is Level.DEBUG))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level.number, logging.WARNING))  # of libraries only what is wrong
    LOGGER.setLevel(level.number)
    logging.captureWarnings(capture=True)
    logging.raiseExceptions = False  # a reader of our log that went away is no reason to print a traceback


class SafeFormatter(logging.Formatter):
    """JSON or text; with texts of others only where asked for."""

    def __init__(self, *, as_json: bool, with_texts: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self._with_texts = with_texts

    def format(self, record: logging.LogRecord) -> str:
        ours = isinstance(record.msg, Event)
        event = record.msg if ours else Event.FOREIGN
        facts: dict[str, Any] = {}
        if ours:
            facts |= {name: _safe(name, value) for name, value in getattr(record, "facts", {}).items()}
        else:
            facts["logger"] = record.name.partition(".")[0]
        if record.exc_info and record.exc_info[0] is not None:
            facts |= {"error": record.exc_info[0].__name__, "place": _place(record.exc_info[2])}
            code = getattr(record.exc_info[1], "code", None)
            if isinstance(code, StrEnum):
                facts["code"] = code
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = self._line(at, record.levelname.lower(), str(event), facts)
        return line + self._texts(record, ours=ours)

    def _line(self, at: str, level: str, event: str, facts: dict[str, Any]) -> str:
        if self._as_json:
            return json.dumps({"at": at, "level": level, "event": event, **facts})
        told = "".join(f" {name}={value}" for name, value in facts.items())
        return f"{at} {level:<7} {event}{told}"

    def _texts(self, record: logging.LogRecord, *, ours: bool) -> str:
        if not self._with_texts or (ours and not record.exc_info):
            return ""
        texts = [] if ours else [record.getMessage()]
        texts += [self.formatException(record.exc_info)] if record.exc_info else []
        text = "\n".join(texts)
        return "\n" + (json.dumps({"event": "debug.text", "text": text}) if self._as_json else text)


def _safe(name: str, value: object) -> object:
    """The value, if a log may hold it: a number or a word of a fixed list, under a known name."""
    if name not in FACTS or not isinstance(value, (bool, int, float, StrEnum)):
        return WITHHELD
    return value


def _place(trace: TracebackType | None) -> str:
    """File and line where an error arose, without the directories."""
    if trace is None:
        return "?"
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"

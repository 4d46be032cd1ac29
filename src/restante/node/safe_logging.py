"""What a node logs, and the one formatter that enforces docs/safe-logging.md.

A line is an event of a fixed list with fields of a fixed list: codes, counts, sizes and durations. Texts of exceptions
and of libraries may contain addresses and ids, so only their type and source line are logged, except at level `debug`.
"""

import json
import logging
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import PurePath
from types import TracebackType
from typing import Any, Final, TextIO

from restante.node.stats import RelayEvent

LOGGER: Final = logging.getLogger("restante.node")
FIELDS: Final = frozenset(
    {
        "blobs",
        "clean",
        "code",
        "connections",
        "error",
        "logger",
        "ms",
        "pending",
        "pid",
        "puts",
        "reason",
        "refusals",
        "served",
        "source",
    }
)
"""Every field name of a log line. Before adding one, read docs/safe-logging.md."""
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
    """Every event a node logs."""

    LISTENING = "node.listening"
    STOPPING = "node.stopping"
    STOPPED = "node.stopped"
    CRASHED = "node.crashed"
    REAPED = "store.reaped"
    REAP_FAILED = "store.reap_failed"
    REAP_DELAYED = "store.reap_delayed"
    STORE_FAILED = "store.failed"
    STORE_RECOVERED = "store.recovered"
    SHIPPING_FAILED = "journal.ship_failed"
    SHIPPING_RECOVERED = "journal.ship_recovered"
    CONNECTED = "relay.connected"
    DISCONNECTED = "relay.disconnected"
    REJECTED = "relay.rejected"
    HANDSHAKE_FAILED = "relay.handshake_failed"
    SUBSCRIBED = "relay.subscribed"
    REFUSED = "relay.refused"
    PROTOCOL_ERROR = "relay.protocol_error"
    IDLE_TIMEOUT = "relay.idle_timeout"
    SLOW_READER = "relay.slow_reader"
    FRAME_TIMEOUT = "relay.frame_timeout"
    PARTIAL_FRAMES_FULL = "relay.partial_frames_full"
    BLOB_DAMAGED = "relay.blob_damaged"
    RELAY_STORE_FAILED = "relay.store_failed"
    RELAY_STORE_RECOVERED = "relay.store_recovered"
    RELAY_REAPED = "relay.reaped"
    RELAY_STOPPING = "relay.stopping"
    STATUS_EXPOSED = "status.not_on_loopback"
    PEER_DATA_FAILED = "mesh.peer_data_failed"
    FOREIGN = "library.message"


RELAY_EVENTS: Final = {event: Event(f"relay.{event}") for event in RelayEvent}


class Reason(StrEnum):
    """Why the store is unusable."""

    FILE_GONE = "file_gone"
    CANNOT_WRITE = "cannot_write"
    DISK_FULL = "disk_full"
    TOO_SLOW = "too_slow"


def log(level: Level, event: Event, error: BaseException | None = None, /, **fields: object) -> None:
    """Log one line. Of an error it has the type and source line; its text only at level `debug`."""
    if LOGGER.isEnabledFor(level.number):
        LOGGER.log(level.number, event, exc_info=error, extra={"fields": fields})


def set_up_logging(*, level: Level, form: Format, stream: TextIO) -> None:
    """Send everything this process logs to `stream`, through the formatter; replace handlers of libraries."""
    as_json = form is Format.JSON or (form is Format.AUTO and not stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(SafeFormatter(as_json=as_json, with_texts=level is Level.DEBUG))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level.number, logging.WARNING))  # libraries: warnings and errors only
    LOGGER.setLevel(level.number)
    logging.captureWarnings(capture=True)
    logging.raiseExceptions = False  # print no traceback when the reader of the log is gone


class SafeFormatter(logging.Formatter):
    """Formats lines as JSON or text; with texts of exceptions and libraries only if `with_texts`."""

    def __init__(self, *, as_json: bool, with_texts: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self._with_texts = with_texts

    def format(self, record: logging.LogRecord) -> str:
        ours = isinstance(record.msg, Event)
        event = record.msg if ours else Event.FOREIGN
        fields: dict[str, Any] = {}
        if ours:
            fields |= {name: _safe(name, value) for name, value in getattr(record, "fields", {}).items()}
        else:
            fields["logger"] = record.name.partition(".")[0]
        if record.exc_info and record.exc_info[0] is not None:
            fields |= {"error": record.exc_info[0].__name__, "source": _source_line(record.exc_info[2])}
            code = getattr(record.exc_info[1], "code", None)
            if isinstance(code, StrEnum):
                fields["code"] = code
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = self._line(at, record.levelname.lower(), str(event), fields)
        return line + self._texts(record, ours=ours)

    def _line(self, at: str, level: str, event: str, fields: dict[str, Any]) -> str:
        if self._as_json:
            return json.dumps({"at": at, "level": level, "event": event, **fields})
        shown = "".join(f" {name}={value}" for name, value in fields.items())
        return f"{at} {level:<7} {event}{shown}"

    def _texts(self, record: logging.LogRecord, *, ours: bool) -> str:
        if not self._with_texts or (ours and not record.exc_info):
            return ""
        texts = [] if ours else [record.getMessage()]
        texts += [self.formatException(record.exc_info)] if record.exc_info else []
        text = "\n".join(texts)
        return "\n" + (json.dumps({"event": "debug.text", "text": text}) if self._as_json else text)


def _safe(name: str, value: object) -> object:
    """Return the value if it is a number or a word of a fixed list under a known name; else hide it."""
    if name not in FIELDS or not isinstance(value, (bool, int, float, StrEnum)):
        return WITHHELD
    return value


def _source_line(trace: TracebackType | None) -> str:
    """Return file name and line where the error was raised."""
    if trace is None:
        return "?"
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"

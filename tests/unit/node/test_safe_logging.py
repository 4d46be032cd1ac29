"""A log line holds events, codes and counts; what others say stays out of it."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from restante.model.error_codes import Code
from restante.model.errors import StoreUnusable
from restante.node.safe_logging import FIELDS, WITHHELD, Event, Format, Level, log, set_up_logging
from support.spec.clauses import clause

PRIVATE = "rst1qsecret 203.0.113.9"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("restante.node")
    kept = root.handlers[:], root.level, ours.level, logging.raiseExceptions
    yield
    root.handlers[:], root.level, ours.level, logging.raiseExceptions = kept
    logging.captureWarnings(capture=False)


def logging_to(*, level: Level = Level.INFO, form: Format = Format.JSON) -> io.StringIO:
    stream = io.StringIO()
    set_up_logging(level=level, form=form, stream=stream)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def failing() -> StoreUnusable:
    with pytest.raises(StoreUnusable) as caught:
        raise StoreUnusable(PRIVATE)
    return caught.value


def test_an_event_is_one_line_of_json_with_its_facts() -> None:
    stream = logging_to()
    log(Level.INFO, Event.REAPED, blobs=3, ms=1.5, code=Code.STORAGE_FAILED)
    [line] = lines(stream)
    assert line.pop("at").endswith("Z")
    assert line == {"level": "info", "event": "store.reaped", "blobs": 3, "ms": 1.5, "code": "E004"}


@clause("6.9")
@pytest.mark.parametrize("value", [PRIVATE, PRIVATE.encode(), [PRIVATE], None])
def test_a_fact_that_is_neither_number_nor_known_word_is_withheld(value: object) -> None:
    stream = logging_to()
    log(Level.INFO, Event.REAPED, blobs=value)
    assert lines(stream)[0]["blobs"] == WITHHELD


@clause("6.9")
@pytest.mark.parametrize("name", ["port", "peer", "blob_id", "address"])
def test_a_fact_under_an_unknown_name_is_withheld_even_if_it_is_a_number(name: str) -> None:
    assert name not in FIELDS
    stream = logging_to()
    log(Level.INFO, Event.REAPED, **{name: 3_405_803_785})
    assert lines(stream)[0][name] == WITHHELD


@clause("6.9")
@pytest.mark.parametrize("form", [Format.JSON, Format.TEXT])
def test_of_an_error_its_kind_code_and_place_are_told_and_not_its_text(form: Format) -> None:
    stream = logging_to(form=form)
    log(Level.ERROR, Event.CRASHED, failing())
    told = stream.getvalue()
    assert len(told.splitlines()) == 1
    for part in ("StoreUnusable", "test_safe_logging.py:", "E106"):
        assert part in told
    assert "secret" not in told


@clause("6.9")
def test_of_a_library_only_its_name_is_told() -> None:
    stream = logging_to()
    logging.getLogger("asyncio.events").warning("lost %s", PRIVATE, exc_info=failing())
    [line] = lines(stream)
    assert (line["event"], line["logger"], line["error"]) == ("library.message", "asyncio", "StoreUnusable")
    assert "secret" not in stream.getvalue()


def test_what_a_library_merely_mentions_is_not_written() -> None:
    stream = logging_to()
    logging.getLogger("uvicorn.error").info("started")
    assert stream.getvalue() == ""


def test_the_debug_level_shows_texts_and_where_they_come_from() -> None:
    stream = logging_to(level=Level.DEBUG, form=Format.TEXT)
    log(Level.ERROR, Event.CRASHED, failing())
    assert PRIVATE in stream.getvalue()
    assert "Traceback" in stream.getvalue()


def test_debug_in_json_stays_one_value_a_line() -> None:
    stream = logging_to(level=Level.DEBUG)
    logging.getLogger("asyncio").warning("lost %s", PRIVATE)
    assert [line["event"] for line in lines(stream)] == ["library.message", "debug.text"]
    assert lines(stream)[1]["text"] == f"lost {PRIVATE}"


def test_lines_below_the_level_are_not_written() -> None:
    stream = logging_to(level=Level.WARNING)
    log(Level.INFO, Event.REAPED, blobs=1)
    log(Level.WARNING, Event.STORE_FAILED)
    assert [line["event"] for line in lines(stream)] == ["store.failed"]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_text_and_everything_else_json() -> None:
    for stream, first in ((_Terminal(), "2"), (io.StringIO(), "{")):
        set_up_logging(level=Level.INFO, form=Format.AUTO, stream=stream)
        log(Level.INFO, Event.STOPPED, clean=True)
        assert stream.getvalue()[0] == first
        assert "node.stopped" in stream.getvalue()

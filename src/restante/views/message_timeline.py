"""The facts about one message as a person and as a program reads them."""

from collections.abc import Sequence
from typing import Any

from rich.console import Group

from restante.model.error_codes import Code
from restante.model.ids import event_number
from restante.model.journal import JournalEvent
from restante.views import formatting
from restante.views.text_tables import table


def facts_data(facts: Sequence[JournalEvent]) -> list[dict[str, Any]]:
    return [
        {
            "number": event_number(fact.event_id),
            "at_ms": fact.at_ms,
            "fact": fact.kind.value,
            "attempt": fact.attempt,
            "code": fact.code,
            "latency_ms": fact.latency_ms,
        }
        for fact in facts
    ]


def facts_table(facts: Sequence[JournalEvent]) -> Group:
    first_ms = facts[0].at_ms if facts else 0
    rows = [
        (
            formatting.moment(fact.at_ms),
            f"+{formatting.roughly(fact.at_ms - first_ms)}" if fact.at_ms >= first_ms else "before",
            fact.kind.value.replace("_", " "),
            str(fact.attempt or ""),
            words_of(fact.code),
        )
        for fact in facts
    ]
    return table("Facts", "at (UTC)", "after", "fact", "attempt", "why", rows=rows, right=("after", "attempt"))


def words_of(code: str | None) -> str:
    """A code with its name; other reasons are words already."""
    if code is None:
        return ""
    known = {each.value: each for each in Code}
    if code in known:
        return f"{code} {known[code].name.replace('_', ' ').lower()}"
    return code.replace("_", " ")

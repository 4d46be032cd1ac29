"""`restante policy`: print the rules in force, from the tables that the code uses."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType

from restante.cli.error_advice import REFUSAL_ADVICE
from restante.cli.shared_options import inputs_of
from restante.cli.terminal import console, print_json
from restante.model.kinds import KIND_RULES, DeliveryClass, Kind, KindRule, TtlType
from restante.policy.failures import CODE_RULES, FAILURE_RULES, FailureRule
from restante.policy.retry import Schedule, delay_ms
from restante.policy.send_order import QUEUE_TIME_MS
from restante.policy.settings import Settings
from restante.runtime.settings_loader import known_settings
from restante.views import formatting
from restante.views.text_tables import table

SECOND_MS: Final = 1_000


class Topic(StrEnum):
    KINDS = "kinds"
    RETRY = "retry"
    ERRORS = "errors"
    SETTINGS = "settings"


def policy(
    ctx: typer.Context,
    topic: Annotated[Topic | None, typer.Argument(help="Print only this topic.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with plain numbers.")] = False,
) -> None:
    """Print the rules in force: kinds of message, retry schedules, error codes, settings."""
    settings = inputs_of(ctx).load().settings
    topics = [topic] if topic else list(Topic)
    if as_json:
        print_json({each.value: DATA[each](settings) for each in topics})
        return
    out = console()
    for each in topics:
        out.print(TABLES[each](settings))


def kinds_data(_: Settings) -> list[dict[str, Any]]:
    return [
        {
            "kind": kind.value,
            "class": rule.delivery.value,
            "ttl_type": rule.ttl_type.name.lower(),
            "ttl_default_s": rule.ttl_default_s,
            "ttl_min_s": rule.ttl_min_s,
            "ttl_max_s": rule.ttl_max_s,
            "priority": rule.priority.name.lower(),
            "longest_unsent_s": _longest_unsent_s(rule),
        }
        for kind, rule in KIND_RULES.items()
    ]


def kinds_table(_: Settings) -> RenderableType:
    return table(
        "Kinds of message (SPEC 2.2, 2.3)",
        *("kind", "class", "TTL", "min", "max", "priority", "unsent"),
        rows=[_kind_row(kind, rule) for kind, rule in KIND_RULES.items()],
        right=("TTL", "min", "max"),
    )


def _kind_row(kind: Kind, rule: KindRule) -> tuple[str, ...]:
    longest_s = _longest_unsent_s(rule)
    return (
        kind.value,
        rule.delivery.value + (", relative" if rule.ttl_type is TtlType.RELATIVE else ""),
        "caller's" if rule.ttl_default_s is None else formatting.duration(rule.ttl_default_s * SECOND_MS),
        formatting.duration(rule.ttl_min_s * SECOND_MS),
        formatting.duration(rule.ttl_max_s * SECOND_MS),
        rule.priority.name.lower(),
        "never" if longest_s is None else formatting.duration(longest_s * SECOND_MS),
    )


def _longest_unsent_s(rule: KindRule) -> int | None:
    """Return how long a message may wait unsent, None if its kind is never queued."""
    return None if rule.delivery is DeliveryClass.REAL_TIME else QUEUE_TIME_MS[rule.priority] // SECOND_MS


def retry_data(settings: Settings) -> dict[str, Any]:
    retry = settings.retry
    return {
        "mesh_relay": {
            "delays_s": _delays_s(retry),
            "max_attempts": retry.max_attempts,
            "base_s": formatting.plain(retry.base_ms / SECOND_MS),
            "max_delay_s": formatting.plain(retry.max_delay_ms / SECOND_MS),
            "jitter": retry.jitter,
        },
        "channel": {
            "delays_s": _delays_s(settings.channel_retry),
            "max_attempts": settings.channel_retry.max_attempts,
        },
    }


def retry_table(settings: Settings) -> RenderableType:
    columns = [_delays_s(settings.retry), _delays_s(settings.channel_retry)]
    rows = [
        (str(n + 1), *(formatting.duration(delays[n] * SECOND_MS) if n < len(delays) else "" for delays in columns))
        for n in range(max(map(len, columns)))
    ]
    jitter = f"waits on mesh and relay routes vary by up to {settings.retry.jitter:.0%} in both directions"
    return Group(
        table(
            "Wait after each failed attempt (SPEC 4.1, 4.2)",
            *("attempt", "mesh and relay", "channel"),
            rows=rows,
            right=("attempt", "mesh and relay", "channel"),
        ),
        f"{jitter}; after its last attempt a message becomes a dead letter\n",
    )


def _delays_s(schedule: Schedule) -> list[int | float]:
    return [formatting.plain(delay_ms(schedule, n) / SECOND_MS) for n in range(1, schedule.max_attempts + 1)]


def errors_data(_: Settings) -> dict[str, Any]:
    return {
        "codes": [
            {
                "code": code.value,
                "name": code.name,
                "action": rule.action.value,
                "notifies": rule.notifies,
                "advice": rule.advice,
            }
            for code, rule in CODE_RULES.items()
        ],
        "refusals": [
            {"code": code.value, "name": code.name, "advice": advice} for code, advice in REFUSAL_ADVICE.items()
        ],
        "failures": [
            {
                "failure": failure.value,
                "code": rule.code.value,
                "backoff": rule.backoff.value,
                "counts_as_attempt": rule.counts_as_attempt,
                "also": _also(rule),
            }
            for failure, rule in FAILURE_RULES.items()
        ],
    }


def errors_table(_: Settings) -> RenderableType:
    codes = [
        (code.value, code.name, _words(rule.action) + (", notify" if rule.notifies else ""), rule.advice)
        for code, rule in CODE_RULES.items()
    ]
    failures = [
        (_words(failure), rule.code.value, _words(rule.backoff), ", ".join(_also(rule)))
        for failure, rule in FAILURE_RULES.items()
    ]
    refusals = [(code.value, code.name, advice) for code, advice in REFUSAL_ADVICE.items()]
    return Group(
        table("Delivery codes (SPEC 4.4)", "code", "name", "action", "advice", rows=codes),
        table("Failures of an attempt (SPEC 4.3)", "failure", "code", "wait", "also", rows=failures),
        table("Refusals: nothing was accepted or changed", "code", "name", "advice", rows=refusals),
    )


def _also(rule: FailureRule) -> list[str]:
    """Return the further consequences of a failure as texts."""
    asked = {
        "not counted as an attempt": not rule.counts_as_attempt,
        "only once": rule.retries_once,
        "rebuild circuit": rule.rebuilds_circuit,
        "try other nodes": rule.tries_other_nodes,
        "reset session": rule.resets_session,
        "notify": rule.notifies,
    }
    return [words for words, is_asked in asked.items() if is_asked]


def _words(name: StrEnum) -> str:
    return name.value.replace("_", " ")


def settings_data(settings: Settings) -> list[dict[str, Any]]:
    return [
        {
            "key": one.key,
            "value": getattr(getattr(settings, one.section), one.name),
            "default": one.default,
            "low": one.allowed.low,
            "high": one.allowed.high,
            "unit": one.allowed.unit,
            "clause": one.allowed.clause,
            "variable": one.variable,
        }
        for one in known_settings()
    ]


def settings_table(settings: Settings) -> RenderableType:
    rows = [
        (
            one["key"],
            formatting.quantity(one["value"], one["unit"]),
            one["clause"],
            formatting.span(one["low"], one["high"], one["unit"] if one["unit"] in ("ms", "bytes") else ""),
        )
        for one in settings_data(settings)
    ]
    return table("Settings", "key", "in force", "SPEC", "allowed", rows=rows, right=("in force",))


DATA: Final[Mapping[Topic, Callable[[Settings], Any]]] = {
    Topic.KINDS: kinds_data,
    Topic.RETRY: retry_data,
    Topic.ERRORS: errors_data,
    Topic.SETTINGS: settings_data,
}
TABLES: Final[Mapping[Topic, Callable[[Settings], RenderableType]]] = {
    Topic.KINDS: kinds_table,
    Topic.RETRY: retry_table,
    Topic.ERRORS: errors_table,
    Topic.SETTINGS: settings_table,
}

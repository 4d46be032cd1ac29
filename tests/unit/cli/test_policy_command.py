"""The tables and the JSON of `restante policy`."""

from io import StringIO

import pytest
from rich.console import Console

from restante.cli.policy import TABLES, Topic, errors_data, kinds_data, retry_data, settings_data
from restante.model.error_codes import Code
from restante.policy.retry import ChannelSchedule, RetrySchedule
from restante.policy.settings import Settings
from support.spec.clauses import clause

DEFAULTS = Settings()


def render(topic: Topic, settings: Settings = DEFAULTS) -> str:
    out = Console(file=StringIO(), width=80, highlight=False)
    with out.capture() as captured:
        out.print(TABLES[topic](settings))
    return captured.get()


@pytest.mark.parametrize("topic", Topic)
def test_a_table_fits_eighty_columns_with_nothing_cut_off(topic: Topic) -> None:
    text = render(topic)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text


@clause("4.1", "4.2")
def test_the_delays_are_those_of_both_schedules() -> None:
    data = retry_data(DEFAULTS)
    assert data["mesh_relay"]["delays_s"] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 3600, 3600, 3600, 3600, 3600]
    assert data["channel"]["delays_s"] == [5, 25, 120, 600, 600]


def test_the_delays_follow_the_settings_in_force() -> None:
    changed = Settings(
        retry=RetrySchedule(base_ms=150, max_delay_ms=60_000, max_attempts=11),
        channel_retry=ChannelSchedule(max_attempts=2),
    )
    data = retry_data(changed)
    assert data["mesh_relay"]["delays_s"] == [0.15, 0.3, 0.6, 1.2, 2.4, 4.8, 9.6, 19.2, 38.4, 60, 60]
    assert data["channel"]["delays_s"] == [5, 25]
    assert "38,400 ms" in render(Topic.RETRY, changed)


def test_the_retry_table_has_a_row_a_try() -> None:
    rows = [line.split() for line in render(Topic.RETRY).splitlines()]
    assert ["4", "8", "s", "10", "min"] in rows
    assert ["10", "512", "s"] in rows
    assert ["15", "1", "h"] in rows


def test_the_spread_is_told_in_percent() -> None:
    assert "up to 20% in both directions" in render(Topic.RETRY)


@clause("2.2", "2.3")
@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("text", "durable 30 d 1 h 90 d normal 1 d"),
        ("media", "durable 7 d 1 h 30 d low 3 d"),
        ("read_receipt", "durable 1 d 1 h 7 d high 1 h"),
        ("disappearing", "durable, relative caller's 5 s 30 d normal 1 d"),
        ("voice_leave", "durable 7 d 1 h 30 d normal 1 d"),
        ("control", "durable 30 d 1 h 30 d high 1 h"),
        ("typing", "real-time 30 s 10 s 1 min high never"),
        ("voice_frame", "real-time 30 s 1 s 1 min high never"),
    ],
)
def test_a_kind_is_shown_with_its_numbers(kind: str, row: str) -> None:
    rows = [" ".join(line.split()) for line in render(Topic.KINDS).splitlines()]
    assert f"{kind} {row}" in rows


def test_json_of_a_kind_has_plain_seconds_and_null_for_what_does_not_apply() -> None:
    by_kind = {each["kind"]: each for each in kinds_data(DEFAULTS)}
    assert len(by_kind) == 14
    assert by_kind["disappearing"] == {
        "kind": "disappearing",
        "class": "durable",
        "ttl_type": "relative",
        "ttl_default_s": None,
        "ttl_min_s": 5,
        "ttl_max_s": 2_592_000,
        "priority": "normal",
        "longest_unsent_s": 86_400,
    }
    assert by_kind["typing"]["longest_unsent_s"] is None


@clause("4.4")
def test_the_ten_delivery_codes_are_listed_with_names_and_actions() -> None:
    codes = errors_data(DEFAULTS)["codes"]
    assert [(each["code"], each["name"]) for each in codes] == [
        ("E001", "NETWORK_UNREACHABLE"),
        ("E002", "CIRCUIT_BUILD_FAILED"),
        ("E003", "DHT_LOOKUP_FAILED"),
        ("E004", "STORAGE_FAILED"),
        ("E005", "RECIPIENT_NOT_FOUND"),
        ("E006", "MESSAGE_TOO_LARGE"),
        ("E007", "RATE_LIMITED"),
        ("E008", "ENCRYPTION_FAILED"),
        ("E009", "SESSION_INVALID"),
        ("E010", "TTL_EXPIRED"),
    ]
    assert [each["code"] for each in codes if each["notifies"]] == ["E005", "E006", "E010"]
    assert [each["code"] for each in codes if each["action"] == "retry"] == ["E001", "E002", "E003", "E004"]


def test_every_code_is_in_one_table_or_the_other() -> None:
    data = errors_data(DEFAULTS)
    listed = [each["code"] for each in data["codes"] + data["refusals"]]
    assert sorted(listed) == sorted(code.value for code in Code)


@clause("4.3")
def test_a_failure_is_shown_with_all_it_asks_for() -> None:
    by_failure = {each["failure"]: each for each in errors_data(DEFAULTS)["failures"]}
    assert by_failure["network_timeout"]["also"] == ["rebuild circuit", "try other nodes"]
    assert by_failure["rate_limited"]["counts_as_attempt"] is False
    assert by_failure["authentication_failed"]["also"] == [], "no node's answer touches a session (SPEC 4.3)"
    assert by_failure["tls_handshake_failed"]["backoff"] == "linear"


def test_a_setting_is_shown_with_value_default_range_and_clause() -> None:
    by_key = {each["key"]: each for each in settings_data(Settings(retry=RetrySchedule(base_ms=200)))}
    assert by_key["retry.base_ms"] == {
        "key": "retry.base_ms",
        "value": 200,
        "default": 1000,
        "low": 100,
        "high": 10_000,
        "unit": "ms",
        "clause": "4.1",
        "variable": "RESTANTE_RETRY__BASE_MS",
    }


def test_the_settings_table_shows_whole_keys_and_readable_ranges() -> None:
    rows = [" ".join(line.split()) for line in render(Topic.SETTINGS).splitlines()]
    assert "outbox.max_pending_per_upstream_lane 256 entries 3.6 1 .. 10,000" in rows
    assert "dedup.window_ms 30 d 9.2 7 d .. 90 d" in rows

"""policy/settings: every section can be set, and no value outside its range can exist."""

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from restante.model.error_codes import Code
from restante.model.errors import OutOfRange
from restante.model.setting_ranges import Range, ranges_of
from restante.policy.settings import Settings
from support.spec.clauses import clause

DEFAULTS: dict[str, dict[str, float]] = {
    "retry": {"base_ms": 1_000, "max_delay_ms": 3_600_000, "jitter": 0.2, "max_attempts": 15},
    "channel_retry": {"max_attempts": 5},
    "outbox": {
        "max_entries": 10_000,
        "max_payload_bytes": 50_000_000,
        "max_lane_share": 0.8,
        "control_reserve": 500,
        "max_pending_per_upstream_lane": 256,
        "drain_on_startup": 1,
        "upstream_max_age_ms": 604_800_000,
        "sweep_interval_ms": 300_000,
        "drain_budget_ms": 60_000,
        "lease_ms": 60_000,
    },
    "dead_letters": {
        "permanent_retention_ms": 2_592_000_000,
        "tombstone_retention_ms": 86_400_000,
        "auto_retry_interval_ms": 86_400_000,
    },
    "mailbox": {
        "max_bytes": 100_000_000,
        "max_blobs": 10_000,
        "max_blob_bytes": 262_144,
        "max_ttl_ms": 2_592_000_000,
        "min_ttl_ms": 3_600_000,
        "total_bytes": 10_000_000_000,
    },
    "dedup": {"max_entries": 100_000, "max_bytes": 10_000_000, "window_ms": 2_592_000_000},
    "order": {"max_gap": 1_000, "gap_timeout_ms": 300_000},
    "acks": {"max_wait_ms": 1_000, "max_ids": 64},
    "relay": {
        "put_rate_per_s": 0,
        "max_connections": 4_096,
        "max_subscriptions_per_mailbox": 4,
        "handshake_timeout_ms": 10_000,
        "idle_timeout_ms": 75_000,
        "slow_reader_timeout_ms": 30_000,
        "frame_timeout_ms": 30_000,
        "heartbeat_interval_ms": 25_000,
        "reap_interval_ms": 3_600_000,
        "max_send_buffer_bytes": 1_048_576,
        "max_uncommitted_bytes": 67_108_864,
        "max_partial_bytes": 67_108_864,
    },
    "journal": {"ship_interval_ms": 60_000},
    "mesh": {"ping_interval_ms": 60_000},
    "circuits": {
        "pool": 10,
        "spares": 2,
        "messages_per_minute": 1_000,
        "bytes_per_s": 1_048_576,
        "idle_ms": 60_000,
        "max_queued_bytes": 67_108_864,
        "max_circuits": 16_384,
        "max_circuits_per_client": 64,
    },
}
KEYS = [
    (section.name, declared.name, allowed)
    for section in fields(Settings)
    for declared, allowed in ranges_of(getattr(Settings(), section.name))
]


@clause("3.6", "3.9", "4.1", "4.2", "5.3", "6.6", "6.8", "9.2", "10.5")
def test_the_defaults_are_the_numbers_of_the_contract() -> None:
    settings = Settings()
    built = {
        section.name: {
            declared.name: getattr(getattr(settings, section.name), declared.name)
            for declared in fields(getattr(settings, section.name))
        }
        for section in fields(settings)
    }
    assert built == DEFAULTS


def test_every_setting_has_a_range_a_unit_and_a_clause() -> None:
    assert len(KEYS) == sum(len(section) for section in DEFAULTS.values())
    for section, key, allowed in KEYS:
        assert allowed.low < allowed.high, f"{section}.{key}"
        assert allowed.clause, f"{section}.{key}"
        assert allowed.unit or key == "jitter", f"{section}.{key}"


@pytest.mark.parametrize(("section", "key", "allowed"), KEYS, ids=lambda part: str(part)[:30])
def test_a_value_at_the_end_of_its_range_is_taken_and_one_beyond_names_section_key_and_range(
    section: str, key: str, allowed: Range
) -> None:
    kind = type(getattr(Settings(), section))
    assert getattr(kind(**{key: allowed.low}), key) == allowed.low
    assert getattr(kind(**{key: allowed.high}), key) == allowed.high
    for outside in (allowed.low - 1, allowed.high + 1):
        with pytest.raises(OutOfRange) as caught:
            kind(**{key: outside})
        assert str(caught.value).startswith(f"{section}.{key} = {outside} is outside {allowed.low}..{allowed.high}")
        assert caught.value.code is Code.OUT_OF_RANGE


def test_settings_cannot_be_changed_after_they_were_checked() -> None:
    retry: Any = Settings().retry  # a type checker would refuse the assignment by itself
    with pytest.raises(FrozenInstanceError):
        retry.base_ms = 0

"""The page docs/reference/config.md, made from the settings classes so that it cannot go stale."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from types import MappingProxyType
from typing import Final

from restante.model.setting_ranges import ranges_of
from restante.policy.channel_rate_limit import ChannelLimits
from restante.runtime.journal.segment_directory import STORE_SCHEMES
from restante.runtime.settings_loader import DEFAULT_FILE, FILE_VARIABLE, SHIP_TO, Setting, known_settings
from restante.views import formatting

MEANINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "retry.base_ms": "the first wait on mesh and relay routes; each later one doubles",
        "retry.max_delay_ms": "the longest wait, and the wait from the eleventh try on",
        "retry.jitter": "how far a wait may be moved either way, as a part of itself",
        "retry.max_attempts": "failed tries until a message becomes a dead letter",
        "channel_retry.max_attempts": "the same for channel routes",
        "outbox.max_entries": "messages the outbox holds before `send` is refused",
        "outbox.max_payload_bytes": "payload the outbox holds before `send` is refused",
        "outbox.max_pending_per_relay_lane": "pending messages of one relay before the oldest is evicted",
        "outbox.relay_row_life_ms": "the age at which rows of relay lanes are pruned",
        "outbox.sweep_every_ms": "how often expired messages are looked for",
        "outbox.drain_budget_ms": "how long the drain at start-up may take",
        "outbox.lease_ms": "how long a sender may hold a message before another takes it up",
        "dead_letters.retriable_ms": "how long a dead letter that may still succeed is kept",
        "dead_letters.permanent_ms": "how long one that cannot succeed is kept for review",
        "dead_letters.tombstone_ms": "how long the trace of an expired message is kept",
        "dead_letters.auto_retry_every_ms": "the time between two automatic retries of a dead letter",
        "storage.max_bytes": "bytes a node keeps for one recipient",
        "storage.max_blobs": "messages a node keeps for one recipient",
        "storage.max_blob_bytes": "the largest message a node takes",
        "storage.max_life_ms": "the longest a node keeps a message",
        "storage.min_life_ms": "the remaining life below which a message is not stored",
        "dedup.max_entries": "arrivals remembered to recognise duplicates",
        "dedup.max_bytes": "memory those may take",
        "dedup.window_ms": "how long an arrival is remembered",
        "order.max_gap": "missing messages after which a session is given up",
        "order.gap_timeout_ms": "how long later messages wait for a missing one",
        "acks.max_wait_ms": "how long an acknowledgement waits for others to travel with",
        "acks.max_ids": "messages acknowledged in one batch at most",
        "relay.push_rate_per_s": "puts a second that one connection may send for long",
        "relay.push_burst": "puts that one connection may send at once",
        "relay.max_connections": "connections a relay holds open",
        "relay.max_receive_sessions": "connections that may receive for one address at the same time",
        "relay.handshake_ms": "how long a new connection may take to introduce itself",
        "relay.idle_ms": "how long a connection may be silent before it is closed",
        "relay.slow_reader_ms": "how long a connection may leave what was sent to it unread",
        "relay.heartbeat_ms": "how often a client says that it is still there",
        "relay.reap_every_ms": "how often expired messages are removed from a relay",
        "relay.max_unread_bytes": "bytes that wait for one connection before no more are produced",
        "relay.max_waiting_bytes": "bytes of puts that wait for the disk before connections are no longer read",
        "journal.ship_every_ms": "how often new facts leave for `ship_to`, where that is set",
    }
)

INTRODUCTION: Final = f"""\
# Configuration

Written by `restante config --reference`; do not edit.

A setting comes from the first of these that has it:

1. a flag before the command: `restante --set retry.base_ms=200 demo`
2. a variable: `RESTANTE_RETRY__BASE_MS=200` (section and key in capitals, two underscores between them)
3. one TOML file: the one of `--config FILE`, else the one `{FILE_VARIABLE}` names, else `{DEFAULT_FILE}` in the
   current directory, if there is one
4. the default

```toml
[retry]
base_ms = 200

[outbox]
max_entries = 5_000
```

Unknown sections and keys, values of another type and values outside their range are refused when a command starts,
with exit status 2. `restante config` shows what is in force and where each value came from. Ranges include their ends.
"""


SHIP_TO_ROW: Final = f"""\
| `ship_to` | none | an absolute path, or an address: {", ".join(STORE_SCHEMES)} or file, then `://` | 13.1 | \
where the journal is shipped to by itself, as Parquet segments; nowhere, if it is not set |

`ship_to` holds for nodes and for clients while they run. [What that needs and what it does](../howto/cluster.md).
"""


NODE: Final = """
## A node's own file

`restante node` reads `DIR/node.toml` and no other file; flags and variables go before it as everywhere. The file may
have the sections {sections} and this one, whose texts come from the file only:

### [node]

| key | default | allowed | what it is |
|---|---|---|---|
| `listen` | `{listen}` | host:port, an IPv6 address in brackets | where clients reach the relay |
| `status` | `{status}` | the same | where `/healthz`, `/metrics` and `/status` answer |
| `log_level` | `{level}` | {levels} | how much is logged; `debug` shows texts that may name peers |
| `log_format` | `{form}` | {forms} | `auto` is text on a terminal and JSON lines elsewhere |
"""


CHANNEL_MEANINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "chat_interval_ms": "the least time between two messages to one chat",
        "channel_interval_ms": "the least time between two messages to any chat of the channel",
        "timeout_ms": "how long a platform may take to answer, and an adapter to start",
        "restart_after_ms": "when an adapter that did not start is started again",
    }
)
CHANNELS: Final = """
## [channels.NAME]

One table for each channel, in the file only: `adapter` names a built-in adapter or a class (`module:Class`), the other
keys are its options. An option that is a secret is given as `<option>_file`, a file with mode 0600, or `<option>_env`,
a variable. [The adapters and their options](../howto/channels.md#registering-channels). Every channel also has:

| key | default | allowed | SPEC | what it is |
|---|---|---|---|---|
"""


def configuration_page() -> str:
    """The whole page as Markdown."""
    parts = [INTRODUCTION]
    for section, settings in groupby(known_settings(), key=lambda setting: setting.section):
        parts += [f"\n## [{section}]\n\n", "| key | default | allowed | SPEC | what it is |\n"]
        parts += ["|---|---|---|---|---|\n", *(_row(setting, MEANINGS[setting.key]) for setting in settings)]
        parts += [SHIP_TO_ROW] if SHIP_TO.startswith(f"{section}.") else []
    return "".join([*parts, CHANNELS, *_channel_rows(), _node_section()])


def _channel_rows() -> Iterator[str]:
    defaults = ChannelLimits()
    for declared, allowed in ranges_of(defaults):
        default: int = getattr(defaults, declared.name)
        setting = Setting(section="channels.NAME", name=declared.name, type=int, default=default, allowed=allowed)
        yield _row(setting, CHANNEL_MEANINGS[declared.name])


def _node_section() -> str:
    from restante.node import config, safe_logging

    return NODE.format(
        sections=", ".join(f"`[{section}]`" for section in config.NODE_SECTIONS),
        listen=config.DEFAULT_LISTEN,
        status=config.DEFAULT_STATUS,
        level=safe_logging.Level.INFO,
        levels=", ".join(f"`{level}`" for level in safe_logging.Level),
        form=safe_logging.Format.AUTO,
        forms=", ".join(f"`{form}`" for form in safe_logging.Format),
    )


def _row(setting: Setting, meaning: str) -> str:
    allowed = setting.allowed
    shown = formatting.quantity(setting.default, allowed.unit)
    default = f"{setting.default} ({shown})" if allowed.unit in ("ms", "bytes") else shown
    cells = (
        f"`{setting.name}`",
        default,
        f"{allowed.low} .. {allowed.high} {allowed.unit}".rstrip(),
        allowed.clause,
        meaning,
    )
    return f"| {' | '.join(cells)} |\n"

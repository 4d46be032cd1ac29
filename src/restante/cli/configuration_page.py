"""Generate docs/reference/configuration.md from the settings classes."""

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
        "retry.base_ms": "the wait after the first failed attempt on mesh and relay routes; each next one is double",
        "retry.max_delay_ms": "the longest wait between two attempts",
        "retry.jitter": "the random part of a wait, as a fraction of it, in both directions",
        "retry.max_attempts": "failed attempts until a message becomes a dead letter",
        "channel_retry.max_attempts": "failed attempts until a chunk of a channel message becomes a dead letter",
        "outbox.max_entries": "entries in the outbox; `send` fails with E104 above this",
        "outbox.max_payload_bytes": "payload bytes in the outbox; `send` fails with E104 above this",
        "outbox.max_lane_share": "share of the outbox that one lane, or one of several relays, may take",
        "outbox.control_reserve": "entries that only control messages (acknowledgements, requests) may take",
        "outbox.max_pending_per_upstream_lane": "pending entries of one upstream lane; above it the oldest is evicted",
        "outbox.upstream_max_age_ms": "the age at which entries of upstream lanes are pruned",
        "outbox.sweep_interval_ms": "the time between two sweeps for expired messages",
        "outbox.drain_on_startup": "send what is due when the outbox starts; 0 waits for the first wake-up",
        "outbox.drain_budget_ms": "the time limit of the drain at startup",
        "outbox.lease_ms": "the time a sender may hold an entry before its lease expires",
        "dead_letters.permanent_retention_ms": "how long a dead letter that no retry can deliver is kept",
        "dead_letters.tombstone_retention_ms": "how long the tombstone of an expired message is kept",
        "dead_letters.auto_retry_interval_ms": "the time between two automatic retries of a dead letter",
        "mailbox.max_bytes": "bytes a node stores for one mailbox",
        "mailbox.max_blobs": "blobs a node stores for one mailbox",
        "mailbox.max_blob_bytes": "the size of the largest blob a node accepts",
        "mailbox.max_ttl_ms": "the longest remaining TTL; a node cuts a longer one",
        "mailbox.min_ttl_ms": "the shortest remaining TTL a node accepts",
        "mailbox.total_bytes": "bytes a node stores for mailboxes, mesh, records and tombstones together",
        "dedup.max_entries": "arrivals in the dedup index",
        "dedup.max_bytes": "the size of the dedup index",
        "dedup.window_ms": "how long an arrival stays in the dedup index",
        "order.max_gap": "messages that the reorder buffer holds, and how far ahead a message may be",
        "order.gap_timeout_ms": "how long later messages wait for a missing one",
        "acks.max_wait_ms": "how long an acknowledgement waits to be batched with others",
        "acks.max_ids": "messages acknowledged in one batch",
        "relay.put_rate_per_s": "the rate of puts of one connection; 0 fixes none, and connections share fairly",
        "relay.max_connections": "connections a relay holds open",
        "relay.max_subscriptions_per_mailbox": "connections that may be subscribed to one mailbox at the same time",
        "relay.handshake_timeout_ms": "how long a new connection may take to authenticate",
        "relay.idle_timeout_ms": "how long a connection may be silent before the relay closes it",
        "relay.slow_reader_timeout_ms": "how long a connection may leave sent bytes unread before the relay closes it",
        "relay.frame_timeout_ms": "how long a frame may take from its first byte to its last",
        "relay.heartbeat_interval_ms": "the time between two heartbeats of a client",
        "relay.reap_interval_ms": "the time between two removals of expired blobs",
        "relay.max_send_buffer_bytes": "unsent bytes of one connection above which the relay pauses sending to it",
        "relay.max_uncommitted_bytes": "bytes of puts not yet on disk above which the relay pauses reading",
        "relay.max_partial_bytes": "bytes of incomplete frames above which the relay closes the oldest of them",
        "mesh.ping_interval_ms": "the time between two pings of a neighbour in the mesh; other intervals follow it",
        "circuits.pool": "circuits that a client has at most",
        "circuits.spares": "circuits that a client builds before it needs them",
        "circuits.messages_per_minute": "messages a minute that a client sends through circuits; more wait",
        "circuits.bytes_per_s": "bytes a second that a client sends through circuits; more wait",
        "circuits.idle_ms": "how long a circuit stays without use",
        "circuits.max_queued_bytes": "bytes of queued cells above which a hop ends the circuit with the longest queue",
        "circuits.max_circuits": "circuits that a hop forwards at most",
        "circuits.max_circuits_per_client": "circuits of one client connection at a hop",
        "journal.ship_interval_ms": "the time between two shipments of journal events to `ship_to`",
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
where the journal is shipped as Parquet segments; unset: no automatic shipping |

Nodes and clients ship while they run. [How to set up shipping](../howto/cluster.md).
"""


NODE: Final = """
## A node's own file

`restante node` reads `DIR/node.toml` and no other file; flags and variables go before it as everywhere. The file may
have the sections {sections} and these texts, which come from the file only:

### [node]

| key | default | allowed | what it is |
|---|---|---|---|
| `listen` | `{listen}` | host:port, an IPv6 address in brackets | where clients and nodes reach the node |
| `roles` | `["mailbox"]` | some of mailbox, storage, hop | what the node does: relay, mesh storage, hop |
| `status` | `{status}` | the same | where `/healthz`, `/metrics` and `/status` answer |
| `log_level` | `{level}` | {levels} | how much is logged; `debug` shows texts that may name peers |
| `log_format` | `{form}` | {forms} | `auto` is text on a terminal and JSON lines elsewhere |

### [mesh]

| key | default | allowed | what it is |
|---|---|---|---|
| `bootstrap` | `[]` | a list of KEY@HOST:PORT | the nodes to join by, of at least three families |
| `network` | `public` | `public`, `private` | `private`: all nodes are yours, in one network |
"""


CHANNEL_MEANINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "chat_interval_ms": "the shortest time between two messages to one chat",
        "channel_interval_ms": "the shortest time between two messages to any chat of the channel",
        "timeout_ms": "how long a platform may take to answer, and an adapter to start",
        "restart_delay_ms": "the wait before an adapter that failed to start is started again",
    }
)
CHANNELS: Final = """
## [channels.NAME]

One table for each channel, in the file only: `adapter` names a built-in adapter or a class (`module:Class`), the other
keys are its options. An option that is a secret is given as `<option>_file`, a file with mode 0600, or `<option>_env`,
a variable. [The adapters and their options](../howto/channels.md#configure-channels). Every channel also has:

| key | default | allowed | SPEC | what it is |
|---|---|---|---|---|
"""


def configuration_page() -> str:
    """Return the page as Markdown."""
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

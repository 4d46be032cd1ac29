"""The `node.toml` that `restante node init` writes: each setting as a comment with its range.

Generated from the settings classes.
"""

from itertools import groupby
from typing import Final

from restante.cli.configuration_page import MEANINGS
from restante.node.config import DEFAULT_LISTEN, DEFAULT_STATUS, NODE_SECTIONS
from restante.node.safe_logging import Format, Level
from restante.runtime.settings_loader import Setting, known_settings
from restante.views import formatting

HEAD: Final = """\
# A Restante node. Read when the node starts; restart it after a change.
# A line that starts with # shows a default: remove the # to change it.

[node]
# The address for clients. With the default, only this machine can connect.
listen = "{listen}"

# The address of /healthz, /metrics and /status, over plain HTTP. Keep it on loopback, or behind a proxy that
# authenticates.
status = "{status}"

# What the node does: "mailbox" (a relay that contacts name), "storage" (mail of the mesh), "hop" (circuits).
# roles = ["mailbox"]

# Log level ({levels}); debug logs texts that may name peers.
# log_level = "{level}"

# Log format ({formats}); auto is text on a terminal and JSON lines elsewhere.
# log_format = "{form}"
"""

MESH: Final = """
# Nodes to join by, of at least 3 families: ["KEY@HOST:PORT", ...]. Known peers are kept for the next start.
# bootstrap = []

# "private" if your nodes share one network: lifts the limits per network and family, and says so in status and health.
# network = "public"
"""

OF_CLIENTS: Final = frozenset(
    f"circuits.{name}" for name in ("pool", "spares", "messages_per_minute", "bytes_per_s", "idle_ms")
)
"""Settings that no node reads."""

SHIP_TO: Final = """
# Ship the journal here: an absolute path, or an address such as s3://bucket/segments.
# ship_to = "/srv/restante-segments"
"""


def node_toml(*, listen: str = DEFAULT_LISTEN, status: str = DEFAULT_STATUS) -> str:
    """Return the text of the file."""
    head = HEAD.format(
        listen=listen,
        status=status,
        levels=", ".join(Level),
        level=Level.INFO,
        formats=", ".join(Format),
        form=Format.AUTO,
    )
    ours = [each for each in known_settings() if each.section in NODE_SECTIONS and each.key not in OF_CLIENTS]
    ours.sort(key=lambda setting: NODE_SECTIONS.index(setting.section))
    parts = [head]
    for section, settings in groupby(ours, key=lambda setting: setting.section):
        parts += [f"\n[{section}]\n", "\n".join(map(_lines, settings))]
        parts += {"journal": [SHIP_TO], "mesh": [MESH]}.get(section, [])
    return "".join(parts)


def _lines(setting: Setting) -> str:
    allowed = setting.allowed
    return (
        f"# {MEANINGS[setting.key]}: {formatting.span(allowed.low, allowed.high, allowed.unit)}\n"
        f"# {setting.name} = {setting.default:_}\n"
    )

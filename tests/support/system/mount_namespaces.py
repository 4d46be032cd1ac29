"""Processes with file systems of their own: what another machine has, or a disk that cannot be written."""

import shutil
import subprocess
from pathlib import Path

_OWN_TMP = 'mount -t tmpfs tmpfs /tmp && exec "$@"'
_SMALL = 'mount -t tmpfs -o size="$1" tmpfs "$0" && shift && exec "$@"'
_READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


def why_no_namespaces() -> str | None:
    """Why this machine lets no process have mounts of its own; None if it does."""
    if shutil.which("unshare") is None:
        return "there is no program unshare"
    tried = subprocess.run([*with_own_tmp(), "true"], capture_output=True, text=True, check=False)
    return tried.stderr.strip() or "mounts are not allowed" if tried.returncode else None


def with_own_tmp() -> list[str]:
    """What to put before a command so that /tmp is empty and its own."""
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", _OWN_TMP, "sh"]


def with_read_only(directory: Path) -> list[str]:
    """What to put before a command so that it cannot write to `directory`."""
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", _READ_ONLY, str(directory)]


def with_small_disk(directory: Path, *, size: str) -> list[str]:
    """What to put before a command so that `directory` is a new disk of this size, such as 40m."""
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", _SMALL, str(directory), size]

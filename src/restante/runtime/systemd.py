"""Notify systemd of a service's state (sd_notify). Does nothing without a service manager."""

import os
import socket
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

VARIABLE: Final = "NOTIFY_SOCKET"


class ServiceState(StrEnum):
    """The states in systemd's notation."""

    READY = "READY=1"
    STOPPING = "STOPPING=1"


def notify(state: ServiceState, environ: Mapping[str, str] = os.environ) -> bool:
    """Notify the service manager; return whether that succeeded. A failure is ignored."""
    place = environ.get(VARIABLE, "")
    if place[:1] not in ("/", "@"):
        return False
    where = "\0" + place[1:] if place.startswith("@") else place  # @ marks a name in Linux's abstract namespace
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.sendto(state.encode(), where)
    except OSError:
        return False
    return True

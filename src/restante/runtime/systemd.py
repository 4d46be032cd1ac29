"""Telling systemd how a service fares (its sd_notify protocol); says nothing where no service manager listens."""

import os
import socket
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

VARIABLE: Final = "NOTIFY_SOCKET"


class Word(StrEnum):
    """What we tell, in systemd's words."""

    READY = "READY=1"
    STOPPING = "STOPPING=1"


def notify(word: Word, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a service manager was told. One that cannot be reached is no reason to fail."""
    place = environ.get(VARIABLE, "")
    if place[:1] not in ("/", "@"):
        return False
    where = "\0" + place[1:] if place.startswith("@") else place  # @ stands for Linux's abstract names
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.sendto(word.encode(), where)
    except OSError:
        return False
    return True

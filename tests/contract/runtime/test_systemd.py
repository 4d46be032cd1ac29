"""What systemd would hear."""

import socket
from pathlib import Path

import pytest

from restante.runtime.systemd import ServiceState, notify


@pytest.mark.parametrize("abstract", [False, True])
def test_a_service_manager_hears_the_word(tmp_path: Path, abstract: bool) -> None:
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name if abstract else name)
        assert notify(ServiceState.READY, {"NOTIFY_SOCKET": "@" + name if abstract else name})
        assert manager.recv(64) == b"READY=1"


@pytest.mark.parametrize("environ", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "/nowhere/at/all"}])
def test_nobody_listening_is_no_failure(environ: dict[str, str]) -> None:
    assert not notify(ServiceState.STOPPING, environ)

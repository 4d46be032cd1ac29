"""A node as its operator has it: its directory, its process, and the commands that are run beside it."""

import contextlib
import http.client
import io
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from restante.cli.main import app, run
from restante.cli.node.config_template import node_toml
from restante.core.inboxes.relay_inbox import relay_inbox_key
from restante.model.places import RelayPlace
from restante.runtime.endpoints import Endpoint, parse_endpoint
from restante.runtime.identity_files import load_identity
from restante.runtime.node_home import NodeDirectory
from restante.runtime.system import SystemClock, SystemEntropy
from restante.wire.envelope import Envelope, encode_envelope
from support.system.wait_until import LIMIT_S, looks

COMMAND = str(Path(sys.executable).with_name("restante"))
HOUR_MS = 3_600_000


def clean_environ(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RESTANTE_", "FORCE_COLOR"))}
    return kept | {"COLUMNS": "80", "TERM": "xterm", "NO_COLOR": "1"} | more


@dataclass(frozen=True, slots=True)
class Done:
    stdout: str
    stderr: str


def restante(*args: str, status: int = 0, **environ: str) -> Done:
    """The command in this process, where a new one for each question would take most of a test's time."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.dict(os.environ, clean_environ(**environ), clear=True),
        pytest.raises(SystemExit) as ended,
    ):
        run(app, args)
    assert ended.value.code == status, out.getvalue() + err.getvalue()
    return Done(out.getvalue(), err.getvalue())


def spawned(*args: str, status: int = 0, cwd: Path | None = None, **environ: str) -> Done:
    """The command as a process of its own."""
    done = subprocess.run(
        [COMMAND, *args],
        cwd=cwd,
        env=clean_environ(**environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return Done(done.stdout, done.stderr)


def free_port() -> int:
    """A port that stays ours until this process ends, listened at or not: nobody else is given it meanwhile.

    Whoever sets SO_REUSEADDR, as servers do, may listen at it, because the socket that keeps it does not.
    """
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.bind(("127.0.0.1", 0))
    port: int = keeper.getsockname()[1]
    keeper.detach()
    return port


@dataclass(frozen=True, slots=True)
class NodeHome:
    """A node's directory. Its port stays the same over restarts, as it does for real nodes."""

    path: Path
    relay: RelayPlace

    @classmethod
    def made(cls, path: Path, **settings: dict[str, int]) -> "NodeHome":
        listen = Endpoint(host="127.0.0.1", port=free_port())
        text = node_toml(listen=str(listen), status="127.0.0.1:0")
        identity = NodeDirectory(path).create(text, SystemEntropy())
        home = cls(path, RelayPlace(node_key=identity.node_key, host=listen.host, port=listen.port))
        for section, values in settings.items():
            home.set(section, **values)
        return home

    def set(self, section: str, **values: object) -> None:
        """Write settings where the file has them as comments."""
        text = self.config.read_text("utf-8")
        for name, value in values.items():
            before, head, after = text.partition(f"[{section}]\n")
            changed, times = re.subn(
                rf"^(# )?{name} = .*$", f"{name} = {json.dumps(value)}", after, count=1, flags=re.MULTILINE
            )
            assert times == 1, name
            text = before + head + changed
        self.config.write_text(text, "utf-8")

    @property
    def config(self) -> Path:
        return self.path / "node.toml"

    @property
    def database(self) -> Path:
        return self.path / "node.db"

    @property
    def key(self) -> Path:
        return self.path / "key"

    def envelopes(self, *sealed: bytes) -> list[bytes]:
        """For the inbox of the node's own identity, which is as good as any."""
        inbox_key = relay_inbox_key(load_identity(self.key).address, self.relay.node_key)
        expires_at_ms = (SystemClock().now_ms() // HOUR_MS + 48) * HOUR_MS
        return [
            encode_envelope(Envelope(inbox_key=inbox_key, expires_at_ms=expires_at_ms, sealed=one)) for one in sealed
        ]


@dataclass(slots=True)
class NodeProcess:
    home: NodeHome
    process: subprocess.Popen[bytes]
    status: Endpoint
    log: list[bytes]
    reader: threading.Thread = field(repr=False)

    @property
    def relay(self) -> RelayPlace:
        return self.home.relay

    @property
    def pid(self) -> int:
        return self.process.pid

    def get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.status.host, self.status.port, timeout=LIMIT_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def health(self) -> int:
        return self.get("/healthz")[0]

    def stats(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.get("/status")[1])["relay"]
        return told

    def terminate(self) -> int:
        self.process.terminate()
        return self.ended()

    def kill(self) -> None:
        self.process.kill()
        self.ended()

    def ended(self) -> int:
        status = self.process.wait(LIMIT_S)
        self.reader.join(LIMIT_S)
        return status

    def logged(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in list(self.log)]

    def events(self) -> list[str]:
        return [line["event"] for line in self.logged()]


@contextlib.contextmanager
def running_node(home: NodeHome, *options: str) -> Iterator[NodeProcess]:
    """A node that has said it is ready, as it says it to a service manager; gone when the block ends."""
    node = start_node(home, *options)
    try:
        yield node
    finally:
        node.process.kill()
        node.ended()


def start_node(home: NodeHome, *options: str) -> NodeProcess:
    manager = home.path.with_name(f"{home.path.name}.notify")
    manager.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(manager))
        process = subprocess.Popen(
            [COMMAND, *options, "node", "run", str(home.path)],
            env=clean_environ(NOTIFY_SOCKET=str(manager)),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        log: list[bytes] = []
        reader = threading.Thread(target=_read_into, args=(process, log), daemon=True)
        reader.start()
        try:
            _wait_until_ready(process, heard, log)
        except BaseException:
            process.kill()
            process.wait()
            raise
    note = json.loads((home.path / "lock").read_text("utf-8"))
    return NodeProcess(home, process, parse_endpoint(note["status"]), log, reader)


def _read_into(process: subprocess.Popen[bytes], log: list[bytes]) -> None:
    assert process.stderr is not None
    with process.stderr as stream:
        log.extend(iter(stream.readline, b""))


def _wait_until_ready(process: subprocess.Popen[bytes], heard: socket.socket, log: list[bytes]) -> None:
    heard.settimeout(0.2)
    for _ in looks():
        with contextlib.suppress(TimeoutError):
            assert heard.recv(64) == b"READY=1"
            return
        assert process.poll() is None, b"".join(log).decode()

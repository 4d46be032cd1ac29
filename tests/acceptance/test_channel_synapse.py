"""Matrix against a real homeserver. `make test` puts Synapse into a venv of its own, inside ours, where it can.

Any other one does, too: SYNAPSE_PYTHON names the Python of an environment that has it.
"""

import asyncio
import contextlib
import hashlib
import hmac
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from restante.client.channels import Channels, Enqueued
from restante.core.channel_delivery import ChunkState
from restante.model.error_codes import Code
from restante.policy.channel_platforms import Platform
from restante.policy.channel_rate_limit import ChannelLimits
from restante.runtime.channels.adapters.matrix import MatrixAdapter
from restante.runtime.channels.channel_config import Registered
from restante.runtime.channels.secret import Secret
from support.channels.fixtures import StillDice, draft
from support.relay.node_processes import free_port
from support.system.wait_until import LIMIT_S, looks

OWN = Path(sys.prefix) / "synapse"
SYNAPSE = os.environ.get("SYNAPSE_PYTHON") or str(OWN / "bin" / "python")
WHY_NOT = OWN / "why-not.txt"
SHARED = "registration-secret"


def why_not() -> str:
    """Why there is no homeserver; empty where there is one."""
    if not Path(SYNAPSE).exists():
        return "no matrix-synapse: `make test` installs it"
    if "SYNAPSE_PYTHON" not in os.environ and WHY_NOT.exists():
        return f"no matrix-synapse: {WHY_NOT.read_text().strip()}"
    return ""


pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


@dataclass(frozen=True, slots=True, kw_only=True)
class Homeserver:
    url: str
    token: str
    room: str

    def call(self, method: str, path: str, value: object = None) -> Any:
        answer = httpx.request(
            method, f"{self.url}/_matrix/client/v3{path}", json=value, headers={"authorization": f"Bearer {self.token}"}
        )
        assert answer.is_success, answer.text
        return answer.json()

    def messages(self) -> list[dict[str, Any]]:
        told = self.call("GET", f"/rooms/{self.room}/messages?dir=f&limit=100")
        return [event["content"] for event in told["chunk"] if event["type"] == "m.room.message"]


@pytest.fixture(scope="module")
def homeserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Homeserver]:
    directory = tmp_path_factory.mktemp("synapse")
    port = free_port()
    config = directory / "homeserver.yaml"
    run = [SYNAPSE, "-m", "synapse.app.homeserver"]
    subprocess.run(
        [*run, "--generate-config", "-H", "localhost", "--report-stats=no", "-c", str(config)],
        cwd=directory, check=True, capture_output=True, timeout=LIMIT_S,
    )  # fmt: skip
    text = config.read_text().replace("port: 8008", f"port: {port}").replace("- ::1\n", "")
    lines = [line for line in text.splitlines() if not line.startswith("registration_shared_secret")]
    config.write_text("\n".join([*lines, f"registration_shared_secret: {SHARED}", ""]))
    with subprocess.Popen(
        [*run, "-c", str(config)], cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield _ready(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()


def _ready(url: str) -> Homeserver:
    """A user with a room on a server that has started."""
    nonce = ""
    for _ in looks():
        with contextlib.suppress(httpx.HTTPError):
            nonce = httpx.get(f"{url}/_synapse/admin/v1/register").json()["nonce"]
            break
    parts = b"\x00".join(part.encode() for part in (nonce, "restante", "password", "notadmin"))
    mac = hmac.new(SHARED.encode(), parts, hashlib.sha1).hexdigest()  # as its admin API wants it
    user = {"nonce": nonce, "username": "restante", "password": "password", "admin": False, "mac": mac}
    token = httpx.post(f"{url}/_synapse/admin/v1/register", json=user).json()["access_token"]
    room = Homeserver(url=url, token=token, room="").call("POST", "/createRoom", {})["room_id"]
    return Homeserver(url=url, token=token, room=room)


def opened(directory: Path, homeserver: Homeserver) -> Channels:
    def make() -> MatrixAdapter:
        return MatrixAdapter(homeserver=homeserver.url, token=Secret(homeserver.token))

    ops = Registered(name="ops", adapter="matrix", platform=Platform.MATRIX, limits=ChannelLimits(), make=make)
    return Channels.open(directory / "mail.db", {"ops": ops}, entropy=StillDice(int.from_bytes(os.urandom(4), "big")))


async def test_chunks_arrive_in_order_with_their_html(tmp_path: Path, homeserver: Homeserver) -> None:
    channels = opened(tmp_path, homeserver)
    await channels.deliver(draft("\n\n".join(f"**{n}** " + "x" * 2_500 for n in range(3)), chat=homeserver.room))
    await channels.drain()
    await channels.close()
    got = await asyncio.to_thread(homeserver.messages)
    assert [one["body"][0] for one in got[-3:]] == ["0", "1", "2"]
    assert got[-1]["formatted_body"].startswith("<p><strong>2</strong>")


async def test_a_repeat_after_a_crash_is_recognised_by_its_transaction(tmp_path: Path, homeserver: Homeserver) -> None:
    channels = opened(tmp_path, homeserver)
    sent = await channels.deliver(draft("only once", chat=homeserver.room))
    assert isinstance(sent, Enqueued)
    [message_id] = sent.message_ids
    content = {"msgtype": "m.text", "body": "only once"}
    path = f"/rooms/{homeserver.room}/send/m.room.message/{message_id.hex()}"
    await asyncio.to_thread(homeserver.call, "PUT", path, content)  # as if the process had died right after
    await channels.outbox.within(lambda store: store.progress.store(message_id, ChunkState(is_open=True)))
    await channels.drain()
    await channels.close()
    got = await asyncio.to_thread(homeserver.messages)
    assert [one["body"] for one in got].count("only once") == 1


async def test_a_room_we_are_not_in_is_a_final_refusal(tmp_path: Path, homeserver: Homeserver) -> None:
    channels = opened(tmp_path, homeserver)
    stream = channels.outbox.events()
    await channels.deliver(draft("hi", chat="!nowhere:localhost"))
    await channels.drain()
    await channels.close()
    codes = [getattr(change, "code", None) async for change in stream]
    assert codes[-1] == Code.CHANNEL_REFUSED

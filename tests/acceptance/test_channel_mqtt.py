"""MQTT through a real broker (Mosquitto): what subscribers get, what a refusal means, a broker that is restarted."""

import asyncio
import contextlib
import getpass
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiomqtt
import pytest

from restante.client.channels import Channels
from restante.policy.channel_platforms import Format, Platform
from restante.policy.channel_rate_limit import ChannelLimits
from restante.ports.channel_adapter import NotSent, Outgoing, SendRefused
from restante.runtime.channels.adapters.mqtt import MqttAdapter
from restante.runtime.channels.channel_config import Registered
from support.channels.fixtures import StillDice, draft, long_text
from support.relay.node_processes import free_port
from support.system.wait_until import LIMIT_S, looks

MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/sbin")
pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed (Debian: apt install mosquitto)")


class Broker:
    """Everyone may use topics below open/, nobody any other."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        rules, self._config = directory / "rules", directory / "mosquitto.conf"
        rules.write_text("topic readwrite open/#\n")
        rules.chmod(0o600)
        self._config.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\nacl_file {rules}\nuser {getpass.getuser()}\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert MOSQUITTO is not None
        self._process = subprocess.Popen(
            [MOSQUITTO, "-c", str(self._config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in looks():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path)
    made.start()
    yield made
    made.stop()


@pytest.fixture
async def adapter(broker: Broker) -> AsyncIterator[MqttAdapter]:
    made = MqttAdapter(host="127.0.0.1", port=broker.port, timeout_s=5)
    yield made
    await made.close()


def outgoing(topic: str, text: str = "hi") -> Outgoing:
    return Outgoing(chat=topic, text=text, plain=text, format=Format.PLAIN, key="k1", thread_key="k1", title="T")


@contextlib.asynccontextmanager
async def subscribed(broker: Broker) -> AsyncIterator[aiomqtt.Client]:
    async with aiomqtt.Client("127.0.0.1", broker.port, protocol=aiomqtt.ProtocolVersion.V5) as client:
        await client.subscribe("open/#", qos=1)
        yield client


async def test_subscribers_get_the_chunks_in_order_with_their_labels(
    tmp_path: Path, broker: Broker, adapter: MqttAdapter
) -> None:
    made = Registered(name="ops", adapter="mqtt", platform=Platform.OTHER, limits=ChannelLimits(), make=lambda: adapter)
    channels = Channels.open(tmp_path / "mail.db", {"ops": made}, entropy=StillDice(1))
    async with subscribed(broker) as client, asyncio.timeout(LIMIT_S):
        await channels.deliver(draft(long_text(3), chat="open/news"))
        await channels.drain()
        got = [await anext(client.messages) for _ in range(3)]
    await channels.close()
    assert [str(one.payload)[2:3] for one in got] == ["0", "1", "2"]
    labels = [dict(getattr(one.properties, "UserProperty", ())) for one in got]
    assert [one["part"] for one in labels] == ["1/3", "2/3", "3/3"]
    assert len({one["key"] for one in labels}) == 3


async def test_a_topic_we_may_not_use_is_a_final_refusal(adapter: MqttAdapter) -> None:
    with pytest.raises(SendRefused) as refusal:
        await adapter.send(outgoing("closed/news"))
    assert refusal.value.said == "not a member"


@pytest.mark.parametrize("topic", ["open/+", "open/#", "open/\0"])
async def test_a_topic_with_wildcards_is_no_recipient(adapter: MqttAdapter, topic: str) -> None:
    with pytest.raises(SendRefused) as refusal:
        await adapter.send(outgoing(topic))
    assert "invalid recipient" in refusal.value.said


async def test_a_broker_that_was_restarted_is_found_again(broker: Broker, adapter: MqttAdapter) -> None:
    await adapter.start()
    broker.stop()
    with pytest.raises(Exception, match="broker"):
        await adapter.send(outgoing("open/a"))
    with pytest.raises(NotSent):
        await adapter.check()
    broker.start()
    assert await adapter.check() == "the broker answers"
    await adapter.send(outgoing("open/a"))

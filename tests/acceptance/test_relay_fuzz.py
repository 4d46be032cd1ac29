"""Garbage, oversize, truncated and half-open input over real sockets: the relay and its other sessions go on."""

import asyncio
import contextlib
import random
import socket
from pathlib import Path

import pytest

from restante.policy.connection_limits import RelayLimits
from restante.wire.frames import codec
from support.relay.raw_peer import BOB, LOOPBACK, SOON_S, RawPeer, RunningRelay, running_relay

ROUNDS = 60


def nonsense(dice: random.Random, relay: RunningRelay) -> bytes:
    """Bytes a broken or hostile client might send once it is connected."""
    good = codec.encode_frame(codec.Put(envelope=relay.envelope(dice.randbytes(20))), dice.randrange(2**32))
    damaged = bytearray(good)
    damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
    return dice.choice(
        [
            dice.randbytes(dice.randrange(1, 400)),
            good[: dice.randrange(len(good))],
            bytes(damaged),
            dice.randrange(524_294, 2**32).to_bytes(4, "big") + dice.randbytes(100),
            codec.frame_head(dice.randrange(256), dice.randrange(2**32), 40) + dice.randbytes(40),
            codec.frame_head(dice.choice(list(codec.FrameType)), 1, 96) + dice.randbytes(96),
            good * 3 + dice.randbytes(3),
        ]
    )


async def half_open(port: int, dice: random.Random) -> socket.socket:
    """A connection that says some bytes of TLS, or of nothing, and then no more."""
    plain = socket.socket()
    plain.setblocking(False)
    await asyncio.get_running_loop().sock_connect(plain, (LOOPBACK, port))
    with contextlib.suppress(ConnectionError):
        await asyncio.get_running_loop().sock_sendall(plain, b"\x16\x03\x01" + dice.randbytes(dice.randrange(200)))
    return plain


@pytest.mark.parametrize("seed", range(3))
async def test_no_input_kills_the_relay_nor_another_session(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - reproducible on purpose
    async with running_relay(tmp_path) as relay:
        bystander = await relay.link(BOB)
        left_open = []
        for number in range(ROUNDS):
            left_open.append(await half_open(relay.port, dice))
            async with RawPeer.connected(relay.port) as (peer, _):
                with contextlib.suppress(ConnectionError):
                    await peer.say(nonsense(dice, relay))
                if dice.random() < 0.5:
                    await peer.abort()
            mine = relay.envelope(b"bystander %d" % number)
            await bystander.put(mine)
            async with asyncio.timeout(SOON_S):
                while (await bystander.next_blob()).envelope != mine:
                    pass
        figures = relay.relay.stats()
        assert figures.protocol_errors_total > 0
        assert figures.handshake_failures_total > 0
        for plain in left_open:
            plain.close()
        await bystander.close()


async def test_a_half_open_connection_is_gone_after_its_deadline(tmp_path: Path) -> None:
    async with running_relay(tmp_path, limits=RelayLimits(handshake_timeout_ms=50)) as relay:
        plain = await half_open(relay.port, random.Random(7))  # noqa: S311 - reproducible on purpose
        async with asyncio.timeout(SOON_S):
            with contextlib.suppress(ConnectionError):
                while await asyncio.get_running_loop().sock_recv(plain, 1_024):
                    pass
        plain.close()
        assert relay.relay.stats().connections == 0

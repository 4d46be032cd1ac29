"""Keeping a client connected: connect, work until the link is gone, wait by the retry schedule, connect again."""

import asyncio
from collections.abc import Awaitable, Callable

from restante.client.client import Client
from restante.policy.retry import RetrySchedule, jittered_delay_ms
from restante.ports.entropy import Entropy
from restante.ports.relay import LinkLost, RelayLink, TryFailed


async def stay_connected(
    client: Client,
    connect: Callable[[], Awaitable[RelayLink]],
    *,
    lane: str,
    schedule: RetrySchedule,
    entropy: Entropy,
) -> None:
    """Carry, take in and acknowledge over one link after another. Ends only by cancellation."""
    failures = 0
    while True:
        try:
            link = await connect()
        except TryFailed:
            failures = min(failures + 1, schedule.max_attempts)
        else:
            failures = 1
            await _work(client, link, lane)
        await asyncio.sleep(jittered_delay_ms(schedule, attempt=failures, dice=entropy.dice()) / 1_000)


async def _work(client: Client, link: RelayLink, lane: str) -> None:
    """Until the link is gone."""
    # Not a TaskGroup: before Python 3.13 it forgets a cancellation that comes together with a task's own error.
    tasks = [
        asyncio.create_task(client.carry(link)),
        asyncio.create_task(client.take_in(link)),
        asyncio.create_task(client.acknowledge(lane=lane)),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await link.close()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    errors = [end for end in ends if isinstance(end, Exception) and not isinstance(end, LinkLost)]
    if errors:
        raise errors[0]

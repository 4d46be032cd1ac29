"""runtime/run_together: jobs that end together."""

import asyncio

import pytest

from restante.runtime.run_together import run_until_one_ends


class Failed(Exception):
    """What a job raises."""


async def waiting(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)  # ending may take a while
        ended.append("waiting")


async def ending() -> None:
    await asyncio.sleep(0)


async def failing() -> None:
    await asyncio.sleep(0)
    raise Failed


async def test_when_one_job_ends_the_others_have_ended_too() -> None:
    ended: list[str] = []
    await run_until_one_ends([waiting(ended), ending(), waiting(ended)])
    assert ended == ["waiting", "waiting"]


async def test_an_error_is_raised_after_the_other_jobs_have_ended() -> None:
    ended: list[str] = []
    with pytest.raises(Failed):
        await run_until_one_ends([waiting(ended), failing()])
    assert ended == ["waiting"]


async def test_a_cancellation_ends_every_job() -> None:
    ended: list[str] = []
    run = asyncio.create_task(run_until_one_ends([waiting(ended), waiting(ended)]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended == ["waiting", "waiting"]

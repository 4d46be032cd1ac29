"""Programs that work on one outbox until they are done or killed, and say what they did once it is on disk.

Its arguments are `lease <file> <owner>` or `accept <file> <first number>`. Each
says `ready` and begins when it is sent a line, so that several can begin together. One that leases waits for a second
line once it has an entry.
"""

import asyncio
import itertools
import sys
from functools import partial
from pathlib import Path

from restante.core.outbox_events import Event, TransmitFailed, TransmitSucceeded
from restante.model.kinds import Kind
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route
from restante.policy.capacity import OutboxLimits
from restante.policy.failures import Failure
from restante.policy.retry import RetrySchedule
from restante.policy.settings import Settings
from restante.runtime.sqlite.file.group_commit import GroupCommit
from restante.runtime.system import SystemClock
from support.outbox.entries import accept, entry
from support.sqlite.files import ClientFile, open_client_file

LEASE_MS = 1_000
HURRIED = Settings(
    retry=RetrySchedule(base_ms=100, jitter=0.0), outbox=OutboxLimits(lease_ms=LEASE_MS, max_entries=1_000_000)
)
SENDERS = 64
CLOCK = SystemClock()


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def fresh(number: int) -> OutboxEntry:
    """A control message over the mesh: it ends when the next hop takes it, and waits behind nobody."""
    now_ms = CLOCK.now_ms()
    return entry(
        number,
        route=Route.MESH,
        kind=Kind.CONTROL,
        created_at_ms=now_ms,
        queued_at_ms=now_ms,
        next_attempt_at_ms=now_ms,
        expires_at_ms=now_ms + 86_400_000,
    )


def lease_until_empty(file: ClientFile, owner: str) -> None:
    answers = itertools.cycle(
        [
            TransmitSucceeded(),
            TransmitSucceeded(),
            TransmitFailed(owner=owner, failure=Failure.NETWORK_TIMEOUT),
            TransmitSucceeded(),
            TransmitSucceeded(),
            TransmitSucceeded(),
            None,  # as if its owner had died: the lease must lapse
        ]
    )
    has_met_the_other = False
    while file.outbox.held() != (0, 0):
        leased = file.outbox.lease(owner=owner, routes=tuple(Route), limit=2, now_ms=CLOCK.now_ms())
        for one in leased:
            say(f"{one.message_id.hex()} {one.attempts}")
            if not has_met_the_other:
                sys.stdin.readline()  # until the other has something, too
                has_met_the_other = True
            answer: Event | None = next(answers)
            if answer is not None:
                file.outbox.apply(one.message_id, answer, now_ms=CLOCK.now_ms())


async def accept_on_and_on(file: ClientFile, first: int) -> None:
    group = GroupCommit(file.database)
    numbers = itertools.count(first)

    async def send() -> None:
        while True:
            new = fresh(next(numbers))
            await group.run(partial(accept, file.outbox, new, now_ms=new.created_at_ms))
            say(new.message_id.hex())

    await asyncio.gather(*(send() for _ in range(SENDERS)))


def main() -> None:
    role, path, argument = sys.argv[1:]
    file = open_client_file(Path(path), settings=HURRIED)
    file.database.run("PRAGMA busy_timeout = 60000")  # the other may be stopped in the middle of a write
    say("ready")
    sys.stdin.readline()
    if role == "lease":
        lease_until_empty(file, argument)
        file.database.close()
    else:
        asyncio.run(accept_on_and_on(file, int(argument)))


if __name__ == "__main__":
    main()

"""A client that stays connected and says one numbered message after the other, until it is killed or has said all.

Run as a program: `python sending_process.py <home> <contact> <count>`. Which number comes next it reads from its file,
so that a new life goes on where the last one was killed. When all is said it stays, until its standard input ends.
"""

import asyncio
import sys

from restante.client.client import Client
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from restante.policy.capacity import OutboxLimits
from restante.policy.retry import RetrySchedule
from restante.policy.settings import Settings

SETTINGS = Settings(retry=RetrySchedule(base_ms=100), outbox=OutboxLimits(lease_ms=2_000))
"""What a killed process was sending is taken up again after the shortest lease: its lane waits for that."""


def accepted(client: Client) -> int:
    rows = client.journal.events(after=0, limit=1_000_000)
    return sum(row.kind is JournalKind.ACCEPTED and row.message_kind is Kind.TEXT for row in rows)


async def chat(home: str, contact: str, count: int) -> None:
    client = Client.open(home, settings=SETTINGS)
    to = client.contacts.named(contact).address
    working = asyncio.create_task(client.run())
    for number in range(accepted(client), count):
        await client.send(to, b"%d" % number)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        await asyncio.sleep(0.002)  # a pace at which kills fall between messages, not a wait for anything
    leaving = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
    await client.close()
    await working


if __name__ == "__main__":
    asyncio.run(chat(sys.argv[1], sys.argv[2], int(sys.argv[3])))

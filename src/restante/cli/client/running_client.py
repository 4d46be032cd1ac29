"""Ask the `restante run` of this client for its status, and report when it cannot reach the places of its inboxes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from restante.cli.client.home import UNREACHED_MESH, find_client_home
from restante.cli.terminal import HINT
from restante.client.places.reading_status import ReadingStatus
from restante.model.error_codes import Code
from restante.model.errors import EnvironmentUnsuitable, Malformed, RestanteError
from restante.runtime.directory_lock import note_of_holder
from restante.runtime.local_questions import ask
from restante.views.formatting import moment

LOOK_S: Final = 0.1
FOLLOW_LOOK_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class RunningClient:
    """The process that holds this lock."""

    lock: Path

    async def reading(self) -> ReadingStatus:
        """Return how it reads its inboxes; one that does not answer now may be starting."""
        note = note_of_holder(self.lock)
        if note is None:
            raise EnvironmentUnsuitable("'restante run' has ended meanwhile")
        try:
            answer = await asyncio.to_thread(ask, note)
            return ReadingStatus.from_data(answer.get("reading"))
        except (EnvironmentUnsuitable, Malformed):
            return ReadingStatus()

    async def settled(self, *, within_s: float) -> ReadingStatus:
        """Return how it reads its inboxes, once each was read or tried, or the time is over."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s
        while True:
            found = await self.reading()
            if found.is_settled or loop.time() >= until_s:
                return found
            await asyncio.sleep(LOOK_S)

    async def report(self, say: Callable[[str], None]) -> None:
        """Say why it can't read its inboxes, once for each reason, and when it can again; until cancelled."""
        said: str | None = None
        while True:
            found = await self.reading()
            if found.failing and (text := not_read(found)) != said:
                say(f"{text}; it keeps trying")
                said = text
            elif found.is_read and said is not None:
                say("messages are received again")
                said = None
            await asyncio.sleep(FOLLOW_LOOK_S)


def running_client(home: Path | None) -> RunningClient | None:
    """Return the process that keeps this client connected, if there is one."""
    lock = find_client_home(home).run_lock
    return None if note_of_holder(lock) is None else RunningClient(lock)


def inboxes_not_read(status: ReadingStatus) -> RestanteError:
    """Return the error for a running client that can't read its inboxes, or did not try all of them in time."""
    codes = {Code(each.code) for each in status.failing}
    code = next((each for each in codes if each in UNREACHED_MESH), Code.NETWORK_UNREACHABLE)
    problem = RestanteError(not_read(status), code=code)
    problem.add_note(f"{HINT}It keeps trying. Check the network, and 'restante places show'.")
    return problem


def not_read(status: ReadingStatus) -> str:
    what = "all of your inboxes" if status.is_part_read else "your inboxes"
    if not status.failing:
        return f"the running client has not read {what} yet"
    where = ", ".join(f"{each.place} since {moment(each.since_ms)} UTC ({each.text})" for each in status.failing)
    return f"the running client can't read {what}: {where}"

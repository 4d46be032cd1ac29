"""Run the demo: start the nodes, make the people, and play the chapters in order."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from restante.cli.demo.chapters import Chapter, Stage
from restante.cli.demo.mesh_chapters import bob_leaves, bob_returns, restored_backup, three_hops
from restante.cli.demo.network import DemoNetwork, running_network
from restante.cli.demo.people import Person, create, meet, online
from restante.cli.demo.relay_chapters import dead_letter, expired_message, two_thousand
from restante.cli.node.local_network import BOOTSTRAP_NODES
from restante.crypto.identity import SEED_BYTES, Identity
from restante.fleet.jobs.fleet_report import run_fleet_report
from restante.fleet.lake.enrolment_file import accept_key
from restante.model.errors import EnvironmentUnsuitable
from restante.model.fleet_report import FleetReport
from restante.policy.settings import Settings
from restante.runtime.journal.key_file import journal_key
from restante.runtime.system import SystemClock, SystemEntropy

LIMIT_S: Final = 180.0  # plus a share for each message; a demo that takes longer has failed
LIMIT_PER_MESSAGE_S: Final = 0.2
IN_THE_MESH: Final = ("alice", "bob")
AT_THE_RELAY: Final = ("carol", "dave", "erin")


class Demo:
    """One run in one directory. `tell` gets each chapter when it is over, `on_progress` what happens meanwhile."""

    def __init__(
        self,
        home: Path,
        *,
        messages: int,
        seed: int,
        tell: Callable[[Chapter], None],
        on_progress: Callable[[str], None],
    ) -> None:
        self._home = home
        self._lake = home / "lake"
        self._messages = messages
        self._seed = seed
        self._tell = tell
        self._on_progress = on_progress
        self._databases: list[Path] = []

    def play(self) -> None:
        """Play all chapters. When this returns, no process is left, and all journals are in the lake."""
        self._on_progress("eight nodes start")
        segments = self._lake / "segments"
        segments.mkdir(parents=True)
        began_s = time.monotonic()
        with running_network(self._home, segments) as network:
            self._databases = [node.directory.database for node in network.nodes]
            self._tell(_mesh_chapter(network, time.monotonic() - began_s))
            asyncio.run(self._play(network, segments))
            self._on_progress("the nodes end and ship their journals")

    def report(self) -> FleetReport:
        """Enrol the keys of all journals, and let Spark read them."""
        self._on_progress("Spark reads the journals of all nodes and clients")
        operator = Identity(SystemEntropy().draw(SEED_BYTES))
        for database in self._databases:
            accept_key(str(self._lake), journal_key(database, SystemEntropy()).public.hex(), operator)
        return run_fleet_report(
            str(self._lake),
            now_ms=SystemClock().now_ms(),
            retention=Settings().dead_letters,
            operator_key=bytes(operator.address),
        )

    async def _play(self, network: DemoNetwork, segments: Path) -> None:
        limit_s = LIMIT_S + self._messages * LIMIT_PER_MESSAGE_S
        try:
            async with asyncio.timeout(limit_s):
                stage = Stage(
                    home=self._home,
                    segments=segments,
                    network=network,
                    people=await self._people(network, segments),
                    messages=self._messages,
                    seed=self._seed,
                    on_progress=self._on_progress,
                )
                await self._chapters(stage)
        except TimeoutError:
            raise EnvironmentUnsuitable(f"the demo did not end within {limit_s:.0f} s and was stopped") from None

    async def _chapters(self, stage: Stage) -> None:
        async with online(stage.people["alice"]) as [alice]:
            self._tell(await three_hops(stage, alice))
            leaving, absence = await bob_leaves(stage, alice)
            self._tell(leaving)
            for chapter in (two_thousand, dead_letter, expired_message):
                self._tell(await chapter(stage))
            for returned in await bob_returns(stage, alice, absence):
                self._tell(returned)
            self._tell(await restored_backup(stage, alice))

    async def _people(self, network: DemoNetwork, segments: Path) -> dict[str, Person]:
        mesh = [node.place for node in network.nodes[:BOOTSTRAP_NODES]]
        made = [create(self._home, name, segments, mesh=mesh) for name in IN_THE_MESH]
        made += [create(self._home, name, segments, relay=network.relay.place) for name in AT_THE_RELAY]
        people = {each.name: each for each in made}
        for one, other in (("alice", "bob"), ("carol", "dave"), ("erin", "dave")):
            await meet(people[one], people[other])
        self._databases += [each.home.database for each in made]
        return people


def _mesh_chapter(network: DemoNetwork, took_s: float) -> Chapter:
    count = len(network.nodes)
    return Chapter(
        title="A mesh",
        lines=(f"{count} nodes run as processes, each its own operator; ready in {took_s:,.1f} s.",),
        is_good=True,
        figures={"nodes": count, "ready_ms": round(took_s * 1_000)},
    )

"""Node processes under load and kill -9, people who come and go: all mail through circuits arrives once, in order."""

import asyncio
import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.circuit.busy_people import kill_in_turn, made_people
from support.circuit.people import node_processes
from support.spec.clauses import clause
from support.system.soak import first_now_rest_in_soak

SEED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    nodes: int
    people: int
    messages: int
    visits: int
    kills: int


SMALL = Load(nodes=7, people=3, messages=16, visits=2, kills=1)
LARGE = Load(nodes=12, people=20, messages=500, visits=5, kills=40)


@clause("1.1", "1.2", "11.3")
@pytest.mark.parametrize("load", first_now_rest_in_soak([SMALL, LARGE]))
async def test_everything_arrives_once_in_order_through_circuits_although_nodes_are_killed(
    tmp_path: Path, load: Load
) -> None:
    with node_processes(tmp_path / "nodes", load.nodes) as nodes:
        people = await made_people(
            tmp_path, nodes, count=load.people, messages=load.messages, visits=load.visits, seed=SEED
        )
        dice = random.Random(SEED)  # noqa: S311 - reproducible on purpose
        async with asyncio.timeout(60 + load.people * load.messages / 4):
            await asyncio.gather(
                kill_in_turn(nodes, kills=load.kills, dice=dice), *(person.live() for person in people)
            )
        for person in people:
            assert person.got == person.expects

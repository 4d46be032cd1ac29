"""core/circuit: over which circuits one message is uploaded to its nodes."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from restante.core.circuit.fanout import OPINIONS, TRIES, Acquire, Effect, Effects, Fanout, GiveUp, NotSigned, Upload
from restante.model.ids import NodeId
from support.spec.clauses import clause

NODES = tuple(NodeId(bytes([number]) * 32) for number in range(1, 6))
OTHERS = tuple(NodeId(bytes([number]) * 32) for number in range(11, 30))
FIRST, SECOND, THIRD = OTHERS[:3], OTHERS[3:6], OTHERS[6:9]


def acquired(effects: Effects) -> Acquire:
    [effect] = effects
    assert isinstance(effect, Acquire)
    return effect


def uploaded(effects: Effects) -> Upload:
    [effect] = effects
    assert isinstance(effect, Upload)
    return effect


@clause("11.6")
def test_one_upload_reaches_all_nodes_that_are_no_hop_of_its_circuit() -> None:
    fanout = Fanout(NODES)
    assert acquired(fanout.start()) == Acquire(frozenset(), frozenset(NODES))
    upload = uploaded(fanout.acquired(FIRST))
    assert upload.nodes == NODES
    for node in NODES:
        fanout.answered(upload.number, node)
    assert fanout.ended(upload.number) == ()


@clause("11.1", "11.6")
def test_nodes_that_are_hops_get_the_message_over_another_circuit_at_the_same_time() -> None:
    fanout = Fanout(NODES)
    fanout.start()
    upload, further = fanout.acquired((NODES[0], OTHERS[0], NODES[1]))
    assert isinstance(upload, Upload)
    assert upload.nodes == NODES[2:]
    assert isinstance(further, Acquire)
    assert further.avoid == frozenset(NODES[:2])
    assert uploaded(fanout.acquired(SECOND)).nodes == NODES[:2]


@clause("11.3")
def test_what_a_circuit_left_unanswered_is_uploaded_over_another() -> None:
    fanout = Fanout(NODES)
    fanout.start()
    first = uploaded(fanout.acquired(FIRST))
    fanout.answered(first.number, NODES[0])
    assert acquired(fanout.ended(first.number)).avoid == frozenset(NODES[1:])
    assert uploaded(fanout.acquired(SECOND)).nodes == NODES[1:]


@clause("11.6")
def test_a_node_that_an_exit_cannot_reach_is_asked_over_a_second_exit() -> None:
    fanout = Fanout(NODES)
    fanout.start()
    first = uploaded(fanout.acquired(FIRST))
    wanted = acquired(fanout.not_signed(first.number, NODES[0]))
    assert wanted.avoid == {NODES[0], FIRST[-1]}
    assert wanted.doubted == {FIRST[-1]}
    assert fanout.not_signed(first.number, NODES[0]) == (), "an exit has one opinion"
    second = uploaded(fanout.acquired(SECOND))
    assert second.nodes == NODES[:1]
    assert fanout.not_signed(second.number, NODES[0]) == (NotSigned(NODES[0]),)
    assert not fanout.is_waiting_for(NODES[0])


@clause("11.6")
def test_the_receipt_of_the_second_exit_counts() -> None:
    fanout = Fanout(NODES[:1])
    fanout.start()
    first = uploaded(fanout.acquired(FIRST))
    fanout.not_signed(first.number, NODES[0])
    second = uploaded(fanout.acquired(SECOND))
    fanout.answered(second.number, NODES[0])
    assert fanout.ended(first.number) == fanout.ended(second.number) == ()


@clause("11.6")
def test_without_a_second_exit_the_first_one_is_believed() -> None:
    fanout = Fanout(NODES[:2])
    fanout.start()
    first = uploaded(fanout.acquired(FIRST))
    fanout.not_signed(first.number, NODES[0])
    acquired(fanout.no_hops_left())
    assert fanout.no_hops_left() == (NotSigned(NODES[0]),)
    assert fanout.is_waiting_for(NODES[1]), "its upload is under way"


@clause("11.7")
def test_without_circuits_nothing_is_said_about_the_nodes() -> None:
    fanout = Fanout(NODES)
    fanout.start()
    assert fanout.not_acquired() == (GiveUp(NODES),)


@clause("11.1")
def test_if_no_circuit_avoids_all_nodes_one_that_reaches_the_first_will_do() -> None:
    fanout = Fanout(NODES)
    fanout.start()
    assert acquired(fanout.no_hops_left()).avoid == frozenset(NODES[:1])
    upload, further = fanout.acquired((NODES[1], NODES[2], NODES[3]))
    assert isinstance(upload, Upload)
    assert upload.nodes == (NODES[0], NODES[4])
    assert isinstance(further, Acquire)


class Chance:
    """Circuits, exits and nodes that do what the dice say, until nothing is left to do."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.fanout = Fanout(NODES)
        self.under_way: dict[int, tuple[Upload, NodeId]] = {}
        self.settled: list[NodeId] = []
        self.opinions: dict[NodeId, set[NodeId]] = {}
        self.acquires = 0
        self.todo: list[Effect] = list(self.fanout.start())

    def run(self) -> None:
        while self.todo or self.under_way:
            if self.todo and (not self.under_way or self.dice.random() < 0.5):
                self.execute(self.todo.pop(0))
            else:
                self.happen(self.dice.choice(sorted(self.under_way)))

    def execute(self, effect: Effect) -> None:
        match effect:
            case Acquire():
                self.acquires += 1
                self.acquire()
            case NotSigned(node):
                assert self.opinions[node]
                self.settled.append(node)
            case GiveUp(nodes):
                assert not any(self.opinions.get(node) for node in nodes)
                self.settled += nodes

    def acquire(self) -> None:
        chance = self.dice.random()
        if chance < 0.7:
            hops = tuple(self.dice.sample([*NODES, *OTHERS[:6]], 3))
            for effect in self.fanout.acquired(hops):
                if isinstance(effect, Upload):
                    assert not set(effect.nodes) & set(hops)
                    self.under_way[effect.number] = effect, hops[-1]
                else:
                    self.todo.append(effect)
        else:
            self.todo += self.fanout.no_hops_left() if chance < 0.85 else self.fanout.not_acquired()

    def happen(self, number: int) -> None:
        upload, exit_id = self.under_way[number]
        node = self.dice.choice(upload.nodes)
        chance = self.dice.random()
        if chance < 0.4 and self.fanout.is_waiting_for(node):
            self.fanout.answered(number, node)
            self.settled.append(node)
        elif chance < 0.8 and self.fanout.is_waiting_for(node):
            self.opinions.setdefault(node, set()).add(exit_id)
            self.todo += self.fanout.not_signed(number, node)
        elif chance >= 0.8:
            del self.under_way[number]
            self.todo += self.fanout.ended(number)


@clause("11.3", "11.6")
@settings(max_examples=500)
@given(st.integers(0, 2**32))
def test_every_node_is_settled_once_whatever_circuits_and_exits_do(seed: int) -> None:
    chance = Chance(random.Random(seed))  # noqa: S311 - reproducible on purpose
    chance.run()
    assert sorted(chance.settled) == sorted(NODES)
    assert chance.acquires <= TRIES
    assert all(len(each) <= OPINIONS for each in chance.opinions.values())

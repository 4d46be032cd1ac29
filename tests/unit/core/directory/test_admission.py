"""core/directory/admission: what is dialled before it counts, and how little strangers can cause (SPEC 7.1, 7.12)."""

from dataclasses import replace

import pytest

from restante.core.directory import admission
from restante.core.directory.admission import (
    CHECKED_FOR_MS,
    ISSUE_BURST,
    MOST_DIALS,
    MOST_DIALS_OF_SOURCE,
    MOST_WAITING,
    MOST_WAITING_OF_SOURCE,
    TABLE,
    Admission,
    Admit,
    Dial,
    DialFailed,
    Dialled,
    Effect,
    Event,
    GivenUp,
    Offered,
    Phase,
    Turn,
)
from restante.core.directory.descriptor_set import VALID_MS
from restante.model.errors import LocalProtocolError
from restante.model.node_descriptor import Endpoint, NodeDescriptor
from restante.model.sources import Source
from restante.policy.mesh.dialling import (
    DIAL_BURST,
    DIALS_PER_S,
    LONGEST_BACK_OFF_MS,
    NETWORK_DIAL_BURST,
    NETWORK_DIALS_PER_S,
    SOURCE_DIAL_BURST,
    SOURCE_DIALS_PER_S,
    DialPace,
    back_off_ms,
)
from restante.policy.mesh.scopes import Scope, may_dial, narrowest, scope_of
from support.mesh.nodes import NOW_MS, node
from support.spec.clauses import clause

A, B, C = Source(b"aaa"), Source(b"bbb"), Source(b"ccc")
MINUTE_MS = 60_000


def checks(*, is_private: bool = False) -> Admission:
    return Admission(DialPace(now_s=0.0, is_private=is_private))


def offer(machine: Admission, each: NodeDescriptor, source: Source = A, *, now_ms: int = 0) -> tuple[Effect, ...]:
    return machine.step(each.node_id, Offered(each, source), now_ms=now_ms)


def dialled(effects: tuple[Effect, ...]) -> list[NodeDescriptor]:
    return [each.node for each in effects if isinstance(each, Dial)]


def admit(machine: Admission, each: NodeDescriptor, *, now_ms: int = 0) -> None:
    offer(machine, each, now_ms=now_ms)
    assert machine.take_turns(now_ms) == (Dial(each),)
    assert machine.step(each.node_id, Dialled(), now_ms=now_ms) == (Admit(each),)


def run(machine: Admission, until_ms: int, *, fails: bool = True, step_ms: int = 50) -> list[NodeDescriptor]:
    """Return what is dialled in this time if each dial ends at once."""
    found: list[NodeDescriptor] = []
    for now_ms in range(0, until_ms, step_ms):
        while started := dialled(machine.take_turns(now_ms)):
            found += started
            for each in started:
                machine.step(each.node_id, DialFailed() if fails else Dialled(), now_ms=now_ms)
    return found


@clause("7.1")
@pytest.mark.parametrize("event", [Turn(), Dialled(), DialFailed(), GivenUp(), Offered(node(1, issued_at_ms=9), A)])
@pytest.mark.parametrize("phase", Phase)
def test_every_phase_of_a_candidate_meets_every_event(phase: Phase, event: Event) -> None:
    """Each in two machines: one has dialled the node before, and the other not; an issue with another endpoint came."""
    seen, subject = set(), node(1, issued_at_ms=5)
    for is_known in (False, True):
        machine = checks()
        if is_known:
            admit(machine, node(1, issued_at_ms=1))
        if phase is not Phase.ABSENT:
            offer(machine, subject if not is_known else replace(subject, endpoints=node(2).endpoints))
        if is_known and phase is Phase.WAITING:
            offer(machine, replace(subject, issued_at_ms=6))
        if phase is Phase.DIALLING:
            machine.take_turns(0)
            if is_known:
                offer(machine, replace(subject, issued_at_ms=6))
        assert machine.phase_of(subject.node_id) is phase
        if type(event) not in TABLE[phase]:
            with pytest.raises(LocalProtocolError):
                machine.step(subject.node_id, event, now_ms=1)
            assert machine.phase_of(subject.node_id) is phase
            continue
        machine.step(subject.node_id, event, now_ms=1)
        seen.add(machine.phase_of(subject.node_id))
    assert seen == TABLE[phase].get(type(event), frozenset())


@clause("7.1")
def test_an_unknown_node_counts_only_after_it_was_dialled() -> None:
    machine, new = checks(), node(1)
    assert offer(machine, new) == ()
    assert machine.take_turns(0) == (Dial(new),)
    assert machine.step(new.node_id, DialFailed(), now_ms=0) == ()
    assert machine.take_turns(999) == ()
    assert machine.take_turns(1_000) == (Dial(new),)
    assert machine.step(new.node_id, Dialled(), now_ms=1_000) == (Admit(new),)


@clause("7.1")
def test_a_known_node_at_its_endpoints_is_taken_without_a_dial_for_a_day() -> None:
    machine = checks()
    admit(machine, node(1))
    later = node(1, issued_at_ms=NOW_MS + 1)
    assert offer(machine, later, now_ms=CHECKED_FOR_MS - 1) == (Admit(later),)
    assert offer(machine, node(1, issued_at_ms=NOW_MS + 2), now_ms=CHECKED_FOR_MS) == ()
    assert machine.phase_of(later.node_id) is Phase.WAITING
    moved = replace(node(1, issued_at_ms=NOW_MS + 3), endpoints=node(2).endpoints)
    assert offer(machine, moved, now_ms=CHECKED_FOR_MS) == ()
    assert machine.take_turns(CHECKED_FOR_MS) == (Dial(moved),)


@clause("7.1")
def test_a_node_that_moves_while_it_is_dialled_is_dialled_again_there() -> None:
    machine, first = checks(), node(1)
    moved = replace(node(1, issued_at_ms=NOW_MS + 1), endpoints=node(2).endpoints)
    offer(machine, first)
    machine.take_turns(0)
    offer(machine, moved)
    assert machine.step(first.node_id, Dialled(), now_ms=0) == (Admit(first),)
    assert machine.take_turns(0) == (Dial(moved),)
    again = checks()
    offer(again, first)
    again.take_turns(0)
    offer(again, moved)
    assert again.step(first.node_id, DialFailed(), now_ms=0) == ()
    assert again.take_turns(0) == (Dial(moved),)


@clause("7.12")
def test_issues_of_one_node_are_taken_three_at_once_then_one_a_minute_the_newest() -> None:
    machine, taken = checks(), 0
    admit(machine, node(1))
    for number in range(1, 1_000):
        now_ms = number * 600
        issue = node(1, issued_at_ms=NOW_MS + number)
        effects = offer(machine, issue, now_ms=now_ms) + machine.take_turns(now_ms)
        assert all(effect == Admit(issue) for effect in effects)
        taken += len(effects)
    assert taken == ISSUE_BURST - 1 + 999 * 600 // MINUTE_MS
    assert len(machine) == 1


@clause("7.1", "7.12")
def test_a_flood_of_one_source_is_dialled_at_its_pace_and_remembered_within_bounds() -> None:
    machine = checks()
    for number in range(10_000):
        offer(machine, node(number))
    assert len(machine) == MOST_WAITING_OF_SOURCE
    assert len(dialled(machine.take_turns(0))) == MOST_DIALS_OF_SOURCE
    flooded = checks()
    for number in range(10_000):
        offer(flooded, node(number))
    assert len(run(flooded, MINUTE_MS)) <= SOURCE_DIAL_BURST + 60 * SOURCE_DIALS_PER_S


@clause("7.1", "7.12")
def test_floods_of_many_sources_are_dialled_at_one_pace_and_remembered_within_bounds() -> None:
    machine = checks()
    for number in range(10_000):
        offer(machine, node(number), Source(bytes([number % 200])))
    assert len(machine) == MOST_WAITING
    started = machine.take_turns(0)
    assert len(dialled(started)) == MOST_DIALS
    for effect in started:
        machine.step(effect.node.node_id, DialFailed(), now_ms=0)
    assert MOST_DIALS < len(run(machine, MINUTE_MS)) <= DIAL_BURST + 60 * DIALS_PER_S


@clause("7.1", "7.12")
def test_one_network_is_dialled_at_its_pace_whichever_source_names_it() -> None:
    machine = checks()
    for number in range(2_000):
        offer(machine, node(number, network=7), Source(bytes([number % 50])))
    found = run(machine, MINUTE_MS)
    assert len(found) <= NETWORK_DIAL_BURST + 60 * NETWORK_DIALS_PER_S
    assert len({each.node_id for each in found}) == len(found), "others wait, so that none is dialled again"
    private = checks(is_private=True)
    for number in range(20):
        offer(private, node(number, network=7))
    assert len(run(private, 100, fails=False)) == 20


@clause("7.1", "7.12")
def test_what_another_source_brings_is_dialled_at_once_although_one_floods() -> None:
    machine = checks()
    for number in range(1_000):
        offer(machine, node(number))
    machine.take_turns(0)
    new = node(5_000)
    offer(machine, new, B)
    assert dialled(machine.take_turns(0)) == [new]


@clause("7.1", "7.12")
def test_what_a_flood_brings_first_does_not_wait_with_it_once_others_bring_it() -> None:
    machine, new = checks(), node(5_000)
    for number in range(200):
        offer(machine, node(number))
    offer(machine, new)
    machine.take_turns(0)
    offer(machine, new, B)
    assert dialled(machine.take_turns(0)) == [new]


@clause("7.1", "7.12")
def test_a_full_queue_gives_up_what_failed_first_and_lets_a_newcomer_in() -> None:
    machine = checks()
    for number in range(MOST_WAITING):
        offer(machine, node(number), Source(bytes([number // MOST_WAITING_OF_SOURCE])))
    assert len(machine) == MOST_WAITING
    new = node(50_000)
    offer(machine, new, C)
    assert len(machine) == MOST_WAITING
    assert machine.phase_of(new.node_id) is Phase.WAITING
    own = checks()
    for number in range(MOST_WAITING_OF_SOURCE):
        offer(own, node(number))
    [failing, *_] = dialled(own.take_turns(0))
    own.step(failing.node_id, DialFailed(), now_ms=0)
    offer(own, node(60_000))
    assert own.phase_of(node(60_000).node_id) is Phase.WAITING


@clause("7.12")
def test_a_candidate_is_dialled_with_growing_pauses_until_its_descriptor_has_expired() -> None:
    machine = checks()
    offer(machine, node(1))
    assert len(run(machine, VALID_MS, step_ms=500)) == 13  # after 0, 1, 3, 7 … 4,095 s
    assert len(run(machine, VALID_MS + 500, step_ms=VALID_MS)) == 0
    assert [back_off_ms(failures) for failures in (1, 2, 12, 13, 99)] == [
        1_000,
        2_000,
        2_048_000,
        LONGEST_BACK_OFF_MS,
        LONGEST_BACK_OFF_MS,
    ]


def test_a_node_that_names_two_networks_costs_two_dials_and_one_without_endpoints_none() -> None:
    machine = checks()
    several = [
        replace(node(number), endpoints=node(number).endpoints + node(1_000 + number).endpoints)
        for number in range(200)
    ]
    for each in several:
        offer(machine, each)
    offer(machine, replace(node(900), endpoints=()))
    assert len(run(machine, 1_000, step_ms=1_000)) == SOURCE_DIAL_BURST // 2


@clause("7.1", "7.12")
def test_each_endpoint_that_a_node_names_in_one_network_costs_a_dial_into_it() -> None:
    machine = checks()
    several = [
        replace(node(number, network=7), endpoints=tuple(Endpoint(bytes([10, 0, 7, number]), port) for port in (1, 2)))
        for number in range(1, 20)
    ]
    for each in several:
        offer(machine, each)
    assert len(run(machine, 50)) == NETWORK_DIAL_BURST // 2


def test_the_host_looks_again_when_the_first_back_off_ends() -> None:
    machine = checks()
    assert machine.wait_ms(0) is None
    offer(machine, node(1))
    assert machine.wait_ms(0) == admission.TURN_MS
    machine.take_turns(0)
    assert machine.wait_ms(0) is None
    machine.step(node(1).node_id, DialFailed(), now_ms=0)
    assert machine.wait_ms(0) == 1_000
    assert not machine.is_unchecked(node(1).node_id)


@clause("7.1")
def test_no_node_dials_a_narrower_scope_than_its_own() -> None:
    addresses = {
        bytes([127, 0, 3, 1]): Scope.LOOPBACK,
        bytes(15) + b"\x01": Scope.LOOPBACK,
        bytes([169, 254, 0, 1]): Scope.LINK,
        bytes([10, 0, 0, 1]): Scope.PRIVATE,
        bytes([100, 64, 0, 1]): Scope.PRIVATE,
        b"\xfd" + bytes(15): Scope.PRIVATE,
        bytes([8, 8, 8, 8]): Scope.PUBLIC,
        bytes(10) + b"\xff\xff" + bytes([127, 0, 0, 1]): Scope.LOOPBACK,
        bytes(4): None,
        bytes([224, 0, 0, 1]): None,
    }
    assert {ip: scope_of(ip) for ip in addresses} == addresses
    public, private, loopback = (Endpoint(bytes(ip), 1) for ip in ([8, 8, 8, 8], [10, 0, 0, 1], [127, 0, 0, 1]))
    assert narrowest([public, private]) is Scope.PRIVATE
    assert narrowest([]) is Scope.PUBLIC
    assert not may_dial([public, loopback], own=Scope.PUBLIC)
    assert not may_dial([loopback], own=Scope.PRIVATE)
    assert may_dial([public, private], own=Scope.PRIVATE)
    assert may_dial([public, private, loopback], own=Scope.LOOPBACK)
    assert not may_dial([Endpoint(bytes(4), 1)], own=Scope.LOOPBACK)

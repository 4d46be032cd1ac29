"""core/circuit: three hops, what each sees, and that every disturbance ends the circuit and nothing else."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restante.core.circuit.client_end import ClientEnd, Hop
from restante.core.circuit.effects import CreateNext, SendForward
from restante.core.circuit.table import Phase
from restante.model.errors import LocalProtocolError
from restante.model.ids import NodeId
from restante.wire.circuit.cells import BODY_BYTES, CellClass, CellContent, Command, max_data_bytes
from support.circuit.line import HOPS, Line
from support.spec.clauses import clause
from support.wire.codec_properties import flipped

DATA = CellContent(Command.DATA, 7, b"the text that only client and exit see" * 8)


def built(seed: int = 1) -> Line:
    line = Line(seed)
    line.build()
    assert line.is_built
    return line


def exchange(line: Line, cell_class: CellClass = CellClass.SMALL) -> None:
    line.run(0, line.client.send(DATA, cell_class))
    line.run(3, line.hops[3].send(DATA, cell_class))


@clause("11.1")
@pytest.mark.parametrize("cell_class", CellClass)
def test_client_and_exit_exchange_commands_over_three_hops(cell_class: CellClass) -> None:
    line = built()
    for _ in range(3):
        exchange(line, cell_class)
    assert line.delivered == [(3, DATA), (0, DATA)] * 3
    assert [line.hops[number].phase for number in (1, 2, 3)] == [Phase.RELAYING, Phase.RELAYING, Phase.LAST]


@clause("11.1")
@given(st.sampled_from(CellClass), st.binary(max_size=1_900))
@settings(max_examples=20)
def test_every_body_on_every_link_has_one_of_the_two_sizes(cell_class: CellClass, data: bytes) -> None:
    line = built()
    line.run(0, line.client.send(DATA._replace(data=data), cell_class))
    assert {len(body) for bodies in line.seen.values() for body in bodies} <= set(BODY_BYTES.values())


@clause("11.1", "11.5")
def test_no_two_links_share_eight_bytes_and_none_shows_text_or_nodes() -> None:
    line = built()
    for cell_class in CellClass:
        exchange(line, cell_class)
    pieces = {
        link: {body[at : at + 8] for body in bodies for at in range(len(body) - 7)}
        for link, bodies in line.seen.items()
    }
    for one, other in combinations(pieces, 2):
        assert pieces[one].isdisjoint(pieces[other])
    everything = b"".join(body for bodies in line.seen.values() for body in bodies)
    assert DATA.data[:16] not in everything
    assert not any(bytes(hop.node_id) in everything for hop in HOPS)


@clause("11.1")
def test_the_bytes_behind_a_hops_layers_do_not_reach_the_next_link() -> None:
    marked = Line(tamper=lambda link, forward, body: body[:-16] + b"mark" * 4 if link == 1 and forward else body)
    marked.build()
    marked.run(0, marked.client.send(DATA, CellClass.SMALL))
    assert marked.delivered == [(3, DATA)], "behind the layers nothing counts"
    assert all(b"mark" not in body for body in marked.seen[2])


@clause("11.1")
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2), st.booleans(), st.integers(0, 2_000 * 8))
def test_an_altered_cell_ends_the_circuit_at_every_place(link: int, forward: bool, bit: int) -> None:
    line = built()
    line.tamper = lambda at, way, body: flipped(body, bit) if (at, way) == (link, forward) else body
    exchange(line)
    assert line.client.phase is Phase.CLOSED
    assert {end.phase for end in line.hops.values()} == {Phase.CLOSED}
    assert all(content == DATA for _, content in line.delivered)


@clause("11.1")
@pytest.mark.parametrize("how", ["repeated", "left out", "reordered", "truncated"])
def test_a_cell_out_of_its_place_ends_the_circuit(how: str) -> None:
    line = built()
    sent = [line.client.send(DATA._replace(stream=number), CellClass.SMALL) for number in (1, 2)]
    first, second = (effect.body for effects in sent for effect in effects if isinstance(effect, SendForward))
    bodies = {
        "repeated": [first, first],
        "left out": [second],
        "reordered": [second, first],
        "truncated": [first[:-1]],
    }[how]
    for body in bodies:
        line.run(1, line.hops[1].forward_cell(body))
    assert line.client.phase is Phase.CLOSED
    assert {end.phase for end in line.hops.values()} == {Phase.CLOSED}


def test_the_client_closes_all_hops() -> None:
    line = built()
    line.run(0, line.client.close())
    assert line.ended == {0: None, 1: None, 2: None, 3: None}


@pytest.mark.parametrize("hop", [1, 2, 3])
def test_a_hop_that_ends_the_circuit_ends_it_on_both_sides(hop: int) -> None:
    line = built()
    line.run(hop, line.hops[hop].close())
    assert set(line.ended) == {0, 1, 2, 3}


@clause("11.7")
@pytest.mark.parametrize("hop", [2, 3])
def test_a_hop_that_does_not_prove_its_key_is_named(hop: int) -> None:
    line = Line(tamper_answer=lambda number, answer: flipped(answer, 9_000) if number == hop else answer)
    line.build()
    assert not line.is_built
    assert line.ended[0] == hop


@clause("11.7")
def test_a_hop_that_cannot_be_reached_is_named() -> None:
    line = Line()
    effects = line.client.guard_answered(line.create(1, line.client.first_request))
    [extend] = [effect for effect in effects if isinstance(effect, SendForward)]
    assert [type(effect) for effect in line.hops[1].forward_cell(extend.body)] == [CreateNext]
    line.run(1, line.hops[1].extension_failed())
    assert line.ended[0] == 2


def test_the_exit_takes_no_fourth_hop() -> None:
    line = built()
    line.run(0, line.client.send(CellContent(Command.EXTEND, 0, bytes(1_312)), CellClass.SMALL))
    assert line.client.phase is Phase.CLOSED


def test_nothing_is_sent_before_the_circuit_is_built() -> None:
    line = Line()
    with pytest.raises(LocalProtocolError, match="building"):
        line.client.send(DATA, CellClass.SMALL)


@pytest.mark.parametrize("hops", [(), (HOPS[0], HOPS[0]), (*HOPS, Hop(NodeId(b"4" * 32), HOPS[0].onion_key))])
def test_a_circuit_has_one_to_three_different_hops(hops: tuple[Hop, ...]) -> None:
    with pytest.raises(LocalProtocolError, match="1 to 3 different hops"):
        ClientEnd(hops, entropy=bytes)


def test_the_largest_command_fits() -> None:
    line = built()
    for cell_class in CellClass:
        line.run(0, line.client.send(CellContent(Command.DATA, 1, bytes(max_data_bytes(cell_class))), cell_class))
    assert [len(content.data) for _, content in line.delivered] == [max_data_bytes(each) for each in CellClass]

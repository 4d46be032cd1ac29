"""core/circuit: every phase with every event leads where the tables say, and illegal events end the circuit."""

from collections.abc import Callable

import pytest

from restante.core.circuit.client_end import ClientEnd
from restante.core.circuit.hop_end import HopEnd
from restante.core.circuit.table import CLIENT_TABLE, HOP_TABLE, Input, Phase
from restante.crypto.onion import CREATED_BYTES
from restante.model.errors import LocalProtocolError
from restante.wire.circuit.cells import CellClass, CellContent, Command
from support.circuit.line import Line

CONTENT = CellContent(Command.DATA, 1, b"data")
GARBAGE = bytes(2_048)
CLIENT_ACTS: dict[Input, Callable[[ClientEnd], object]] = {
    Input.CREATED: lambda end: end.guard_answered(bytes(CREATED_BYTES)),
    Input.BACKWARD_CELL: lambda end: end.received(GARBAGE),
    Input.SEND: lambda end: end.send(CONTENT, CellClass.SMALL),
    Input.DESTROYED: lambda end: end.destroyed(),
    Input.CLOSE: lambda end: end.close(),
}
HOP_ACTS: dict[Input, Callable[[HopEnd], object]] = {
    Input.CREATED: lambda end: end.next_created(bytes(CREATED_BYTES)),
    Input.FORWARD_CELL: lambda end: end.forward_cell(GARBAGE),
    Input.BACKWARD_CELL: lambda end: end.backward_cell(GARBAGE),
    Input.EXTENSION_FAILED: lambda end: end.extension_failed(),
    Input.SEND: lambda end: end.send(CONTENT, CellClass.SMALL),
    Input.DESTROYED: lambda end: end.destroyed(by_client_side=True),
    Input.CLOSE: lambda end: end.close(),
}


def client_in(phase: Phase) -> ClientEnd:
    line = Line()
    if phase is not Phase.BUILDING:
        line.build()
    if phase is Phase.CLOSED:
        line.client.close()
    assert line.client.phase is phase
    return line.client


def hop_in(phase: Phase) -> HopEnd:
    line = Line()
    line.build()
    end = line.hops[3] if phase in {Phase.LAST, Phase.EXTENDING} else line.hops[2]
    if phase is Phase.EXTENDING:
        end.phase = Phase.EXTENDING
    if phase is Phase.CLOSED:
        end.close()
    assert end.phase is phase
    return end


@pytest.mark.parametrize("act", CLIENT_ACTS, ids=str)
@pytest.mark.parametrize("phase", CLIENT_TABLE, ids=str)
def test_the_client_end_follows_its_table(phase: Phase, act: Input) -> None:
    end = client_in(phase)
    allowed = CLIENT_TABLE[phase].get(act)
    if allowed is None and act is Input.SEND:
        with pytest.raises(LocalProtocolError):
            CLIENT_ACTS[act](end)
        assert end.phase is phase
        return
    CLIENT_ACTS[act](end)
    assert end.phase in (allowed or {Phase.CLOSED})


@pytest.mark.parametrize("act", HOP_ACTS, ids=str)
@pytest.mark.parametrize("phase", HOP_TABLE, ids=str)
def test_a_hop_end_follows_its_table(phase: Phase, act: Input) -> None:
    end = hop_in(phase)
    allowed = HOP_TABLE[phase].get(act)
    if allowed is None and act is Input.SEND:
        with pytest.raises(LocalProtocolError):
            HOP_ACTS[act](end)
        assert end.phase is phase
        return
    HOP_ACTS[act](end)
    assert end.phase in (allowed or {Phase.CLOSED})

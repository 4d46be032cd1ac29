"""core/circuit: streams whose first cell waits for credit, of which the exit has not heard (SPEC 11.5)."""

from restante.core.circuit.flow import CIRCUIT_WINDOW, Flow
from restante.model.ids import NodeId
from restante.wire.circuit.cells import BODY_BYTES, CellClass, Command
from restante.wire.circuit.streams import cell_cost, encode_credit
from support.circuit.stream_pair import StreamPair
from support.spec.clauses import clause

NODE = NodeId(b"n" * 32)
SMALL = BODY_BYTES[CellClass.SMALL]


@clause("11.5")
def test_a_stream_that_ends_before_its_first_cell_left_does_not_end_the_others() -> None:
    pair = StreamPair()
    pair.holds_writes = True
    stream = pair.use_up_window(NODE)
    waiting, effects = pair.client.begin(NODE)
    pair.run((*effects, *pair.client.close(waiting)))
    assert not pair.broken
    assert pair.over == {waiting: None}
    assert pair.exit.open_streams == tuple(range(1, stream + 1)), "it has not heard of the one that waited"


@clause("11.5")
def test_streams_begin_in_the_order_of_their_numbers_whatever_the_size_of_their_cells() -> None:
    flow, begun = Flow(), list[int]()

    def sent() -> int:
        cells = flow.take()
        begun.extend(content.stream for content, _ in cells if content.command is Command.STORE)
        return sum(cell_cost(cell_class) for _, cell_class in cells)

    free = CIRCUIT_WINDOW
    for stream, large, small in ((1, 15, 8), (2, 15, 6)):  # less than a large cell is left, and more than a small one
        flow.open(stream)
        for size in large * [60_000 // 4] + small * [10]:
            flow.queue(Command.DATA, stream, bytes(size))
        free -= sent()
    assert SMALL < free < BODY_BYTES[CellClass.LARGE]
    for stream, size in ((3, 60_000), (4, 10)):
        flow.open(stream)
        flow.queue(Command.STORE, stream, bytes(size))
    sent()
    flow.credited(0, encode_credit(CIRCUIT_WINDOW // 2))
    sent()
    assert begun == [3, 4]

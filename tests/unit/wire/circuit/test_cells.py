"""wire/cells: always full, two sizes, bounded contents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.crypto.onion import CREATE_BYTES, LAYER_BYTES
from restante.model.errors import Malformed
from restante.wire.circuit import cells
from restante.wire.circuit.cells import (
    BODY_BYTES,
    CellClass,
    CellContent,
    Command,
    Extend,
    class_of_body,
    decode_content,
    decode_extend,
    encode_content,
    encode_extend,
    layered_bytes,
    max_data_bytes,
)
from support.spec.clauses import clause

classes = st.sampled_from(CellClass)


@clause("11.1")
def test_there_are_two_sizes() -> None:
    assert BODY_BYTES == {CellClass.SMALL: 2_048, CellClass.LARGE: 16_384}
    assert cells.LAYER_BYTES == LAYER_BYTES
    for cell_class, size in BODY_BYTES.items():
        assert class_of_body(bytes(size)) is cell_class
    for size in (0, 2_047, 2_049, 16_383, 16_385):
        with pytest.raises(Malformed, match="2048 or 16384"):
            class_of_body(bytes(size))


@clause("11.1")
def test_layers_shrink_by_their_tag_at_each_hop() -> None:
    assert [layered_bytes(CellClass.SMALL, hop) for hop in (1, 2, 3, 4)] == [2_048, 2_032, 2_016, 2_000]


@given(classes, st.sampled_from(Command), st.integers(0, 0xFFFF), st.binary(max_size=1_900))
def test_a_content_comes_back_as_it_was_and_fills_its_cell(
    cell_class: CellClass, command: Command, stream: int, data: bytes
) -> None:
    size = layered_bytes(cell_class, 4)
    raw = encode_content(CellContent(command, stream, data), size_bytes=size)
    assert len(raw) == size
    assert decode_content(raw) == CellContent(command, stream, data)


@pytest.mark.parametrize("cell_class", CellClass)
def test_the_largest_content_fits_and_one_byte_more_does_not(cell_class: CellClass) -> None:
    size, most = layered_bytes(cell_class, 4), max_data_bytes(cell_class)
    assert decode_content(encode_content(CellContent(Command.DATA, 1, bytes(most)), size_bytes=size)).data == bytes(
        most
    )
    with pytest.raises(Malformed, match="do not fit"):
        encode_content(CellContent(Command.DATA, 1, bytes(most + 1)), size_bytes=size)


@given(st.binary(max_size=2_048))
def test_foreign_bytes_decode_or_are_malformed(raw: bytes) -> None:
    try:
        content = decode_content(raw)
    except Malformed:
        return
    assert len(content.data) <= len(raw)


def test_an_extension_fits_a_small_cell() -> None:
    extend = Extend(b"n" * 32, bytes(CREATE_BYTES))
    raw = encode_extend(extend)
    assert len(raw) <= max_data_bytes(CellClass.SMALL)
    assert decode_extend(raw) == extend
    with pytest.raises(Malformed):
        decode_extend(raw + b"\x00")

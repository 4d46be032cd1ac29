"""crypto/onion: the hop proves its onion key, both ends agree on keys, and every cell counts once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restante.crypto.onion import (
    CLIENT_ENTROPY_BYTES,
    CREATE_BYTES,
    CREATED_BYTES,
    HOP_ENTROPY_BYTES,
    LAYER_BYTES,
    Layer,
    answer_handshake,
    finish_handshake,
    onion_public_key,
    start_handshake,
)
from restante.model.errors import Malformed, RemoteProtocolError, RestanteError
from restante.model.ids import NodeId
from support.spec.clauses import clause
from support.wire.codec_properties import flipped

NODE = NodeId(b"n" * 32)
PRIVATE = b"o" * 32
PUBLIC = onion_public_key(PRIVATE)
KEYS = {PUBLIC: PRIVATE}
SMALL, LARGE = 0, 1


def answered(request: bytes, *, node: NodeId = NODE, hop: int = 1) -> tuple[Layer, bytes]:
    return answer_handshake(request, node_id=node, onion_keys=KEYS, hop=hop, entropy=b"h" * HOP_ENTROPY_BYTES)


def both_ends(hop: int = 1) -> tuple[Layer, Layer]:
    started = start_handshake(NODE, PUBLIC, hop=hop, entropy=b"c" * CLIENT_ENTROPY_BYTES)
    at_hop, answer = answered(started.request, hop=hop)
    return finish_handshake(started, answer), at_hop


@clause("11.1")
def test_request_and_answer_fit_one_small_cell() -> None:
    started = start_handshake(NODE, PUBLIC, hop=1, entropy=bytes(CLIENT_ENTROPY_BYTES))
    _, answer = answered(started.request)
    assert (len(started.request), len(answer)) == (CREATE_BYTES, CREATED_BYTES) == (1_280, 1_152)


@clause("11.1")
def test_both_ends_read_each_other() -> None:
    client, hop = both_ends()
    for number in range(5):
        text = b"cell %d" % number
        assert hop.decrypt_forward(client.encrypt_forward(text, SMALL), SMALL) == text
        assert client.decrypt_backward(hop.encrypt_backward(text, LARGE), LARGE) == text
    assert len(client.encrypt_forward(b"x" * 100, SMALL)) == 100 + LAYER_BYTES


@clause("11.1")
def test_a_node_without_the_onion_key_cannot_answer() -> None:
    started = start_handshake(NODE, PUBLIC, hop=1, entropy=b"c" * CLIENT_ENTROPY_BYTES)
    wrong = {PUBLIC: b"x" * 32}
    _, answer = answer_handshake(
        started.request, node_id=NODE, onion_keys=wrong, hop=1, entropy=b"h" * HOP_ENTROPY_BYTES
    )
    with pytest.raises(RemoteProtocolError, match="did not prove"):
        finish_handshake(started, answer)


def test_a_request_for_another_node_or_an_unknown_key_is_refused() -> None:
    started = start_handshake(NODE, PUBLIC, hop=1, entropy=b"c" * CLIENT_ENTROPY_BYTES)
    with pytest.raises(RemoteProtocolError, match="another node"):
        answered(started.request, node=NodeId(b"m" * 32))
    with pytest.raises(RemoteProtocolError, match="another node"):
        answer_handshake(started.request, node_id=NODE, onion_keys={}, hop=1, entropy=bytes(HOP_ENTROPY_BYTES))


@clause("11.1")
def test_every_sampled_bit_of_request_and_answer_matters() -> None:
    started = start_handshake(NODE, PUBLIC, hop=2, entropy=b"c" * CLIENT_ENTROPY_BYTES)
    _, answer = answered(started.request, hop=2)
    for bit in {
        *range(0, 256, 7),
        *range(256, CREATED_BYTES * 8, 97),
        *range((CREATED_BYTES - 32) * 8, CREATED_BYTES * 8),
    }:
        with pytest.raises(RestanteError):
            finish_handshake(started, flipped(answer, bit))
    for bit in range(512, CREATE_BYTES * 8, 211):
        try:
            _, other = answered(flipped(started.request, bit), hop=2)
        except RestanteError:
            continue
        with pytest.raises(RestanteError):
            finish_handshake(started, other)


def test_the_hop_number_is_part_of_the_handshake() -> None:
    started = start_handshake(NODE, PUBLIC, hop=1, entropy=b"c" * CLIENT_ENTROPY_BYTES)
    _, answer = answered(started.request, hop=2)
    with pytest.raises(RemoteProtocolError):
        finish_handshake(started, answer)


@pytest.mark.parametrize("raw", [b"", bytes(CREATE_BYTES - 1), bytes(CREATE_BYTES + 1)])
def test_a_request_of_another_size_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        answered(raw)


@clause("11.1")
@settings(max_examples=60)
@given(st.lists(st.sampled_from(["good", "altered", "repeated", "skipped", "other class", "wrong way"]), max_size=12))
def test_a_cell_that_is_not_exactly_the_next_one_does_not_decrypt(acts: list[str]) -> None:
    client, hop = both_ends()
    last: bytes | None = None
    for number, act in enumerate(acts):
        if act == "repeated" and last is None:
            continue
        cell = last if act == "repeated" and last is not None else client.encrypt_forward(b"%d" % number, SMALL)
        if act == "good":
            assert hop.decrypt_forward(cell, SMALL) == b"%d" % number
            last = cell
            continue
        if act == "skipped":
            cell = client.encrypt_forward(b"the one after", SMALL)
        decrypt = hop.decrypt_backward if act == "wrong way" else hop.decrypt_forward
        received = flipped(cell, 3) if act == "altered" else cell
        with pytest.raises(RemoteProtocolError):
            decrypt(received, LARGE if act == "other class" else SMALL)
        return  # the circuit is destroyed


def test_printing_a_layer_shows_no_key() -> None:
    client, _ = both_ends()
    assert repr(client) == "Layer(hop=1)"

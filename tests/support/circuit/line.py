"""A circuit of three hops in one process: the client's end, three hop ends, and all bytes that passed between them."""

from collections import deque
from collections.abc import Callable

from restante.core.circuit.client_end import ClientEnd, Hop
from restante.core.circuit.effects import (
    Built,
    CreateNext,
    Deliver,
    DestroyBackward,
    DestroyForward,
    Effect,
    Ended,
    SendBackward,
    SendForward,
)
from restante.core.circuit.hop_end import HopEnd
from restante.crypto.onion import HOP_ENTROPY_BYTES, answer_handshake, onion_public_key
from restante.model.ids import NodeId
from restante.testing.deterministic import SeededEntropy
from restante.wire.circuit.cells import CellContent

PRIVATE_KEYS = tuple(bytes([number]) * 32 for number in (11, 12, 13))
HOPS = tuple(
    Hop(NodeId(bytes([number]) * 32), onion_public_key(private)) for number, private in enumerate(PRIVATE_KEYS, 1)
)
Tamper = Callable[[int, bool, bytes], bytes]
"""(link, is forward, body) -> body. Link 0 is between client and guard."""


class Line:
    """Place 0 is the client, 1 to 3 are the hops. `seen[link]` are the bodies that passed it."""

    def __init__(
        self,
        seed: int = 1,
        *,
        tamper: Tamper = lambda _link, _forward, body: body,
        tamper_answer: Callable[[int, bytes], bytes] = lambda _hop, answer: answer,
    ) -> None:
        self._dice = SeededEntropy(seed)
        self.tamper = tamper
        self._tamper_answer = tamper_answer
        self.client = ClientEnd(HOPS, entropy=self._dice.draw)
        self.hops: dict[int, HopEnd] = {}
        self.seen: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
        self.delivered: list[tuple[int, CellContent]] = []
        self.ended: dict[int, int | None] = {}
        self.is_built = False
        self._todo: deque[tuple[int, Effect]] = deque()

    def build(self) -> None:
        self.run(0, self.client.guard_answered(self.create(1, self.client.first_request)))

    def run(self, place: int, effects: tuple[Effect, ...]) -> None:
        self._todo.extend((place, effect) for effect in effects)
        while self._todo:
            at, effect = self._todo.popleft()
            self._todo.extend(self._execute(at, effect))

    def _execute(self, place: int, effect: Effect) -> list[tuple[int, Effect]]:  # noqa: PLR0911 - one per effect
        match effect:
            case SendForward(body):
                return self._on(place + 1, lambda end: end.forward_cell(self._pass(place, True, body)))
            case SendBackward(body) if place == 1:
                return [(0, each) for each in self.client.received(self._pass(0, False, body))]
            case SendBackward(body):
                return self._on(place - 1, lambda end: end.backward_cell(self._pass(place - 1, False, body)))
            case CreateNext(_, request, hop):
                answer = self.create(hop, request)
                return self._on(place, lambda end: end.next_created(answer))
            case DestroyForward():
                return self._on(place + 1, lambda end: end.destroyed(by_client_side=True))
            case DestroyBackward() if place == 1:
                return [(0, each) for each in self.client.destroyed()]
            case DestroyBackward():
                return self._on(place - 1, lambda end: end.destroyed(by_client_side=False))
            case Deliver(content, _):
                self.delivered.append((place, content))
            case Built():
                self.is_built = True
            case Ended(failed):
                self.ended[place] = failed
        return []

    def _on(self, place: int, act: Callable[[HopEnd], tuple[Effect, ...]]) -> list[tuple[int, Effect]]:
        return [(place, each) for each in act(self.hops[place])] if place in self.hops else []

    def create(self, hop: int, request: bytes) -> bytes:
        keys = {HOPS[hop - 1].onion_key: PRIVATE_KEYS[hop - 1]}
        layer, answer = answer_handshake(
            request,
            node_id=HOPS[hop - 1].node_id,
            onion_keys=keys,
            hop=hop,
            entropy=self._dice.draw(HOP_ENTROPY_BYTES),
        )
        self.hops[hop] = HopEnd(layer, random=self._dice.draw)
        return self._tamper_answer(hop, answer)

    def _pass(self, link: int, is_forward: bool, body: bytes) -> bytes:
        body = self.tamper(link, is_forward, body)
        self.seen[link].append(body)
        return body

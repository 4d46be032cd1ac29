"""What a hop costs: cells through one hop against a bare TLS forwarder, circuit requests, and a client's three layers.

One core, no sockets: TLS runs over memory on both sides of the hop, and CPU time counts, not the clock on the wall. The
cells that come in are made before the clock starts. Both contenders read TLS, split frames and write TLS; ours also
removes a layer and draws fresh random bytes behind it.
"""

import os
import ssl
import time
from typing import Final

from restante.core.circuit.client_end import ClientEnd, Hop
from restante.core.circuit.effects import CreateNext, SendBackward, SendForward
from restante.core.circuit.hop_end import HopEnd
from restante.crypto.identity import Identity
from restante.crypto.onion import HOP_ENTROPY_BYTES, answer_handshake, onion_public_key, start_handshake
from restante.model.ids import NodeId
from restante.runtime.transport.tls import client_context, server_context
from restante.wire.circuit.cells import CellClass, CellContent, Command, max_data_bytes
from restante.wire.circuit.frames import CircuitFrameType, encode_circuit_frame
from restante.wire.frames.codec import FrameSplitter

ROUNDS: Final = 7
CELLS: Final = 4_096  # in one round
BATCH: Final = 64
CONNECTIONS: Final = 64
REQUESTS: Final = 300
MESSAGES: Final = 1_000
SECRETS: Final = tuple(bytes([number]) * 32 for number in (1, 2, 3))
HOPS: Final = tuple(
    Hop(NodeId(bytes([number]) * 32), onion_public_key(secret)) for number, secret in enumerate(SECRETS, 1)
)
DATA: Final = CellContent(Command.DATA, 1, bytes(max_data_bytes(CellClass.SMALL)))
_READ_BYTES: Final = 262_144


class Pipe:
    """TLS over memory: what is written at one end is read at the other."""

    def __init__(self, context: ssl.SSLContext) -> None:
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.near = client_context().wrap_bio(back, there, server_side=False)
        self.far = context.wrap_bio(there, back, server_side=True)
        self.wire, self.back = there, back
        for end in (self.near, self.far, self.near, self.far):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue

    def encrypt(self, raw: bytes) -> bytes:
        self.near.write(raw)
        return self.wire.read()


def built() -> tuple[ClientEnd, dict[int, HopEnd]]:
    """Return a client and its three hops."""
    client = ClientEnd(HOPS, entropy=os.urandom)
    hops: dict[int, HopEnd] = {}

    def create(number: int, request: bytes) -> bytes:
        keys = {HOPS[number - 1].onion_key: SECRETS[number - 1]}
        layer, answer = answer_handshake(
            request,
            node_id=HOPS[number - 1].node_id,
            onion_keys=keys,
            hop=number,
            entropy=os.urandom(HOP_ENTROPY_BYTES),
        )
        hops[number] = HopEnd(layer, random=os.urandom)
        return answer

    effects = client.guard_answered(create(1, client.first_request))
    for _ in range(2):
        [sent] = [each for each in effects if isinstance(each, SendForward)]
        body, place = sent.body, 1
        while True:
            [effect] = hops[place].forward_cell(body)
            if isinstance(effect, CreateNext):
                break
            assert isinstance(effect, SendForward)
            body, place = effect.body, place + 1
        [back] = hops[place].next_created(create(effect.hop, effect.request))
        while place > 1:
            assert isinstance(back, SendBackward)
            place -= 1
            [back] = hops[place].backward_cell(back.body)
        assert isinstance(back, SendBackward)
        effects = client.received(back.body)
    return client, hops


class Forwarder:
    """One hop between `connections` incoming TLS connections and one outgoing, `batch` cells a write."""

    def __init__(self, *, connections: int, batch: int, peels: bool) -> None:
        self._context = server_context(Identity(b"h" * 32))
        self._incoming = [Pipe(self._context) for _ in range(connections)]
        self._splitters = [FrameSplitter() for _ in range(connections)]
        self._out = Pipe(self._context)
        self._batch = batch
        circuits = [built() for _ in range(connections)]
        self._clients = [client for client, _ in circuits]
        self._hops = [hops[1] for _, hops in circuits]
        self._peels = peels
        self._ready: list[tuple[int, bytes]] = []

    def prepare(self) -> None:
        """Make the TLS bytes of one round."""
        self._ready = []
        count = len(self._incoming)
        for turn in range(CELLS // self._batch):
            place = turn % count
            frames = []
            for _ in range(self._batch):
                [sent] = self._clients[place].send(DATA, CellClass.SMALL)
                assert isinstance(sent, SendForward)
                frames.append(encode_circuit_frame(CircuitFrameType.CELL, 0x8000_0001, sent.body))
            self._ready.append((place, self._incoming[place].encrypt(b"".join(frames))))

    def run(self) -> int:
        for place, raw in self._ready:
            pipe = self._incoming[place]
            pipe.wire.write(raw)
            got = []
            while pipe.wire.pending or pipe.far.pending():
                try:
                    got.append(pipe.far.read(_READ_BYTES))
                except ssl.SSLWantReadError:
                    break
            sent = []
            for frame in self._splitters[place].feed(b"".join(got)):
                body = frame.body
                if self._peels:
                    [effect] = self._hops[place].forward_cell(body)
                    assert isinstance(effect, SendForward)
                    body = effect.body
                sent.append(encode_circuit_frame(CircuitFrameType.CELL, frame.request, body))
            self._out.near.write(b"".join(sent))
            self._out.wire.read()
        return CELLS


def compare(name: str, *, connections: int, batch: int, bar: float) -> None:
    ours = Forwarder(connections=connections, batch=batch, peels=True)
    bare = Forwarder(connections=connections, batch=batch, peels=False)
    rates: dict[str, list[float]] = {"hop": [], "bare TLS forwarder": []}
    for _ in range(ROUNDS):
        for label, contender in (("hop", ours), ("bare TLS forwarder", bare)):
            contender.prepare()
            began = time.process_time()
            done = contender.run()
            rates[label].append(done / (time.process_time() - began))
    hop, plain = (sorted(seen)[len(seen) // 2] for seen in rates.values())
    verdict = "ok" if hop / plain >= bar else "BELOW THE BAR"
    print(
        f"  {name:<34} {hop:>10,.0f} cells/s   {hop / plain:5.2f} x bare ({plain:,.0f})   {verdict} (at least {bar:g})"
    )


def requests() -> None:
    """Circuit requests a second that one core answers, and a client's share of a circuit."""
    keys = {HOPS[0].onion_key: SECRETS[0]}
    made = [start_handshake(HOPS[0].node_id, HOPS[0].onion_key, hop=1, entropy=os.urandom(96)) for _ in range(REQUESTS)]
    rates = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for each in made:
            answer_handshake(
                each.request, node_id=HOPS[0].node_id, onion_keys=keys, hop=1, entropy=os.urandom(HOP_ENTROPY_BYTES)
            )
        rates.append(REQUESTS / (time.process_time() - began))
    rate = sorted(rates)[ROUNDS // 2]
    print(f"  {'CREATE':<34} {rate:>10,.0f} /s a core   {'ok' if rate >= 2_500 else 'BELOW THE BAR'} (at least 2,500)")


def client_share() -> None:
    """CPU of the client: three layers for the three cells of an ordinary message."""
    client, _ = built()
    began = time.process_time()
    for _ in range(MESSAGES):
        for _ in range(3):
            client.send(DATA, CellClass.SMALL)
    took = (time.process_time() - began) / MESSAGES
    print(f"  {'client, layers of one message':<34} {took * 1e6:>10,.1f} us")


def main() -> None:
    compare("2-KiB cells, 64 a write", connections=1, batch=BATCH, bar=0.65)
    compare("2-KiB cells, 64 connections, 1 a write", connections=CONNECTIONS, batch=1, bar=0.8)
    requests()
    client_share()


if __name__ == "__main__":
    main()

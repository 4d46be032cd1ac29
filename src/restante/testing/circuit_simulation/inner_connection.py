"""A simulated inner connection to one node: handshake, requests with their limit, heartbeats, pushes.

It does what core/link and runtime/transport/mesh_connection do at the client's end.
"""

from typing import TYPE_CHECKING, Final

from restante.core.link.client_end import ANSWER_TIMEOUT_S
from restante.model.ids import InboxKey, NodeId, PayloadHash
from restante.policy.circuits.silence import inner_connect_limit_s
from restante.policy.connection_limits import RelayLimits
from restante.testing.circuit_simulation.client_circuit import SimulatedCircuit, StreamUser
from restante.testing.circuit_simulation.hop import ASK, ECHO, PUSHED
from restante.testing.circuit_simulation.pool import Got, NoCircuit, SimulatedPool
from restante.testing.circuit_simulation.world import TICKET_BYTES, World
from restante.testing.mesh_simulation.values import Answered, Failed, Handle

if TYPE_CHECKING:
    from restante.testing.circuit_simulation.transport import CircuitTransport

INBOX: Final = "inbox"
EXITS: Final = 2
"""Different exits of one inbox, at least (SPEC 11.6)."""
HANDSHAKE_ROUND_TRIPS: Final = 2
"""TLS, and the greeting of the node."""
IDLE_MS: Final = 60_000
LIMIT_MS: Final = int(1_000 * ANSWER_TIMEOUT_S)
KEY_BYTES: Final = 32
_LIMITS: Final = RelayLimits()


class InnerConnection(StreamUser):
    def __init__(self, transport: "CircuitTransport", world: World, pool: SimulatedPool, node_id: NodeId) -> None:
        self.node_id = node_id
        self.circuit: SimulatedCircuit | None = None
        self.subscribed: set[int] = set()
        """Buckets whose new mail the node pushes here."""
        self._transport = transport
        self._world = world
        self._engine = world.engine
        self._pool = pool
        self._stream = 0
        self._trips = 0
        self._is_over = False
        self._used_ms = self._heard_ms = world.engine.now_ms
        self._asked: dict[bytes, tuple[Answered, Failed]] = {}

    def open(self) -> None:
        self._pool.acquire(INBOX, self._begin, avoid=frozenset({self.node_id}), wants_exits=EXITS)

    def ask(self, handle: Handle, answered: Answered, failed: Failed) -> None:
        ticket = self._world.tickets.issue({self.node_id: handle})
        self._asked[ticket] = answered, failed
        self._used_ms = self._engine.now_ms
        if self._is_ready:
            self._write(ASK + ticket)
            self._engine.after(LIMIT_MS, self._timed_out, ticket)

    def close(self) -> None:
        if self.circuit is not None:
            self.circuit.close_stream(self._stream)
        self.on_over()

    def on_connected(self) -> None:
        self._write(ECHO)

    def on_data(self, data: bytes) -> None:
        self._heard_ms = self._engine.now_ms
        kind, rest = data[:1], data[1:]
        if kind == ECHO:
            self._echoed()
        elif kind == PUSHED:
            self._transport.on_push(InboxKey(rest[:KEY_BYTES]), PayloadHash(rest[KEY_BYTES:]))
        else:
            ticket, answer = rest[:TICKET_BYTES], self._world.tickets.take(rest[TICKET_BYTES:])
            asked = self._asked.pop(ticket, None)
            self._world.tickets.forget(ticket)
            if asked is not None:
                asked[0](answer)

    def on_over(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        is_circuit_open = self.circuit is not None and self.circuit.is_open
        self._transport.lost(self)
        asked, self._asked = self._asked, {}
        for _, failed in asked.values():
            failed(was_asked=is_circuit_open)

    @property
    def _is_ready(self) -> bool:
        return self._trips >= HANDSHAKE_ROUND_TRIPS

    def _begin(self, circuit: Got) -> None:
        if isinstance(circuit, NoCircuit) or circuit.is_full:
            self.on_over()
            return
        self.circuit = circuit
        self._stream = circuit.begin(self.node_id, self)
        limit_s = inner_connect_limit_s(self._pool.times.timeout_s)
        self._engine.after(1_000 * limit_s, self._connect_timed_out)

    def _echoed(self) -> None:
        self._trips += 1
        if self._trips < HANDSHAKE_ROUND_TRIPS:
            self._write(ECHO)
        if self._trips != HANDSHAKE_ROUND_TRIPS:
            return  # or it is a heartbeat
        for ticket in self._asked:
            self._write(ASK + ticket)
            self._engine.after(LIMIT_MS, self._timed_out, ticket)
        self._engine.after(_LIMITS.heartbeat_interval_ms, self._beat)

    def _beat(self) -> None:
        """Send a heartbeat; end a connection that is idle, or over which nothing has come for long."""
        if self._is_over:
            return
        now_ms = self._engine.now_ms
        is_idle = not self.subscribed and now_ms - self._used_ms >= IDLE_MS
        if is_idle or now_ms - self._heard_ms > _LIMITS.idle_timeout_ms:
            self.close()
            return
        self._write(ECHO)
        self._engine.after(_LIMITS.heartbeat_interval_ms, self._beat)

    def _write(self, data: bytes) -> None:
        if self.circuit is not None:
            self.circuit.write(self._stream, data)

    def _connect_timed_out(self) -> None:
        if not self._is_ready and not self._is_over:
            self.close()

    def _timed_out(self, ticket: bytes) -> None:
        """The node is silent. The connection stays: its circuit is given up if nothing comes over it at all."""
        asked = self._asked.pop(ticket, None)  # the ticket stays: the request may still arrive after a partition
        if asked is not None:
            asked[1]()

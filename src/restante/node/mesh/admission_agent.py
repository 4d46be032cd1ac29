"""Dials nodes before they count in the directory: hosts `core.directory.admission`."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from restante.core.directory.admission import Admission, Admit, Dial, DialFailed, Dialled, Effect, Offered
from restante.model.ids import NodeId
from restante.model.node_descriptor import Endpoint, NodeDescriptor
from restante.model.sources import Source
from restante.node.mesh.peer_data import failing_the_peer
from restante.node.mesh.peer_pool import PeerPool
from restante.policy.mesh.dialling import DialPace
from restante.policy.mesh.scopes import may_dial, narrowest
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.event_wait import set_or_after

SHORTEST_PAUSE_S: Final = 0.01
"""Between two looks at the queues, however many descriptors come."""


@dataclass(slots=True)
class AdmissionAgent:
    """`start` runs a coroutine beside the others until the node stops. `on_admitted` gets what may count."""

    pool: PeerPool
    is_private: bool
    own_endpoints: Callable[[], tuple[Endpoint, ...]]
    start: Callable[[Coroutine[Any, Any, None]], None]
    on_admitted: Callable[[NodeDescriptor], None]
    dials: int = 0
    dials_failed: int = 0
    machine: Admission = field(init=False)
    _is_working: bool = False
    _has_news: asyncio.Event = field(default_factory=asyncio.Event)
    _has_ended: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.machine = Admission(DialPace(now_s=0.0, is_private=self.is_private))

    def offer(self, descriptor: NodeDescriptor, source: Source) -> None:
        """Decide about a descriptor that is newer than the one held, and verified."""
        if not self.may_dial(descriptor):
            return
        self._execute(self.machine.step(descriptor.node_id, Offered(descriptor, source), now_ms=_steady_ms()))
        self._continue()

    def may_dial(self, descriptor: NodeDescriptor) -> bool:
        """Return whether a stranger's descriptor leads to no narrower scope than this node's own."""
        return may_dial(descriptor.endpoints, own=narrowest(self.own_endpoints()))

    async def checked(self, nodes: Iterable[NodeId]) -> None:
        """Return when each of these nodes was dialled once, or is not to be dialled."""
        left = set(nodes)
        while left := {each for each in left if self.machine.is_unchecked(each)}:
            self._has_ended.clear()
            await self._has_ended.wait()

    async def _work(self) -> None:
        """Take turns until no candidate waits."""
        try:
            while (wait_ms := self._take_turns()) is not None:
                self._has_news.clear()
                await set_or_after(self._has_news, wait_ms / 1_000)
                await asyncio.sleep(SHORTEST_PAUSE_S)
        finally:
            self._is_working = False

    def _take_turns(self) -> int | None:
        now_ms = _steady_ms()
        self._execute(self.machine.take_turns(now_ms))
        self._has_ended.set()  # candidates may have been given up
        return self.machine.wait_ms(now_ms)

    def _execute(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case Dial(node):
                    self.start(self._dial(node))
                case Admit(node):
                    self.on_admitted(node)

    async def _dial(self, node: NodeDescriptor) -> None:
        self.dials += 1
        try:
            with failing_the_peer():
                await self.pool.check(node)
        except AttemptFailed:
            self.dials_failed += 1
            self._execute(self.machine.step(node.node_id, DialFailed(), now_ms=_steady_ms()))
        else:
            self._execute(self.machine.step(node.node_id, Dialled(), now_ms=_steady_ms()))
        finally:
            self._has_ended.set()
            self._continue()

    def _continue(self) -> None:
        self._has_news.set()
        if len(self.machine) and not self._is_working:
            self._is_working = True
            self.start(self._work())


def _steady_ms() -> int:
    """Return the time of a clock that never jumps."""
    return round(asyncio.get_running_loop().time() * 1_000)

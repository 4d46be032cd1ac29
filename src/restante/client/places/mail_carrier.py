"""The carrier of mail: stores each message at the first of its recipient's places that takes it (SPEC 3.14).

    async with MailCarrier(contacts, connect_by_tls, schedule=..., clock=..., entropy=...) as carrier:
        await outbox.drain({Route.RELAY: carrier, Route.MESH: carrier})

A lane is a recipient, whatever its places. An entry's payload is its sealed bytes; the envelope is built for each
attempt and place. A message without receipt is stored once more at the next place, and then, each time before its
newest copy expires, at every place (SPEC 10.4). From the second time on it goes to the public inbox: the recipient may
not have the contacts inbox any more that we know.
"""

from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Final, Protocol, Self

from restante.client.contacts import Recipient
from restante.client.relay.connections import NotReached, RelayConnections
from restante.client.relay.connector import Connector
from restante.core.mesh_proofs.receipts import evidence_of
from restante.core.relay_envelope import build_relay_envelope
from restante.crypto.blinded_keys import NO_SECRET
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.model.ids import Address
from restante.model.outbox_entry import OutboxEntry
from restante.model.places import MeshPlace, Place, RelayPlace
from restante.policy.completion import stores_at_every_place
from restante.policy.failures import Failure, failure_of_refusal
from restante.policy.retry import RetrySchedule
from restante.ports.carrier import StoredByNode
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed
from restante.wire.inbox_keys import node_id_of

TRY_NEXT_PLACE: Final = frozenset(
    {Code.NETWORK_UNREACHABLE, Code.CIRCUIT_BUILD_FAILED, Code.DHT_LOOKUP_FAILED, Code.STORAGE_FAILED}
)
"""SPEC 3.14: an attempt has failed when all places answered E001 to E004. Another code ends it at once."""


class Recipients(Protocol):
    """Maps lanes to recipients; a `ContactBook` does."""

    @property
    def places(self) -> Collection[Place]:
        """Every place of every recipient, once."""
        ...

    def recipient(self, lane: str) -> Recipient | None: ...


class MeshStore(Protocol):
    """Stores mail in the mesh; `client.mesh.storing.MeshStorage` does."""

    def can_try(self) -> bool: ...

    async def store(
        self, entry: OutboxEntry, *, recipient: Address, access_secret: bytes
    ) -> tuple[StoredByNode, ...]: ...


class MailCarrier:
    """Satisfies `ports.carrier.Carrier`, for the routes `relay` and `mesh`."""

    def __init__(
        self,
        recipients: Recipients,
        connect: Connector,
        *,
        schedule: RetrySchedule,
        clock: Clock,
        entropy: Entropy,
        mesh: MeshStore | None = None,
        secret_of: Callable[[Address], bytes] = lambda _: NO_SECRET,
        on_change: Callable[[], None] = lambda: None,
        on_wrong_key: Callable[[], None] = lambda: None,
    ) -> None:
        """`secret_of` names the access secret of a recipient's contacts inbox; without one mail goes to the public one.

        `on_change` is called when lanes may have become connected, `on_wrong_key` when another node answered.
        """
        self._recipients = recipients
        self._clock = clock
        self._mesh = mesh
        self._secret_of = secret_of
        self._connections = RelayConnections(
            connect, schedule=schedule, entropy=entropy, on_change=on_change, on_wrong_key=on_wrong_key
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connections.close()

    def is_up(self) -> bool:
        """Return whether any place of any contact can be tried; with no contacts, old entries must still fail."""
        places = self._recipients.places
        return not places or any(map(self._can_try, places))

    def is_connected(self, lane: str) -> bool:
        """Return whether one of the lane's places can be tried. A lane without contact counts, so that it fails."""
        recipient = self._recipients.recipient(lane)
        return recipient is None or any(map(self._can_try, recipient.places))

    async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
        recipient = self._recipients.recipient(entry.lane)
        if recipient is None:
            raise AttemptFailed("the recipient is no contact", failure=Failure.RECIPIENT_KEY_NOT_FOUND)
        failed: AttemptFailed = NotReached()
        stored_by: list[StoredByNode] = []
        for place in _in_turn(recipient.places, entry.times_stored):
            try:
                stored_by += await self._store(entry, recipient, place)
                if not stores_at_every_place(entry.times_stored):
                    break
            except AttemptFailed as problem:
                was_reached = problem.reached and not isinstance(problem, NotReached)
                if was_reached and problem.code not in TRY_NEXT_PLACE and not stored_by:
                    raise
                if was_reached or isinstance(failed, NotReached):
                    failed = problem  # a failure after a connection counts; one without does not hide it
        if not stored_by:
            raise failed
        return tuple(stored_by)

    def _can_try(self, place: Place) -> bool:
        if isinstance(place, MeshPlace):
            return self._mesh is not None and self._mesh.can_try()
        return self._connections.can_try(place)

    async def _store(self, entry: OutboxEntry, recipient: Recipient, place: Place) -> tuple[StoredByNode, ...]:
        """Store at one place: in the contacts inbox, and once more in the public one; if that is full, in the other."""
        secret = self._secret_of(recipient.address)
        if not entry.times_stored or secret == NO_SECRET:
            return await self._store_in(secret, entry, recipient, place)
        try:
            return await self._store_in(NO_SECRET, entry, recipient, place)
        except AttemptFailed as failed:
            if failed.code is not Code.STORAGE_FAILED:
                raise
            return await self._store_in(secret, entry, recipient, place)

    async def _store_in(
        self, secret: bytes, entry: OutboxEntry, recipient: Recipient, place: Place
    ) -> tuple[StoredByNode, ...]:
        if isinstance(place, RelayPlace):
            envelope = self._envelope(entry, recipient, place, secret)
            receipt = await self._connections.put(place, envelope)
            return (StoredByNode(node_id_of(place.node_key), evidence_of(envelope, receipt)),)
        if self._mesh is None:
            raise NotReached("this client knows no node of the mesh", failure=Failure.DHT_LOOKUP_FAILED)
        return await self._mesh.store(entry, recipient=recipient.address, access_secret=secret)

    def _envelope(self, entry: OutboxEntry, recipient: Recipient, place: RelayPlace, secret: bytes) -> bytes:
        try:
            return build_relay_envelope(
                entry.payload,
                recipient=recipient.address,
                relay=place.node_key,
                access_secret=secret,
                kind=entry.kind,
                expires_at_ms=entry.expires_at_ms,
                now_ms=self._clock.now_ms(),
            )
        except RestanteError as problem:
            raise AttemptFailed(str(problem), failure=failure_of_refusal(problem.code, permanent=True)) from problem


def _in_turn(places: Sequence[Place], times_stored: int) -> list[Place]:
    """Return the places in the order to try: one further each time the message was stored before (SPEC 3.14)."""
    first = times_stored % len(places) if places else 0
    return [*places[first:], *places[:first]]

"""client/relay/connections: how long a relay that can't be reached is left alone, by the kind of failure (SPEC 4.3)."""

import asyncio

import pytest

from restante.client.relay.connections import NotReached, RelayConnections
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.model.ids import NodeKey
from restante.model.places import RelayPlace
from restante.policy.failures import Failure
from restante.policy.retry import RetrySchedule
from restante.ports.relay_connection import AttemptFailed, RelayConnection
from restante.testing.deterministic import FakeClock, SeededEntropy
from restante.testing.virtual_time import run_in_virtual_time
from support.spec.clauses import clause

PLACE = RelayPlace(node_key=NodeKey(b"n" * 32), host="127.0.0.1", port=1)
MINUTE_S = 60


def dialled_at_s(failure: Failure, *, dials: int) -> list[int]:
    """The seconds at which a relay is dialled by a sender that tries to put whenever it may."""

    async def main() -> list[int]:
        loop, times = asyncio.get_running_loop(), []
        may_try = asyncio.Event()

        async def connect(_place: RelayPlace, _inbox: OwnInbox | None) -> RelayConnection:
            times.append(round(loop.time()))
            raise AttemptFailed("no", failure=failure)

        connections = RelayConnections(
            connect, schedule=RetrySchedule(jitter=0.0), entropy=SeededEntropy(1), on_change=may_try.set
        )
        while len(times) < dials:
            with pytest.raises(NotReached) as refused:
                await connections.put(PLACE, b"envelope")
            assert refused.value.failure is failure, "the outbox waits by the kind of failure, too"
            assert not connections.can_try(PLACE)
            may_try.clear()
            await may_try.wait()
        await connections.close()
        return times

    return run_in_virtual_time(main(), FakeClock())


@clause("4.3")
def test_a_relay_whose_tls_handshake_fails_is_dialled_again_after_five_minutes_more_each_time() -> None:
    assert dialled_at_s(Failure.TLS_HANDSHAKE_FAILED, dials=4) == [0, 5 * MINUTE_S, 15 * MINUTE_S, 30 * MINUTE_S]


@clause("4.1", "4.3")
def test_a_relay_that_refuses_connections_is_dialled_again_after_twice_the_time_each_time() -> None:
    assert dialled_at_s(Failure.CONNECTION_REFUSED, dials=5) == [0, 1, 3, 7, 15]

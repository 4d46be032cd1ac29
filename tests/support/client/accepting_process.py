"""A client that accepts messages until it is killed, and says each id only once `send` has returned.

Run as a program: `python accepting_process.py <home>`. Between messages it leases, fails and ends entries, so that a
kill may fall into any of these.
"""

import asyncio
import itertools
import sys
from pathlib import Path

from restante.client.client import Client
from restante.client.contacts import Contact, ContactBook
from restante.core.outbox_events import Event, ReceiptAcked, TransmitFailed, TransmitSucceeded
from restante.core.signed_bundles import sign_bundle
from restante.core.signed_places import sign_places
from restante.crypto.identity import Identity
from restante.crypto.prekeys import PrekeyStore, prekeys_due, renew_due
from restante.model.ids import node_key
from restante.model.places import RelayPlace
from restante.policy.failures import Failure
from restante.policy.settings import Settings
from restante.runtime.system import SystemClock, SystemEntropy

READERS = tuple(Identity(bytes([number]) * 32) for number in range(1, 21))  # few entries a lane: none is evicted
SENDER = Identity(b"s" * 32)


def relay(number: int) -> RelayPlace:
    return RelayPlace(node_key=node_key(b"n" * 32), host="127.0.0.1", port=number)


def contact(reader: Identity, number: int) -> Contact:
    now_ms, entropy = SystemClock().now_ms(), SystemEntropy()
    due = prekeys_due(PrekeyStore(), now_ms=now_ms)
    prekeys = renew_due(PrekeyStore(), entropy=entropy.draw(due.entropy_bytes), now_ms=now_ms)
    bundle = sign_bundle(prekeys, reader, now_ms=now_ms)
    return Contact(
        card=reader.card,
        bundle=bundle,
        places=sign_places((relay(number),), reader, now_ms=now_ms),
        name=f"reader-{number}",
    )


def open_client(home: Path) -> Client:
    contacts = ContactBook(home / "contacts")
    if contacts.get(READERS[-1].address) is None:
        for number, reader in enumerate(READERS, start=1):
            contacts.add(contact(reader, number))
    return Client(
        home / "client.db",
        SENDER,
        contacts=contacts,
        places=(relay(9),),
        settings=Settings(),
        clock=SystemClock(),
        entropy=SystemEntropy(),
    )


async def accept_on_and_on(client: Client) -> None:
    clock = SystemClock()
    endings: tuple[Event | None, ...] = (
        TransmitSucceeded(),
        TransmitFailed(owner="me", failure=Failure.NETWORK_TIMEOUT),
        ReceiptAcked(),
        TransmitFailed(owner="me", failure=Failure.TOO_LARGE),
        None,  # left as it is: claimed
    )
    events = itertools.cycle(endings)

    def lease_and_end() -> None:
        leased = client.outbox.store.lease_next(owner="me", now_ms=clock.now_ms())
        event = next(events)
        if leased is not None and event is not None:
            client.outbox.store.apply(leased.message_id, event, now_ms=clock.now_ms())

    for number in itertools.count():
        receipt = await client.send(READERS[number % len(READERS)].address, b"message %d" % number)
        sys.stdout.write(receipt.message_id.hex() + "\n")
        sys.stdout.flush()
        await client.file.run(lease_and_end)


def main() -> None:
    asyncio.run(accept_on_and_on(open_client(Path(sys.argv[1]))))


if __name__ == "__main__":
    main()

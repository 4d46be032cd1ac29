"""A client that accepts messages until it is killed, and says each id only once `send` has returned.

Run as a program: `python accepting_process.py <home>`. Between messages it leases, fails and ends entries, so that a
kill may fall into any of these.
"""

import itertools
import sys
from pathlib import Path

from restante.client.client import Client
from restante.core.outbox_events import ReceiptAcked, TransmitFailed, TransmitSucceeded
from restante.crypto.identity import Identity
from restante.policy.failures import Failure
from restante.policy.settings import Settings
from restante.runtime.system import SystemClock, SystemEntropy

SENDER, READER = Identity(b"s" * 32), Identity(b"r" * 32)
LANES = 20  # few entries a lane, so that none is evicted


def open_client(home: Path) -> Client:
    return Client(
        home / "client.db",
        SENDER,
        contacts={READER.address: READER.card},
        settings=Settings(),
        clock=SystemClock(),
        entropy=SystemEntropy(),
    )


def main() -> None:
    client = open_client(Path(sys.argv[1]))
    clock = SystemClock()
    events = itertools.cycle(
        [
            TransmitSucceeded(),
            TransmitFailed(owner="me", failure=Failure.NETWORK_TIMEOUT),
            ReceiptAcked(),
            TransmitFailed(owner="me", failure=Failure.TOO_LARGE),
            None,  # left as it is: claimed
        ]
    )
    for number in itertools.count():
        receipt = client.send(READER.address, b"message %d" % number, lane=f"relay-{number % LANES}")
        sys.stdout.write(receipt.message_id.hex() + "\n")
        sys.stdout.flush()
        leased = client.outbox.lease_next(owner="me", now_ms=clock.now_ms())
        event = next(events)
        if leased is not None and event is not None:
            client.outbox.apply(leased.message_id, event, now_ms=clock.now_ms())


if __name__ == "__main__":
    main()

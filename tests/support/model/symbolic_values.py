"""The values of the symbolic world: messages, ratchets, clients and its state (support/model/symbolic_world)."""

from typing import NamedTuple

from restante.core.peer_sessions import PeerSessions
from restante.model.ids import MessageId, PayloadHash, SessionId


class Mail(NamedTuple):
    sender: int
    number: int


class Receipt(NamedTuple):
    mails: frozenset[Mail]


class Named(NamedTuple):
    """A CANNOT_READ."""

    hashes: frozenset[PayloadHash]


class Lost(NamedTuple):
    """A LOST."""


Body = Mail | Receipt | Named | Lost
Path = tuple[int, ...]


class Envelope(NamedTuple):
    to: int
    session: SessionId
    generation: int
    opening: tuple[int | None] | None
    path: Path
    number: int
    body: Body
    random: int
    sequence: int
    """Its place in the order of its session and sender; `number` begins again with each turn."""
    previous: int
    """How many messages its sender says to have sent in its turn before."""

    @property
    def sender(self) -> int:
        return 1 - self.to


class Ratchet(NamedTuple):
    path: Path
    number: int
    one_time: int | None
    used: frozenset[tuple[Path, int]]
    next_sequence: int = 0
    previous: int = 0
    ends: tuple[tuple[Path, int], ...] = ()
    """The turns of the peer that have ended, each with the number from which no key was kept."""


class Client(NamedTuple):
    """Everything of one client that is on its disk and comes back from a backup."""

    peer: PeerSessions = PeerSessions()
    ratchets: tuple[tuple[SessionId, Ratchet], ...] = ()
    outbox: tuple[tuple[Mail, int], ...] = ()
    shown: frozenset[Mail] = frozenset()
    accepted: frozenset[Mail] = frozenset()
    seen: frozenset[int] = frozenset()
    consumed: frozenset[tuple[SessionId, int]] = frozenset()
    """The places in the peer's order that were read, also of sessions that were deleted."""
    to_acknowledge: frozenset[Mail] = frozenset()
    acknowledged_again: frozenset[Mail] = frozenset()
    next_one_time: int = 0
    used_one_time: frozenset[int] = frozenset()


class State(NamedTuple):
    """The world between two steps. Counters of openings, incarnations, mails and controls are not part of any disk."""

    clients: tuple[Client, Client] = (Client(), Client())
    network: frozenset[int] = frozenset()
    opened: tuple[int, int] = (0, 0)
    incarnation: tuple[int, int] = (0, 0)
    rolled_back: frozenset[Mail] = frozenset()
    mails: tuple[int, int] = (0, 0)
    controls: tuple[int, int] = (0, 0)


class KeyUsedTwice(Exception):
    """One message key encrypted two plaintexts."""


class Envelopes:
    """Envelopes by number, so that a state holds small integers."""

    def __init__(self) -> None:
        self.all: list[Envelope] = []
        self._numbers: dict[Envelope, int] = {}

    def number(self, envelope: Envelope) -> int:
        known = self._numbers.get(envelope)
        if known is None:
            known = self._numbers[envelope] = len(self.all)
            self.all.append(envelope)
        return known


def hash_of(number: int) -> PayloadHash:
    return PayloadHash(number.to_bytes(4, "big"))


def id_of(body: Body, number: int) -> MessageId:
    """Mail keeps its id when it is encrypted again; every control message has an id of its own."""
    if isinstance(body, Mail):
        return MessageId(bytes((body.sender, body.number)))
    return MessageId(b"control" + number.to_bytes(4, "big"))

"""A real client whose states can be taken up again: its file is in memory and copied per state.

A step is one call of the product's client, then everything it has to send. Each step from each state runs once: a
client's answer depends on its file, the clock and what happens, so that the search may use the answer again.
"""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from restante.client.client import Client
from restante.core.peer_sessions import PeerSessions
from restante.core.session_messages import unseal_envelope
from restante.core.signed_bundles import sign_bundle
from restante.crypto.identity import Identity
from restante.model.ids import PayloadHash
from restante.policy.ack_batching import AckBatching
from restante.policy.reorder_limits import OrderLimits
from restante.policy.settings import Settings
from restante.runtime.restore_counter import counter_path
from restante.testing.deterministic import FakeClock, SeededEntropy
from restante.wire.session_message import SessionMessage
from support.client.client_pairs import Post, client_in

PAGE_BYTES = 4_096
DAY_MS = 86_400_000
SETTINGS = Settings(acks=AckBatching(max_wait_ms=0), order=OrderLimits(gap_timeout_ms=DAY_MS))
"""Receipts are due at once and gaps wait a day: the search decides when time passes."""
MAX_TRIES = 2_000
"""A fifth session of one side and generation sorts as it should in at least one try of 64."""
PEER = "peer"
_READ = """SELECT message_id FROM inbox_message
     UNION ALL SELECT message_id FROM reorder_buffer WHERE sealed_plaintext IS NOT NULL"""

Result = TypeVar("Result")
Operation = Callable[[Client], Awaitable[object]]


class Run(Protocol):
    """Run a coroutine to its end: an event loop's `run_until_complete`."""

    def __call__(self, coroutine: Coroutine[Any, Any, Result], /) -> Result: ...


class Seen(NamedTuple):
    """What a state shows: what the rules remember, the messages that were read, and the hashes of unreceipted mail."""

    peer: PeerSessions
    read: frozenset[bytes]
    owed: frozenset[PayloadHash]


class Sent(NamedTuple):
    """An envelope that left the client, and what its recipient finds in it."""

    raw: bytes
    message: SessionMessage
    payload_hash: PayloadHash

    @property
    def number(self) -> int:
        return int.from_bytes(self.message.ratchet[32:36], "big")


IsUsable = Callable[[Seen], bool]


class Local(NamedTuple):
    pages: tuple[bytes, ...]
    now_ms: int
    restore_counter: int
    seen: Seen


class Step(NamedTuple):
    local: int
    sent: tuple[Sent, ...]


class SearchEntropy(SeededEntropy):
    """Fresh bytes for each step; the dice always show the least, so that no delay is drawn."""

    def __init__(self, name: str) -> None:
        self._name = int.from_bytes(name.encode()) << 64
        super().__init__(self._name)

    def reseed(self, step: int) -> None:
        super().__init__(self._name + step)

    def dice(self) -> float:
        return -1.0


class ForkableClient:
    """One side. `steps` counts what the real client did; `keys` are all (ratchet key, number, random bytes)."""

    def __init__(self, home: Path, run: Run) -> None:
        self.home = home
        self.run = run
        self.clock = FakeClock()
        self.entropy = SearchEntropy(home.name)
        self.steps = 0
        self.keys: dict[bytes, PayloadHash] = {}
        self._locals: list[Local] = []
        self._known: dict[object, list[Step]] = {}
        self._pages: dict[bytes, bytes] = {}
        self._post = Post(self.clock)
        self._peer: Identity | None = None
        self.client = self._open()

    @property
    def peer(self) -> Identity:
        assert self._peer is not None
        return self._peer

    def meet(self, other: "ForkableClient") -> None:
        """Know the other with one one-time prekey, as if the access secret had been told before."""
        self._peer = other.client.identity
        contact = self.run(other.client.as_contact())
        prekeys = other.client.parts.sessions.prekeys()
        one = dict([next(iter(prekeys.one_time.items()))])
        bundle = sign_bundle(replace(prekeys, one_time=one), other.client.identity, now_ms=self.clock.now_ms())
        self.client.contacts.add(replace(contact, bundle=bundle, name=PEER))
        self._take_as_told()

    def _take_as_told(self) -> None:
        """The rules that are explored say nothing of access secrets: the peer has it and uses it."""
        told, access = self.peer.address, self.client.parts.access

        def tell() -> None:
            access.mark_told(told, now_ms=self.clock.now_ms())
            access.note_arrival(told, is_in_contacts_inbox=True)

        self.run(self.client.file.run(tell))

    def first(self) -> int:
        """Return the state in which the client is now."""
        return self._keep(self._look())

    def local(self, number: int) -> Local:
        return self._locals[number]

    def step(self, local: int, what: object, operation: Operation, *, is_usable: IsUsable) -> Step:
        """Do one step from a state. It is repeated with other random bytes until its result is usable."""

        def begin() -> list[bytes]:
            self._load(local)
            return self.run(self._do(operation))

        return self._once((local, what), begin, is_usable)

    def restore(self, backup: int, *, now_ms: int, is_known: bool, life: int, is_usable: IsUsable) -> Step:
        """Put the file of an earlier state back and open it, with the counter of now or of then beside it.

        What was lost does not matter. `life` counts restores: each life draws its own random bytes.
        """

        def begin() -> list[bytes]:
            self.run(self.client.close())
            database = self.home / "client.db"
            for suffix in ("-wal", "-shm"):
                database.with_name(database.name + suffix).unlink(missing_ok=True)
            database.write_bytes(b"".join(self._locals[backup].pages))
            self.clock.at_ms = now_ms
            in_file = self._locals[backup].restore_counter
            counter_path(database).write_bytes((in_file + 5 if is_known else in_file).to_bytes(8, "big"))
            self.client = self._open()
            self._take_as_told()  # after a known restore a client states its access secret again
            return self.run(self._post.collect(self.client))

        return self._once((backup, now_ms, is_known, life), begin, is_usable)

    def _once(self, what: object, begin: Callable[[], list[bytes]], is_usable: IsUsable) -> Step:
        """Return a usable result of earlier, or make one."""
        earlier = self._known.setdefault(what, [])
        for step in earlier:
            if is_usable(self._locals[step.local].seen):
                return step
        for _ in range(MAX_TRIES):
            self.steps += 1
            self.entropy.reseed(self.steps)
            sent = begin()
            seen = self._look()
            if is_usable(seen):
                step = Step(self._keep(seen), self._checked(sent))
                earlier.append(step)
                return step
        raise AssertionError(f"no usable result of {what} in {MAX_TRIES} tries")

    def close(self) -> None:
        self.run(self.client.close())

    def _open(self) -> Client:
        return client_in(self.home, clock=self.clock, settings=SETTINGS, entropy=self.entropy)

    async def _do(self, operation: Operation) -> list[bytes]:
        await operation(self.client)
        return await self._post.collect(self.client)

    def _load(self, local: int) -> None:
        state = self._locals[local]
        database = self.client.file.database
        database._connection.deserialize("main", b"".join(state.pages))
        database.roll_back()  # what the client remembers of its file is not true any more
        self.clock.at_ms = state.now_ms

    def _look(self) -> Seen:
        sessions, peer = self.client.parts.sessions, self.peer.address
        database = self.client.file.database
        read = [bytes(message_id) for (message_id,) in database.rows(_READ)]
        assert len(set(read)) == len(read), "a message is shown twice"
        return Seen(sessions.peer(peer), frozenset(read), frozenset(each.payload_hash for each in sessions.owed(peer)))

    def _keep(self, seen: Seen) -> int:
        image = bytearray(self.client.file.database._connection.serialize("main"))
        image[18:20] = b"\x01\x01"  # a file in memory has no write-ahead log
        raw = bytes(image)
        pages = (raw[at : at + PAGE_BYTES] for at in range(0, len(raw), PAGE_BYTES))
        kept = tuple(self._pages.setdefault(page, page) for page in pages)
        counter = int.from_bytes(self.client.journal.get_meta("restore_counter") or b"", "big")
        self._locals.append(Local(kept, self.clock.now_ms(), counter, seen))
        return len(self._locals) - 1

    def _checked(self, envelopes: list[bytes]) -> tuple[Sent, ...]:
        sent = []
        for raw in envelopes:
            opened = unseal_envelope(raw, recipient=self.peer)
            key = opened.message.ratchet[:36] + opened.message.ratchet[40:56]
            assert self.keys.setdefault(key, opened.payload_hash) == opened.payload_hash, "a message key is used twice"
            sent.append(Sent(raw, opened.message, opened.payload_hash))
        return tuple(sent)

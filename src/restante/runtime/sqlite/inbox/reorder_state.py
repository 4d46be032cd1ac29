"""Read and write the state of core/inbox: one row per incoming session."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from restante.core.inbox import InboxSession, Phase, SkippedRange, next_wake_ms
from restante.model.ids import Address, SessionId, SessionTag
from restante.policy.reorder_limits import OrderLimits
from restante.runtime.sqlite.file.database import Database, load_queries

NO_ROW: Final = 0
KNOWN_SESSIONS: Final = 1_024
_GAP: Final = struct.Struct(">IIQ")
_SQL: Final = load_queries("inbox/store")
_FIND: Final = _SQL["find_session"]
_SAVE: Final = _SQL["save_session"]


@dataclass(slots=True)
class KeptSession:
    """A session during a batch. `state` is its state now; `saved` is what the file has."""

    row: int
    sender: Address
    session_id: SessionId
    tag: SessionTag
    saved: InboxSession
    state: InboxSession


class SessionTable:
    """Rows that were written lately are in memory while no other connection writes to the file."""

    def __init__(self, database: Database, limits: OrderLimits) -> None:
        self._database = database
        self._limits = limits
        self._known: dict[tuple[Address, SessionId], tuple[int, InboxSession]] = {}
        database.on_invalidate(self._known.clear)

    def load(self, sender: Address, session_id: SessionId, tag: SessionTag) -> KeptSession:
        """Return the session. An unknown one gets its row with its first message that can be read."""
        row, state = self._known.get((sender, session_id)) or self._read(sender, session_id)
        return KeptSession(row, sender, session_id, tag, state, state)

    def _read(self, sender: Address, session_id: SessionId) -> tuple[int, InboxSession]:
        rows = self._database.rows(_FIND, sender, session_id)
        if not rows:
            return NO_ROW, InboxSession()
        [(row, phase, expected, missing)] = rows
        waiting = self._database.rows(_SQL["waiting_in"], row) if phase == Phase.WAITING else []
        state = InboxSession(
            phase=Phase(phase),
            expected=expected,
            waiting={number: at_ms for number, at_ms, _ in waiting},
            placeholders=frozenset(number for number, _, is_placeholder in waiting if is_placeholder),
            missing=tuple(SkippedRange(*values) for values in _GAP.iter_unpack(missing)),
        )
        return row, state

    def ensure_row(self, kept: KeptSession) -> int:
        """Return the row of the session; add it if there is none."""
        if kept.row == NO_ROW:
            self._database.rows(_SQL["add_session"], kept.sender, kept.session_id)
            kept.row = self._database.last_insert()
        return kept.row

    def save(self, kept: KeptSession) -> None:
        """Write everything but the buffered messages, whose rows were written when they arrived."""
        state = kept.state
        if state is kept.saved:
            return
        self.ensure_row(kept)
        missing = b"".join(_GAP.pack(gap.first, gap.last, gap.skipped_at_ms) for gap in state.missing)
        wake_at_ms = next_wake_ms(state, limits=self._limits)
        self._database.defer(_SAVE, (state.phase, state.expected, missing, wake_at_ms, kept.row))
        if len(self._known) >= KNOWN_SESSIONS:
            self._known.clear()
        self._known[kept.sender, kept.session_id] = kept.row, state

    def due(self, *, now_ms: int) -> Iterator[tuple[Address, SessionId]]:
        for sender, session_id in self._database.rows(_SQL["sessions_due"], now_ms):
            yield Address(sender), SessionId(session_id)

    def next_wake_ms(self) -> int | None:
        [(at_ms,)] = self._database.rows(_SQL["next_wake"])
        return None if at_ms is None else int(at_ms)

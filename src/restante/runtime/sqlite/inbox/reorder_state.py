"""Incoming sessions as rows: core/inbox's state out of the file and back into it."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from restante.core.inbox import InboxSession, Phase, SkippedRange, next_wake_ms
from restante.core.inbox_events import ResetReason
from restante.model.ids import Address, SessionId, SessionTag
from restante.policy.reorder_limits import OrderLimits
from restante.runtime.sqlite.file.database import Database, load_queries

_GAP: Final = struct.Struct(">IIQ")
_SQL: Final = load_queries("inbox/store")
_FIND: Final = _SQL["find_session"]


@dataclass(slots=True)
class KeptSession:
    """A session while a batch works on it. `state` moves on; `saved` is what the file has."""

    row: int
    sender: Address
    session_id: SessionId
    tag: SessionTag
    saved: InboxSession
    state: InboxSession


class SessionTable:
    def __init__(self, database: Database, limits: OrderLimits) -> None:
        self._database = database
        self._limits = limits

    def load(self, sender: Address, session_id: SessionId, tag: SessionTag) -> KeptSession:
        """The session, made when it was never heard of."""
        rows = self._database.rows(_FIND, sender, session_id)
        if not rows:
            self._database.rows(_SQL["add_session"], sender, session_id)
            fresh = InboxSession()
            return KeptSession(self._database.last_insert(), sender, session_id, tag, fresh, fresh)
        [(row, phase, expected, missing, asked_at_ms, reason)] = rows
        waiting = self._database.rows(_SQL["waiting_in"], row) if phase == Phase.WAITING else []
        state = InboxSession(
            phase=Phase(phase),
            expected=expected,
            waiting={number: at_ms for number, at_ms, _ in waiting},
            void=frozenset(number for number, _, is_void in waiting if is_void),
            missing=tuple(SkippedRange(*values) for values in _GAP.iter_unpack(missing)),
            asked_at_ms=asked_at_ms,
            reason=None if reason is None else ResetReason(reason),
        )
        return KeptSession(row, sender, session_id, tag, state, state)

    def save(self, kept: KeptSession) -> None:
        """Everything but what waits: those rows were written when they came."""
        state = kept.state
        if state is kept.saved:
            return
        self._database.rows(
            _SQL["save_session"],
            state.phase,
            state.expected,
            b"".join(_GAP.pack(gap.first, gap.last, gap.skipped_at_ms) for gap in state.missing),
            state.asked_at_ms,
            state.reason,
            next_wake_ms(state, limits=self._limits),
            kept.row,
        )

    def due(self, *, now_ms: int) -> Iterator[tuple[Address, SessionId]]:
        for sender, session_id in self._database.rows(_SQL["sessions_due"], now_ms):
            yield Address(sender), SessionId(session_id)

    def next_wake_ms(self) -> int | None:
        [(at_ms,)] = self._database.rows(_SQL["next_wake"])
        return None if at_ms is None else int(at_ms)

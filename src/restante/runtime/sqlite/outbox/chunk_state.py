"""The table behind core/channel_delivery's `ChunkState`: written before a platform is called, gone with the payload."""

from typing import Final

from restante.core.channel_delivery import UNTOUCHED, ChunkState
from restante.model.ids import MessageId
from restante.runtime.sqlite.file.database import Database, load_queries

_SQL: Final = load_queries("outbox/chunk_state")
_STORE: Final = _SQL["store"]
_REMOVE: Final = _SQL["remove"]


class ChannelProgress:
    """Rows only. Every call is part of a transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(self, message_id: MessageId) -> ChunkState:
        for is_open, crashes, lost_answers, as_plain, part_limit, offset in self._database.rows(
            _SQL["load"], message_id
        ):
            return ChunkState(
                is_open=is_open == 1,
                crashes=crashes,
                lost_answers=lost_answers,
                as_plain=as_plain == 1,
                part_limit=part_limit,
                offset=offset,
            )
        return UNTOUCHED

    def store(self, message_id: MessageId, progress: ChunkState) -> None:
        self._database.defer(
            _STORE,
            (
                message_id,
                progress.is_open,
                progress.crashes,
                progress.lost_answers,
                progress.as_plain,
                progress.part_limit,
                progress.offset,
            ),
        )

    def remove(self, message_id: MessageId) -> None:
        self._database.defer(_REMOVE, (message_id,))

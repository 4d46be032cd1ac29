"""What other nodes send must not end this one: an error that nobody expected is the failure of the node that sent it.

Only what runs forever (`agent`) may end the node, because it must not go on half alive.
"""

import contextlib
from collections.abc import Iterator

from restante.model.errors import LocalProtocolError, RestanteError
from restante.node.safe_logging import Event, Level, log
from restante.policy.failures import Failure
from restante.ports.relay_connection import AttemptFailed


@contextlib.contextmanager
def failing_the_peer() -> Iterator[None]:
    """Raise `AttemptFailed` for every error inside."""
    try:
        yield
    except AttemptFailed:
        raise
    except Exception as error:  # whatever it is, it came of what one node sent
        note_failure(error)
        raise AttemptFailed("what the node sent could not be handled", failure=Failure.INVALID_FORMAT) from error


def note_failure(error: BaseException) -> None:
    """Log how work ended that one node caused, unless it is what such work may meet."""
    if isinstance(error, LocalProtocolError) or not isinstance(error, RestanteError):
        log(Level.ERROR, Event.PEER_DATA_FAILED, error)

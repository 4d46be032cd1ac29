"""`restante security` explains every event that a client can report."""

import pytest

from restante.cli.client.security import MEANINGS
from restante.client.incoming import FOREIGN_ACK, INVALID_TAG
from restante.client.introductions.requests import REQUEST_REFUSED, UNKNOWN_SENDER
from restante.client.maintenance import WRONG_NODE_KEY
from restante.client.message_encryptor import NO_ONE_TIME_PREKEY
from restante.client.sessions.prekey_renewal import OLD_PREKEYS
from restante.client.sessions.recovery import CANNOT_RECOVER, RECOVERY_LIMIT, RESTORED
from restante.model.error_codes import Code
from restante.model.states import Verdict

REPORTED = (
    *(FOREIGN_ACK, INVALID_TAG, REQUEST_REFUSED, UNKNOWN_SENDER, WRONG_NODE_KEY, NO_ONE_TIME_PREKEY, OLD_PREKEYS),
    *(
        CANNOT_RECOVER,
        RECOVERY_LIMIT,
        RESTORED,
        Verdict.COLLISION,
        Verdict.REPLAY,
        Code.SESSION_INVALID,
        Code.MALFORMED,
    ),
)


@pytest.mark.parametrize("code", REPORTED)
def test_every_security_event_has_an_explanation(code: str) -> None:
    assert MEANINGS[str(code)]

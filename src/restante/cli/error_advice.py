"""What to do about each error code, and the exit status of a command that ends with it.

The advice for delivery codes is in policy/failures. Codes E1xx, which are never retried, have theirs here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from restante.model.error_codes import Code
from restante.policy.failures import CODE_RULES

EXIT_FAILURE: Final = 1
EXIT_BAD_INPUT: Final = 2  # as for an unknown option
EXIT_UNDELIVERED: Final = 3  # the command worked, and found messages that failed: dead, expired or evicted
EXIT_INTERRUPTED: Final = 130  # 128 + SIGINT

BAD_INPUT: Final = frozenset({Code.MALFORMED, Code.OUT_OF_RANGE, Code.CONFIGURATION_INVALID})

REFUSAL_ADVICE: Final[Mapping[Code, str]] = MappingProxyType(
    {
        Code.MALFORMED: "Check the input against its format. Nothing was changed.",
        Code.OUT_OF_RANGE: "See the ranges with 'restante policy settings' and 'restante policy kinds'.",
        Code.AUTHENTICATION_FAILED: "If this error comes again, compare addresses with the contact.",
        Code.OUTBOX_FULL: "Wait until messages are sent, or raise outbox.max_entries or outbox.max_payload_bytes.",
        Code.DUPLICATE_MESSAGE_ID: "The first message is kept. Give this one a new message_id.",
        Code.STORE_UNUSABLE: "Check that the file exists, that no other process holds it, and that the disk has room.",
        Code.CONFIGURATION_INVALID: "Options: --help. Settings: 'restante policy settings'.",
        Code.ILLEGAL_TRANSITION: "This is a bug in Restante or in the program that embeds it. Please report it.",
        Code.NOT_FOUND: "Check the name, id or path.",
        Code.ENVIRONMENT_UNSUITABLE: "Correct what the message names, then run the command again.",
        Code.CARRIER_FAILED: "A carrier raised an undeclared error, see the log. The message is sent again.",
        Code.TIMED_OUT: "The message is still sent. Wait longer, or look again later.",
        Code.CHANNEL_REFUSED: "The platform rejects this message. Check the chat and the permissions of the bot.",
        Code.CHANNEL_ABSENT: "Add the channel to the configuration, then run 'restante dlq recover'.",
        Code.SEND_UNSURE: "Look into the chat. Recover the dead letter if it is not there, delete it if it is.",
        Code.CHANNEL_UNAVAILABLE: "The message is sent again later. Test the platform with 'restante channel test'.",
    }
)


def advice_for(code: Code) -> str:
    """One line on what to do next."""
    return CODE_RULES[code].advice if code in CODE_RULES else REFUSAL_ADVICE[code]


def exit_status(code: Code) -> int:
    return EXIT_BAD_INPUT if code in BAD_INPUT else EXIT_FAILURE

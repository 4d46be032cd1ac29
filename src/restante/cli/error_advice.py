"""What a person can do about each code, and the exit status it ends a command with.

The delivery codes have their advice in policy/failures; the refusals E1xx, which never reach a retry, have it here.
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
        Code.MALFORMED: "Check what was given against its format; nothing was changed.",
        Code.OUT_OF_RANGE: "See the ranges with 'restante policy settings' and 'restante policy kinds'.",
        Code.AUTHENTICATION_FAILED: "The session is reset by itself; if it comes back, compare addresses.",
        Code.OUTBOX_FULL: "Wait until messages have left, or raise outbox.max_entries or max_payload_bytes.",
        Code.DUPLICATE_MESSAGE_ID: "The first message is kept; give this one a new message_id.",
        Code.STORE_UNUSABLE: "Check that the file and its key are in place, and that the disk has room.",
        Code.CONFIGURATION_INVALID: "See the options with --help, and every key with 'restante policy settings'.",
        Code.ILLEGAL_TRANSITION: "This is a bug in Restante or in the program that embeds it: please report it.",
        Code.NOT_FOUND: "Check the name or path. A message that is gone was delivered, deleted or has expired.",
        Code.ENVIRONMENT_UNSUITABLE: "Install what is missing, then run the command again.",
        Code.CHANNEL_REFUSED: "The platform will never take it: check the chat and what the bot may do there.",
        Code.CHANNEL_ABSENT: "Add it to the configuration (see 'restante channel list'), then recover its messages.",
        Code.SEND_UNSURE: "Look into the chat: recover the message if it is not there, delete it if it is.",
        Code.CHANNEL_UNAVAILABLE: "Nothing to do: it is sent again. Ask the platform with 'restante channel test'.",
    }
)


def advice_for(code: Code) -> str:
    """One line on what to do next."""
    return CODE_RULES[code].advice if code in CODE_RULES else REFUSAL_ADVICE[code]


def exit_status(code: Code) -> int:
    return EXIT_BAD_INPUT if code in BAD_INPUT else EXIT_FAILURE

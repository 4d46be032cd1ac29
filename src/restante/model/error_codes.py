"""Stable error codes for callers, journal events and exit statuses.

E001-E010 are the delivery codes of SPEC 4.4. E1xx are ours, for errors that SPEC names without a code
(docs/decisions/0004). E12x belong to channels. policy/failures decides what to do for a code.
"""

from enum import StrEnum


class Code(StrEnum):
    """A reason whose meaning never changes. Match on the code, never on a text."""

    NETWORK_UNREACHABLE = "E001"
    CIRCUIT_BUILD_FAILED = "E002"
    DHT_LOOKUP_FAILED = "E003"
    STORAGE_FAILED = "E004"
    RECIPIENT_NOT_FOUND = "E005"
    MESSAGE_TOO_LARGE = "E006"
    RATE_LIMITED = "E007"
    ENCRYPTION_FAILED = "E008"
    SESSION_INVALID = "E009"
    TTL_EXPIRED = "E010"

    MALFORMED = "E101"
    OUT_OF_RANGE = "E102"
    AUTHENTICATION_FAILED = "E103"
    OUTBOX_FULL = "E104"
    DUPLICATE_MESSAGE_ID = "E105"
    STORE_UNUSABLE = "E106"
    CONFIGURATION_INVALID = "E107"
    ILLEGAL_TRANSITION = "E108"
    NOT_FOUND = "E109"
    ENVIRONMENT_UNSUITABLE = "E110"
    CARRIER_FAILED = "E111"
    TIMED_OUT = "E112"

    CHANNEL_REFUSED = "E120"
    CHANNEL_ABSENT = "E121"
    SEND_UNSURE = "E122"
    CHANNEL_UNAVAILABLE = "E123"


DELIVERY_CODES: tuple[Code, ...] = tuple(code for code in Code if code.value < "E100")
"""The ten codes of SPEC 4.4, in order."""

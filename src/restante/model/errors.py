"""The exceptions of the product. Each carries a stable code; the text is for people and may change."""

from restante.model.error_codes import Code


class RestanteError(Exception):
    """Base of everything that Restante raises on purpose."""

    code: Code
    accepted = 0
    """How many messages of one `send_many` were accepted before this."""

    def __init__(self, text: str, *, code: Code) -> None:
        super().__init__(text)
        self.code = code


class LocalProtocolError(RestanteError):
    """This program, or the code that embeds it, broke a rule: a bug on this side."""

    def __init__(self, text: str, *, code: Code = Code.ILLEGAL_TRANSITION) -> None:
        super().__init__(text, code=code)


class RemoteProtocolError(RestanteError):
    """Input from outside breaks a rule. It must never crash the process."""

    def __init__(self, text: str, *, code: Code = Code.MALFORMED) -> None:
        super().__init__(text, code=code)


class Malformed(RemoteProtocolError, ValueError):
    """Bytes or text that do not follow their format."""


class OutOfRange(RestanteError, ValueError):
    """A number outside its allowed range; the text names the key and the range (SPEC 2.5)."""

    def __init__(self, key: str, value: object, *, low: float, high: float, unit: str = "") -> None:
        suffix = f" {unit}" if unit else ""
        super().__init__(f"{key} = {value} is outside {low}..{high}{suffix}", code=Code.OUT_OF_RANGE)
        self.key = key
        self.value = value
        self.low = low
        self.high = high


class TooLarge(RestanteError, ValueError):
    """More bytes than a message may have (SPEC 2.8)."""

    def __init__(self, what: str, *, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"{what} has {size_bytes} bytes; at most {limit_bytes} are allowed", code=Code.MESSAGE_TOO_LARGE
        )
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class OutboxFull(RestanteError):
    """The outbox is at its limit. Nothing was accepted and nothing evicted (SPEC 3.6)."""

    def __init__(self, text: str, *, limit: int, lane: str = "") -> None:
        """`lane` is the lane that is full; empty if a relay, the reserve for control messages or the whole outbox is.

        `limit` is the number of messages or bytes that it takes.
        """
        super().__init__(text, code=Code.OUTBOX_FULL)
        self.limit = limit
        self.lane = lane


class DuplicateMessageId(RestanteError):
    """The message_id is in use. The first message is unchanged; this one is refused."""

    def __init__(self) -> None:
        super().__init__("this message_id was accepted before; mint a new one", code=Code.DUPLICATE_MESSAGE_ID)


class StoreUnusable(RestanteError):
    """The database cannot be used. No accepted message is lost by this error."""

    def __init__(self, text: str) -> None:
        super().__init__(text, code=Code.STORE_UNUSABLE)


class DiskFull(StoreUnusable):
    """The disk has no space for this change."""


class ConfigurationInvalid(RestanteError, ValueError):
    """The configuration has an unknown key, a wrong type or an unreadable file."""

    def __init__(self, text: str) -> None:
        super().__init__(text, code=Code.CONFIGURATION_INVALID)


class EnvironmentUnsuitable(RestanteError):
    """This machine lacks something that the command needs. The text says what to install."""

    def __init__(self, text: str) -> None:
        super().__init__(text, code=Code.ENVIRONMENT_UNSUITABLE)

"""Our errors for arguments of the wrong type, so that none fails inside with a bare TypeError."""

from math import inf
from os import PathLike

from restante.model.error_codes import Code
from restante.model.errors import Malformed, OutOfRange, RestanteError
from restante.policy.settings import Settings


def wrong_type(rule: str, value: object) -> RestanteError:
    """Name the type only: the value may be secret or long."""
    return RestanteError(f"{rule}; got {type(value).__name__}", code=Code.MALFORMED)


def check_seconds(name: str, value: object) -> None:
    if not isinstance(value, int | float):
        raise Malformed(f"{name} must be a number of seconds; got {type(value).__name__}")
    if not value >= 0:  # NaN is no number of seconds either
        raise OutOfRange(name, value, low=0, high=inf, unit="s")


def check_opening(path: object, settings: object) -> None:
    """Check what `Client.open` and `Outbox.open` share."""
    if not isinstance(path, str | PathLike):
        raise wrong_type("open takes a path", path)
    if settings is not None and not isinstance(settings, Settings):
        raise wrong_type("settings must be a restante.Settings", settings)

"""The carriers that were given to an outbox. Where one raises instead of answering, it counts as down."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from restante.client.application.argument_checks import wrong_type
from restante.model.states import Route
from restante.ports.carrier import Carrier

_METHODS: Final = ("is_up", "is_connected", "transmit")
_LOG: Final = logging.getLogger("restante.outbox")


class Carriers:
    """One carrier a route."""

    def __init__(self, given: Mapping[Route, Carrier]) -> None:
        """Raise our error unless these can carry entries."""
        _check(given)
        self._given = given
        self._failing: set[Route] = set()

    def __bool__(self) -> bool:
        return bool(self._given)

    def __getitem__(self, route: Route) -> Carrier:
        return self._given[route]

    def get(self, route: Route) -> Carrier | None:
        return self._given.get(route)

    def routes_up(self) -> list[Route]:
        return [route for route, carrier in self._given.items() if self._answers(route, carrier.is_up)]

    def is_connected(self, route: Route, lane: str) -> bool:
        """Return whether an attempt on this lane makes sense now."""
        carrier = self._given.get(route)
        return (
            carrier is not None
            and self._answers(route, carrier.is_up)
            and self._answers(route, partial(carrier.is_connected, lane))
        )

    def _answers(self, route: Route, question: Callable[[], bool]) -> bool:
        try:
            answer = question()
        except Exception as crash:  # noqa: BLE001 - a carrier is the application's code
            if route not in self._failing:  # called often: only the first failure is logged
                self._failing.add(route)
                log_crash(route, crash, "its lanes wait")
            return False
        return answer


def log_crash(route: Route, crash: BaseException, effect: str) -> None:
    """Log that a carrier raised what it does not declare. The text may contain an address: only its type is logged."""
    _LOG.error("carrier of route %s raised %s; %s", route.value, type(crash).__name__, effect)
    _LOG.debug("the carrier's exception", exc_info=crash)


def _check(given: object) -> None:
    if not isinstance(given, Mapping):
        raise wrong_type("carriers must be a mapping from Route to a carrier", given)
    for route, carrier in given.items():
        if type(route) is not Route:
            raise wrong_type("carriers must be a mapping from Route to a carrier, such as {Route.RELAY: …}", route)
        for method in _METHODS:
            if not callable(getattr(carrier, method, None)):
                raise wrong_type(f"the carrier of {route} needs the method {method}", carrier)

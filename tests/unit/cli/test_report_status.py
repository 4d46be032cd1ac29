"""The exit status of `fleet report`: accounted for is not the same as delivered."""

import pytest

from restante.cli.fleet.commands import report_status
from restante.model.conservation_report import DayBalance
from restante.views.conservation_text import failed
from support.spec.clauses import clause


@clause("13.4")
@pytest.mark.parametrize(
    ("balance", "sound", "status"),
    [
        (DayBalance(day=None, accepted=1, delivered=1), True, 0),
        (DayBalance(day=None, accepted=1, in_flight=1), True, 0),
        (DayBalance(day=None, accepted=1, expired=1), True, 3),
        (DayBalance(day=None, accepted=1, evicted=1), True, 3),
        (DayBalance(day=None, accepted=1, dead=1), True, 3),
        (DayBalance(day=None, accepted=2, dead=1, unaccounted=1), False, 1),
    ],
)
def test_the_status_tells_failed_messages_from_missing_ones(balance: DayBalance, sound: bool, status: int) -> None:
    assert report_status(sound=sound, failed=failed(balance)) == status

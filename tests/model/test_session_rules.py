"""All interleavings of small worlds over core/peer_sessions: without any one rule, something breaks."""

from dataclasses import replace

import pytest

from restante.core.peer_sessions import ALL_RULES
from support.model.explorer import SCENARIOS, Explorer
from support.spec.clauses import clause

STATES_IN_MAKE_TEST = 1_500
STATES_IN_MAKE_EXPLORE = 80_000
"""Times 14 scenarios: more than a million."""

# Each rule by its field, with a small world that breaks without it.
WITHOUT = [
    ("newest_read", "known restore", "1: no common session"),
    ("sender_tag", "forger", "5: an outsider made a side leave its session"),
    ("name_envelopes", "old session forgotten", "2: mail without receipt"),
    ("open_when_unreadable", "known restore, fresh", "1: no common session"),
    ("random_key_bytes", "unnoticed restore", "3: a message key is used twice"),
    ("delete_on_loss", "known restore, fresh", "1: no common session"),
    ("plain_recovery", "everything", "1: more than two round trips"),
]


@clause("8.7")
@pytest.mark.parametrize("name", SCENARIOS)
def test_no_outsider_restore_or_loss_disturbs_two_clients_for_good(name: str) -> None:
    result = Explorer(ALL_RULES, SCENARIOS[name]).search(max_states=STATES_IN_MAKE_TEST)
    assert result.broken == {}
    assert result.is_complete or result.states >= STATES_IN_MAKE_TEST


@pytest.mark.soak
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_in_a_million_states(name: str) -> None:
    result = Explorer(ALL_RULES, SCENARIOS[name]).search(max_states=STATES_IN_MAKE_EXPLORE, seconds=3_600)
    assert result.broken == {}
    assert result.is_complete or result.states >= STATES_IN_MAKE_EXPLORE


@clause("8.7")
@pytest.mark.parametrize(("rule", "scenario", "broken"), WITHOUT)
def test_without_any_one_rule_a_property_breaks(rule: str, scenario: str, broken: str) -> None:
    result = Explorer(replace(ALL_RULES, **{rule: False}), SCENARIOS[scenario]).search(max_states=15_000)
    assert broken in result.broken

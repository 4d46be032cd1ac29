"""Decide what follows a failed attempt: retry, give up or remove (SPEC 4.3, 4.4).

The decision depends on the kind of failure and the number of attempts. A rule may say that a session must be reset or a
circuit rebuilt; the host does it. Nothing that a node says touches a session (SPEC 4.3): only our own failure to
encrypt does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from restante.model.error_codes import Code
from restante.model.states import DeadCategory, DeadReason
from restante.policy.dead_letters import category_of
from restante.policy.retry import Schedule, jittered_delay_ms, longest_delay_ms, longest_wait_ms

LINEAR_STEP_MS: Final = 300_000  # SPEC 4.3, TLS handshake failed: 5 min more with every attempt
UNKNOWN_RECIPIENT_DELAY_MS: Final = 3_600_000  # SPEC 4.3, recipient key not found: 1 h


class Failure(StrEnum):
    """How an attempt can fail: the rows of SPEC 4.3, then failures that only the codes of 4.4 name, then channels
    (12)."""

    NETWORK_TIMEOUT = "network_timeout"
    CONNECTION_REFUSED = "connection_refused"
    DHT_LOOKUP_FAILED = "dht_lookup_failed"
    CIRCUIT_BUILD_FAILED = "circuit_build_failed"
    INSUFFICIENT_REPLICATION = "insufficient_replication"
    TLS_HANDSHAKE_FAILED = "tls_handshake_failed"
    WRONG_NODE_KEY = "wrong_node_key"
    RECIPIENT_KEY_NOT_FOUND = "recipient_key_not_found"
    RATE_LIMITED = "rate_limited"
    INVALID_FORMAT = "invalid_format"
    AUTHENTICATION_FAILED = "authentication_failed"
    TOO_LARGE = "too_large"

    STORAGE_REFUSED = "storage_refused"
    EXPIRES_TOO_SOON = "expires_too_soon"
    """Too little time is left until the expiry, by the node's clock (SPEC 6.6)."""
    ENCRYPTION_FAILED = "encryption_failed"
    CARRIER_FAILED = "carrier_failed"
    """The carrier raised an exception that it does not declare."""
    TTL_EXPIRED = "ttl_expired"

    CHANNEL_UNAVAILABLE = "channel_unavailable"
    CHANNEL_REFUSED = "channel_refused"
    CHANNEL_ABSENT = "channel_absent"
    SEND_UNSURE = "send_unsure"


class Backoff(StrEnum):
    """How the wait before the next attempt is computed, if there is one."""

    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    ONE_HOUR = "one_hour"
    RETRY_AFTER = "retry_after"
    NEVER = "never"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRule:
    """One row: the code that the failure is reported under and the actions it needs."""

    code: Code
    backoff: Backoff
    counts_as_attempt: bool = True
    retries_once: bool = False
    notifies: bool = False
    resets_session: bool = False
    rebuilds_circuit: bool = False
    tries_other_nodes: bool = False


def _unreachable(code: Code) -> FailureRule:
    """Return the first row of SPEC 4.3: the place may be reachable another way."""
    return FailureRule(code=code, backoff=Backoff.EXPONENTIAL, rebuilds_circuit=True, tries_other_nodes=True)


FAILURE_RULES: Final[Mapping[Failure, FailureRule]] = MappingProxyType(
    {
        Failure.NETWORK_TIMEOUT: _unreachable(Code.NETWORK_UNREACHABLE),
        # No connection to a node of the place was made: SPEC 4.3 does not count such an attempt.
        Failure.CONNECTION_REFUSED: replace(_unreachable(Code.NETWORK_UNREACHABLE), counts_as_attempt=False),
        Failure.DHT_LOOKUP_FAILED: _unreachable(Code.DHT_LOOKUP_FAILED),
        Failure.CIRCUIT_BUILD_FAILED: _unreachable(Code.CIRCUIT_BUILD_FAILED),
        Failure.INSUFFICIENT_REPLICATION: _unreachable(Code.STORAGE_FAILED),
        Failure.TLS_HANDSHAKE_FAILED: FailureRule(code=Code.NETWORK_UNREACHABLE, backoff=Backoff.LINEAR),
        # Another node answers at the place. The message is not at fault: it waits until the pinned node is back.
        Failure.WRONG_NODE_KEY: FailureRule(
            code=Code.AUTHENTICATION_FAILED, backoff=Backoff.LINEAR, counts_as_attempt=False, notifies=True
        ),
        Failure.RECIPIENT_KEY_NOT_FOUND: FailureRule(
            code=Code.RECIPIENT_NOT_FOUND, backoff=Backoff.ONE_HOUR, notifies=True
        ),
        Failure.RATE_LIMITED: FailureRule(code=Code.RATE_LIMITED, backoff=Backoff.RETRY_AFTER, counts_as_attempt=False),
        Failure.INVALID_FORMAT: FailureRule(code=Code.MALFORMED, backoff=Backoff.NEVER),
        Failure.AUTHENTICATION_FAILED: FailureRule(code=Code.AUTHENTICATION_FAILED, backoff=Backoff.NEVER),
        Failure.TOO_LARGE: FailureRule(code=Code.MESSAGE_TOO_LARGE, backoff=Backoff.NEVER, notifies=True),
        # The circuit worked and is kept; only the node refused (SPEC 7.3: try other nodes).
        Failure.STORAGE_REFUSED: FailureRule(
            code=Code.STORAGE_FAILED, backoff=Backoff.EXPONENTIAL, tries_other_nodes=True
        ),
        # It depends on the node's clock (SPEC 6.10): the entry waits until it is stored or expires.
        Failure.EXPIRES_TOO_SOON: FailureRule(
            code=Code.STORAGE_FAILED, backoff=Backoff.EXPONENTIAL, counts_as_attempt=False, tries_other_nodes=True
        ),
        Failure.ENCRYPTION_FAILED: FailureRule(
            code=Code.ENCRYPTION_FAILED,
            backoff=Backoff.EXPONENTIAL,
            retries_once=True,
            resets_session=True,
        ),
        Failure.CARRIER_FAILED: FailureRule(code=Code.CARRIER_FAILED, backoff=Backoff.EXPONENTIAL),
        Failure.TTL_EXPIRED: FailureRule(code=Code.TTL_EXPIRED, backoff=Backoff.REMOVE, notifies=True),
        Failure.CHANNEL_UNAVAILABLE: FailureRule(code=Code.CHANNEL_UNAVAILABLE, backoff=Backoff.EXPONENTIAL),
        Failure.CHANNEL_REFUSED: FailureRule(code=Code.CHANNEL_REFUSED, backoff=Backoff.NEVER, notifies=True),
        Failure.CHANNEL_ABSENT: FailureRule(code=Code.CHANNEL_ABSENT, backoff=Backoff.NEVER, notifies=True),
        Failure.SEND_UNSURE: FailureRule(code=Code.SEND_UNSURE, backoff=Backoff.NEVER, notifies=True),
    }
)


_REFUSALS: Final[Mapping[str, Failure]] = MappingProxyType(
    {
        Code.MESSAGE_TOO_LARGE: Failure.TOO_LARGE,
        Code.RATE_LIMITED: Failure.RATE_LIMITED,
        Code.AUTHENTICATION_FAILED: Failure.AUTHENTICATION_FAILED,
    }
)


_TEMPORARY_REFUSALS: Final[Mapping[str, Failure]] = MappingProxyType(
    {Code.RATE_LIMITED: Failure.RATE_LIMITED, Code.OUT_OF_RANGE: Failure.EXPIRES_TOO_SOON}
)


def failure_of_refusal(code: str, *, permanent: bool) -> Failure:
    """Map a node's refusal to a failure (SPEC 6.7). An unknown code is classified by `permanent` alone.

    A temporary refusal never gives a permanent failure, whatever its code: it may depend on a clock (SPEC 6.10).
    """
    if permanent:
        return _REFUSALS.get(code, Failure.INVALID_FORMAT)
    return _TEMPORARY_REFUSALS.get(code, Failure.STORAGE_REFUSED)


class Action(StrEnum):
    """What happens to a message after a code, in one word."""

    RETRY = "retry"
    RETRY_IN_ONE_HOUR = "retry_in_one_hour"
    RETRY_WHEN_TOLD = "retry_when_told"
    RETRY_ONCE_REENCRYPTED = "retry_once_reencrypted"
    RETRY_REENCRYPTED = "retry_reencrypted"
    DEAD_LETTER = "dead_letter"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRule:
    """What to do for a delivery code, and one line of advice for the user."""

    action: Action
    notifies: bool = False
    advice: str


CODE_RULES: Final[Mapping[Code, CodeRule]] = MappingProxyType(
    {
        Code.NETWORK_UNREACHABLE: CodeRule(
            action=Action.RETRY, advice="Nothing to do: it is sent again when a node can be reached."
        ),
        Code.CIRCUIT_BUILD_FAILED: CodeRule(
            action=Action.RETRY, advice="Nothing to do: the client builds a new circuit and sends the message again."
        ),
        Code.DHT_LOOKUP_FAILED: CodeRule(
            action=Action.RETRY, advice="Nothing to do: the client asks other nodes and sends the message again."
        ),
        Code.STORAGE_FAILED: CodeRule(
            action=Action.RETRY, advice="Nothing to do: too few nodes stored it; the client tries others."
        ),
        Code.RECIPIENT_NOT_FOUND: CodeRule(
            action=Action.RETRY_IN_ONE_HOUR,
            notifies=True,
            advice="Check the address; the recipient may not have joined yet. The client retries hourly.",
        ),
        Code.MESSAGE_TOO_LARGE: CodeRule(
            action=Action.DEAD_LETTER, notifies=True, advice="Shorten or split the message, then send it again."
        ),
        Code.RATE_LIMITED: CodeRule(
            action=Action.RETRY_WHEN_TOLD, advice="Send more slowly; this message is sent when the wait is over."
        ),
        Code.ENCRYPTION_FAILED: CodeRule(
            action=Action.RETRY_ONCE_REENCRYPTED,
            advice="The client opens a new session and re-encrypts the message once; if that fails, recover it.",
        ),
        Code.SESSION_INVALID: CodeRule(
            action=Action.RETRY_REENCRYPTED,
            advice="Nothing to do: the client opens a new session and re-encrypts the message.",
        ),
        Code.TTL_EXPIRED: CodeRule(
            action=Action.REMOVE, notifies=True, advice="Its TTL passed; send it again with a longer one."
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAt:
    """Retry at that time. `counts` says whether the failed attempt counts towards the maximum."""

    at_ms: int
    counts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """Make the entry a dead letter."""

    reason: DeadReason
    category: DeadCategory
    code: Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """Remove the entry from the outbox, leaving a tombstone."""

    code: Code


Decision = RetryAt | GiveUp | Remove


def decide(
    failure: Failure,
    *,
    attempts: int,
    failures: int,
    now_ms: int,
    dice: float,
    schedule: Schedule,
    retry_after_ms: int | None = None,
    reached: bool = True,
    has_failed_to_encrypt: bool = False,
) -> Decision:
    """Decide what follows after `attempts` attempts and `failures` failed ones in a row, this one included.

    `reached` is False if no connection to a node of the place was made: such an attempt does not count (SPEC 4.3).
    """
    rule = FAILURE_RULES[failure]
    counts = rule.counts_as_attempt and (reached or not rule.rebuilds_circuit)
    if rule.backoff is Backoff.REMOVE:
        return Remove(code=rule.code)
    if rule.backoff is Backoff.NEVER or (rule.retries_once and has_failed_to_encrypt):
        return _give_up(DeadReason.PERMANENT_FAILURE, rule.code)
    if counts and attempts >= schedule.max_attempts:
        return _give_up(DeadReason.ATTEMPTS_EXHAUSTED, rule.code)
    wait_ms = _wait_ms(rule.backoff, failures=failures, dice=dice, schedule=schedule, retry_after_ms=retry_after_ms)
    return RetryAt(at_ms=now_ms + wait_ms, counts=counts)


def _give_up(reason: DeadReason, code: Code) -> GiveUp:
    return GiveUp(reason=reason, category=category_of(reason), code=code)


def delay_after_failure_ms(failure: Failure, *, attempts: int, dice: float, schedule: Schedule) -> int:
    """Return how long to wait before dialling a node again after `attempts` failures in a row (SPEC 4.1, 4.3)."""
    backoff = FAILURE_RULES[failure].backoff
    if backoff not in (Backoff.EXPONENTIAL, Backoff.LINEAR):
        backoff = Backoff.LINEAR  # refused for good by this node: it may be replaced or repaired
    return _wait_ms(backoff, failures=attempts, dice=dice, schedule=schedule, retry_after_ms=None)


def _wait_ms(backoff: Backoff, *, failures: int, dice: float, schedule: Schedule, retry_after_ms: int | None) -> int:
    if backoff is Backoff.LINEAR:
        return min(LINEAR_STEP_MS * failures, longest_delay_ms(schedule))
    if backoff is Backoff.ONE_HOUR:
        return UNKNOWN_RECIPIENT_DELAY_MS
    # Ignore a retry-after of 0: such attempts are not counted, so obeying it would loop without a pause.
    if backoff is Backoff.RETRY_AFTER and retry_after_ms is not None and retry_after_ms > 0:
        return min(retry_after_ms, longest_wait_ms(schedule))
    return jittered_delay_ms(schedule, attempt=failures, dice=dice)

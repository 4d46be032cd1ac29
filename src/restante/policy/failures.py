"""What a failed try means: try again, give up or remove (SPEC 4.3, 4.4).

Decides from the kind of failure and the number of tries. It does not know how a failure was noticed, nor does it
reset sessions or rebuild circuits: the rule only says that somebody must.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from restante.model.error_codes import Code
from restante.model.states import DeadCategory, DeadReason
from restante.policy.dead_letters import category_of
from restante.policy.retry import Schedule, jittered_delay_ms, longest_delay_ms

LINEAR_STEP_MS: Final = 300_000  # SPEC 4.3, TLS handshake failed: 5 min more with every try
UNKNOWN_RECIPIENT_DELAY_MS: Final = 3_600_000  # SPEC 4.3, recipient key not found: 1 h


class Failure(StrEnum):
    """How a try can fail: the rows of SPEC 4.3, then what only the codes of 4.4 name, then channels (12)."""

    NETWORK_TIMEOUT = "network_timeout"
    CONNECTION_REFUSED = "connection_refused"
    DHT_LOOKUP_FAILED = "dht_lookup_failed"
    CIRCUIT_BUILD_FAILED = "circuit_build_failed"
    INSUFFICIENT_REPLICATION = "insufficient_replication"
    TLS_HANDSHAKE_FAILED = "tls_handshake_failed"
    RECIPIENT_KEY_NOT_FOUND = "recipient_key_not_found"
    RATE_LIMITED = "rate_limited"
    INVALID_FORMAT = "invalid_format"
    AUTHENTICATION_FAILED = "authentication_failed"
    TOO_LARGE = "too_large"

    STORAGE_REFUSED = "storage_refused"
    LIFE_REFUSED = "life_refused"
    ENCRYPTION_FAILED = "encryption_failed"
    SESSION_INVALID = "session_invalid"
    TTL_EXPIRED = "ttl_expired"

    CHANNEL_UNAVAILABLE = "channel_unavailable"
    CHANNEL_REFUSED = "channel_refused"
    CHANNEL_ABSENT = "channel_absent"
    SEND_UNSURE = "send_unsure"


class Backoff(StrEnum):
    """How the wait before the next try is found, if there is a next try."""

    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    ONE_HOUR = "one_hour"
    RETRY_AFTER = "retry_after"
    NEVER = "never"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRule:
    """One row: the code the failure is reported under and all that has to be done about it."""

    code: Code
    backoff: Backoff
    counts_as_attempt: bool = True
    retries_once: bool = False
    notifies: bool = False
    resets_session: bool = False
    reencrypts: bool = False
    rebuilds_circuit: bool = False
    tries_other_nodes: bool = False


def _unreachable(code: Code) -> FailureRule:
    """The first row of SPEC 4.3: another way there may be open."""
    return FailureRule(code=code, backoff=Backoff.EXPONENTIAL, rebuilds_circuit=True, tries_other_nodes=True)


FAILURE_RULES: Final[Mapping[Failure, FailureRule]] = MappingProxyType(
    {
        Failure.NETWORK_TIMEOUT: _unreachable(Code.NETWORK_UNREACHABLE),
        Failure.CONNECTION_REFUSED: _unreachable(Code.NETWORK_UNREACHABLE),
        Failure.DHT_LOOKUP_FAILED: _unreachable(Code.DHT_LOOKUP_FAILED),
        Failure.CIRCUIT_BUILD_FAILED: _unreachable(Code.CIRCUIT_BUILD_FAILED),
        Failure.INSUFFICIENT_REPLICATION: _unreachable(Code.STORAGE_FAILED),
        Failure.TLS_HANDSHAKE_FAILED: FailureRule(code=Code.NETWORK_UNREACHABLE, backoff=Backoff.LINEAR),
        Failure.RECIPIENT_KEY_NOT_FOUND: FailureRule(
            code=Code.RECIPIENT_NOT_FOUND, backoff=Backoff.ONE_HOUR, notifies=True
        ),
        Failure.RATE_LIMITED: FailureRule(code=Code.RATE_LIMITED, backoff=Backoff.RETRY_AFTER, counts_as_attempt=False),
        Failure.INVALID_FORMAT: FailureRule(code=Code.MALFORMED, backoff=Backoff.NEVER),
        Failure.AUTHENTICATION_FAILED: FailureRule(
            code=Code.AUTHENTICATION_FAILED, backoff=Backoff.NEVER, resets_session=True
        ),
        Failure.TOO_LARGE: FailureRule(code=Code.MESSAGE_TOO_LARGE, backoff=Backoff.NEVER, notifies=True),
        # The circuit worked, so it stays; only the node said no (SPEC 7.3: retry elsewhere).
        Failure.STORAGE_REFUSED: FailureRule(
            code=Code.STORAGE_FAILED, backoff=Backoff.EXPONENTIAL, tries_other_nodes=True
        ),
        # Too little life left to be stored, or more than any node gives (SPEC 6.6): no later try can be better.
        Failure.LIFE_REFUSED: FailureRule(code=Code.OUT_OF_RANGE, backoff=Backoff.NEVER, notifies=True),
        Failure.ENCRYPTION_FAILED: FailureRule(
            code=Code.ENCRYPTION_FAILED,
            backoff=Backoff.EXPONENTIAL,
            retries_once=True,
            resets_session=True,
            reencrypts=True,
        ),
        Failure.SESSION_INVALID: FailureRule(
            code=Code.SESSION_INVALID, backoff=Backoff.EXPONENTIAL, resets_session=True, reencrypts=True
        ),
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
        Code.OUT_OF_RANGE: Failure.LIFE_REFUSED,
    }
)


def failure_of_refusal(code: str, *, permanent: bool) -> Failure:
    """How a sender sees a node's refusal (SPEC 6.7). A code nobody knows yet is judged by its permanence alone."""
    return _REFUSALS.get(code, Failure.INVALID_FORMAT if permanent else Failure.STORAGE_REFUSED)


class Action(StrEnum):
    """What becomes of a message that met a code, in one word."""

    RETRY = "retry"
    RETRY_IN_ONE_HOUR = "retry_in_one_hour"
    RETRY_WHEN_TOLD = "retry_when_told"
    RETRY_ONCE_REENCRYPTED = "retry_once_reencrypted"
    RETRY_REENCRYPTED = "retry_reencrypted"
    DEAD_LETTER = "dead_letter"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRule:
    """What to do for a delivery code, and one line for the person who meets it."""

    action: Action
    notifies: bool = False
    advice: str


CODE_RULES: Final[Mapping[Code, CodeRule]] = MappingProxyType(
    {
        Code.NETWORK_UNREACHABLE: CodeRule(
            action=Action.RETRY, advice="Nothing to do: it is sent again once a node can be reached."
        ),
        Code.CIRCUIT_BUILD_FAILED: CodeRule(
            action=Action.RETRY, advice="Nothing to do: a new circuit is built and the message sent again."
        ),
        Code.DHT_LOOKUP_FAILED: CodeRule(
            action=Action.RETRY, advice="Nothing to do: other nodes are asked and the message sent again."
        ),
        Code.STORAGE_FAILED: CodeRule(
            action=Action.RETRY, advice="Nothing to do: too few nodes took it; others are tried."
        ),
        Code.RECIPIENT_NOT_FOUND: CodeRule(
            action=Action.RETRY_IN_ONE_HOUR,
            notifies=True,
            advice="Check the address; the recipient may not have joined yet. Tried again hourly.",
        ),
        Code.MESSAGE_TOO_LARGE: CodeRule(
            action=Action.DEAD_LETTER, notifies=True, advice="Shorten or split the message, then send it anew."
        ),
        Code.RATE_LIMITED: CodeRule(
            action=Action.RETRY_WHEN_TOLD, advice="Send more slowly; this one goes out when the wait is over."
        ),
        Code.ENCRYPTION_FAILED: CodeRule(
            action=Action.RETRY_ONCE_REENCRYPTED,
            advice="The session is reset and the message sealed anew once; if that fails, recover it by hand.",
        ),
        Code.SESSION_INVALID: CodeRule(
            action=Action.RETRY_REENCRYPTED,
            advice="Nothing to do: a new session is agreed on and the message sealed anew.",
        ),
        Code.TTL_EXPIRED: CodeRule(
            action=Action.REMOVE, notifies=True, advice="It outlived its TTL; send it anew with a longer one."
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAt:
    """Try again then. `counts` says whether the failed try uses up one of the attempts."""

    at_ms: int
    counts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """Make it a dead letter."""

    reason: DeadReason
    category: DeadCategory
    code: Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """Take it out of the outbox; only a tombstone stays."""

    code: Code


Decision = RetryAt | GiveUp | Remove


def decide(
    failure: Failure,
    *,
    attempts: int,
    now_ms: int,
    dice: float,
    schedule: Schedule,
    retry_after_ms: int | None = None,
    already_reencrypted: bool = False,
) -> Decision:
    """What to do after `attempts` tries, the failed one included."""
    rule = FAILURE_RULES[failure]
    if rule.backoff is Backoff.REMOVE:
        return Remove(code=rule.code)
    if rule.backoff is Backoff.NEVER or (rule.retries_once and already_reencrypted):
        return _give_up(DeadReason.PERMANENT_FAILURE, rule.code)
    if rule.counts_as_attempt and attempts >= schedule.max_attempts:
        return _give_up(DeadReason.ATTEMPTS_EXHAUSTED, rule.code)
    wait_ms = _wait_ms(rule.backoff, attempts=attempts, dice=dice, schedule=schedule, retry_after_ms=retry_after_ms)
    return RetryAt(at_ms=now_ms + wait_ms, counts=rule.counts_as_attempt)


def _give_up(reason: DeadReason, code: Code) -> GiveUp:
    return GiveUp(reason=reason, category=category_of(reason), code=code)


def _wait_ms(backoff: Backoff, *, attempts: int, dice: float, schedule: Schedule, retry_after_ms: int | None) -> int:
    if backoff is Backoff.LINEAR:
        return min(LINEAR_STEP_MS * attempts, longest_delay_ms(schedule))
    if backoff is Backoff.ONE_HOUR:
        return UNKNOWN_RECIPIENT_DELAY_MS
    # A told wait of nothing is no information: obeyed, it would spin, since such tries are not counted.
    if backoff is Backoff.RETRY_AFTER and retry_after_ms is not None and retry_after_ms > 0:
        return retry_after_ms
    return jittered_delay_ms(schedule, attempt=attempts, dice=dice)
